"""What the process and the API server say about formats, users and compression."""

from __future__ import annotations

import pytest

from grader.wire.negotiation import forwarded, json_accept, wants_upgrade

PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("application/json", "application/json"),
        (PROTOBUF, "application/json"),
        (f"{PROTOBUF},application/json", "application/json"),
        (f"{PROTOBUF};type=watch;stream=watch", "application/json;type=watch"),
        (
            f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        ),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        ),
        ("application/cbor,application/json", "application/json"),
        ("*/*", "*/*"),
    ],
)
def test_protobuf_is_asked_for_as_json(asked, sent):
    assert json_accept(asked) == sent


def test_no_credential_of_the_process_is_forwarded():
    headers = forwarded(
        {
            "Authorization": "Bearer stolen",
            "Impersonate-User": "admin",
            "impersonate-extra-x": "y",
            "X-Remote-User": "admin",
            "Accept": PROTOBUF,
            "User-Agent": "me/1",
            "Connection": "keep-alive",
            "Accept-Encoding": "gzip",
        },
        json_only=True,
    )
    assert dict(headers) == {
        "Accept": "application/json",
        "User-Agent": "me/1",
        "Accept-Encoding": "identity",
    }


def test_discovery_is_left_as_it_is():
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert forwarded({"Accept": f"{accept},{PROTOBUF}"}, json_only=False)["Accept"] == (
        f"{accept},{PROTOBUF}"
    )


def test_upgrades_are_recognised():
    assert wants_upgrade({"Connection": "Upgrade", "Upgrade": "SPDY/3.1"})
    assert not wants_upgrade({"Connection": "keep-alive"})
