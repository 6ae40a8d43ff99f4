"""The name of an object in protobuf, as client-go sends it."""

from __future__ import annotations

import base64

import pytest

from grader.wire.protobuf import object_name

#: A ConfigMap dns/record-1 with data, as apimachinery's serializer writes it.
CONFIG_MAP = base64.b64decode(
    "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEjQKGwoIcmVjb3JkLTESABoDZG5zIgAqADIAOABCABIVCgRob3N0Eg1h"
    "LmV4YW1wbGUuY29tGgAiAA=="
)


def test_the_name_of_an_object_is_read():
    assert object_name(CONFIG_MAP) == "record-1"


@pytest.mark.parametrize(
    "body",
    [b"", b'{"metadata": {"name": "a"}}', b"k8s\x00", b"k8s\x00\x0f\x0f", CONFIG_MAP[:20]],
    ids=["nothing", "json", "empty", "no such kind of field", "cut short"],
)
def test_what_has_no_name_is_no_error(body):
    assert object_name(body) == ""


def test_every_cut_of_it_is_read_without_an_error():
    for end in range(len(CONFIG_MAP)):
        assert object_name(CONFIG_MAP[:end]) in "record-1"
