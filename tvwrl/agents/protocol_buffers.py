"""Messages of protocol buffers, in which ONNX files are written, field by field."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers

Field = tuple[int, int | bytes]  # number, value


def fields_of(content: bytes) -> Iterator[Field]:
    """The fields of a message in their order. Raises ValueError or IndexError for what is no message."""
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(content, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = _varint(content, at)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(kind, -1)
        if number == 0 or size < 0 or at + size > len(content):
            raise ValueError("no field")
        yield number, content[at : at + size]
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a place, and the place after it."""
    value = shift = 0
    while shift < 64:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("no number")


def message_of(fields: list[Field]) -> bytes:
    """A message of protocol buffers, of integers and of what has a length."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [_as_varint(number << 3), _as_varint(value)]
        else:
            parts += [_as_varint(number << 3 | 2), _as_varint(len(value)), value]
    return b"".join(parts)


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
