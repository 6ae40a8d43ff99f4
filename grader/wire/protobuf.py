"""The one thing that the wire must know of a body in protobuf: which object it is about.

An object in protobuf is an envelope (``k8s\\0``, then ``runtime.Unknown``) around
the message of its type, whose first field is its ObjectMeta for every type that
has one (apimachinery, ``pkg/runtime/serializer/protobuf``).
"""

from __future__ import annotations

_MAGIC = b"k8s\x00"
#: Field numbers: the object in runtime.Unknown, its metadata, its name.
_PATH = (2, 1, 1)
#: Of a field's kind: bytes that follow it, where that is fixed.
_FIXED = {1: 8, 5: 4}


def object_name(body: bytes) -> str:
    """``metadata.name`` of an object in protobuf; empty where there is none, or it is not one."""
    if not body.startswith(_MAGIC):
        return ""
    found = body[len(_MAGIC) :]
    for number in _PATH:
        found = _field(found, number)
    return found.decode("utf-8", "replace")


def _field(message: bytes, wanted: int) -> bytes:
    """The first field of that number, as bytes; empty where there is none."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 2:
            size, at = _varint(message, at)
            if tag >> 3 == wanted:
                return message[at : at + size]
            at += size
        elif kind == 0:
            _, at = _varint(message, at)
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            return b""
    return b""


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins at ``at``, and where the next thing begins."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value, at
