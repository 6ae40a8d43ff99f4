"""What the process and the API server say about formats, users and compression."""

from __future__ import annotations

import pytest

from grader.wire.negotiation import forwarded, json_accept, returned, wants_stream

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


@pytest.mark.parametrize(
    ("upgrade", "refused"),
    [
        ("SPDY/3.1", True),
        ("websocket", True),
        ("WebSocket", True),
        ("h2c, websocket", True),
        ("h2c", False),
        ("TLS/1.2", False),
        ("", False),
    ],
)
def test_only_the_upgrades_that_carry_streams_are_refused(upgrade, refused):
    assert wants_stream({"Connection": "Upgrade", "Upgrade": upgrade}) is refused
    assert not wants_stream({"Connection": "keep-alive", "Upgrade": upgrade})


def test_what_belongs_to_one_connection_stays_on_it():
    """RFC 9110, 7.6.1: the fields that Connection names, besides those it always means."""
    request = {
        "Connection": "Upgrade, HTTP2-Settings, X-Hop",
        "Upgrade": "h2c",
        "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA",
        "X-Hop": "1",
        "TE": "trailers",
        "Trailer": "Digest",
        "Keep-Alive": "timeout=5",
        "Proxy-Connection": "keep-alive",
        "Expect": "100-continue",
        "X-Kept": "1",
    }
    sent = forwarded(request, json_only=False)
    assert dict(sent) == {"X-Kept": "1", "Accept-Encoding": "identity"}
    answer = {"Connection": "close, X-Hop", "X-Hop": "1", "Upgrade": "h2c", "Trailer": "Digest"}
    assert dict(returned({**answer, "X-Kept": "1"})) == {"X-Kept": "1"}
