"""Primitive types of the Kafka protocol.

Readers take (view, position) and return (value, next position). They raise MalformedMessage at the end of the view, and compare
every length with the remaining bytes before they allocate. Source: Kafka's protocol guide, KIP-482 for the compact types and
tagged fields."""

from __future__ import annotations

from struct import Struct
from typing import Final

from streamactors.broker.protocol.errors import MalformedMessage

MAX_ELEMENTS: Final = 250_000
"""The most elements of arrays in one message: a hundred megabytes of two-byte elements would be gigabytes of objects."""

MAX_STRING_BYTES: Final = 0xFFFF
"""The longest string. Apache Kafka's limit is half of it; up to this one a name that is too long gets an error, where Apache Kafka
closes the connection."""

MAX_TAGGED_FIELDS: Final = 127
"""The most tagged fields of one struct: the count of one byte. No struct has more than a handful, and a hundred megabytes of empty
ones would block the data plane for seconds. Apache Kafka has no such limit."""

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")


def read_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes."""
    try:
        value = view[position]
    except IndexError:
        raise MalformedMessage("the message ends inside a varint") from None
    if value < 0x80:
        return value, position + 1
    value = shift = 0
    for _ in range(5):
        if position >= len(view):
            raise MalformedMessage("the message ends inside a varint")
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise MalformedMessage("a varint of more than five bytes")


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE: Final = tuple(bytes([value]) for value in range(0x80))


def _read_length(view: memoryview, position: int, compact: bool, classic: Struct) -> tuple[int, int]:
    """Read the length of a string, bytes or an array; -1 is null."""
    if compact:
        length, position = read_uvarint(view, position)
        return length - 1, position
    if position + classic.size > len(view):
        raise MalformedMessage("the message ends inside a length")
    return classic.unpack_from(view, position)[0], position + classic.size


def read_nullable_string(view: memoryview, position: int, compact: bool) -> tuple[str | None, int]:
    """Read a nullable string, in its compact (flexible versions) or classic form."""
    length, position = _read_length(view, position, compact, INT16)
    if length < 0:
        if length != -1:
            raise MalformedMessage(f"a string of length {length}")
        return None, position
    end = position + length
    content = view[position:end]
    if len(content) != length:
        raise MalformedMessage(f"a string of {length} bytes where {len(content)} are left")
    if length > MAX_STRING_BYTES:
        raise MalformedMessage(f"a string of {length} bytes; the most is {MAX_STRING_BYTES}")
    try:
        return str(content, "utf-8"), end
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"a string that is not UTF-8: {error}") from None


def read_string(view: memoryview, position: int, compact: bool) -> tuple[str, int]:
    value, position = read_nullable_string(view, position, compact)
    if value is None:
        raise MalformedMessage("null where a string must be")
    return value, position


def read_nullable_bytes(view: memoryview, position: int, compact: bool) -> tuple[memoryview | None, int]:
    """Read a byte string without a copy: the view lives as long as the frame's buffer."""
    length, position = _read_length(view, position, compact, INT32)
    if length < 0:
        if length != -1:
            raise MalformedMessage(f"a byte string of length {length}")
        return None, position
    end = position + length
    if end > len(view):
        raise MalformedMessage(f"a byte string of {length} bytes where {len(view) - position} are left")
    return view[position:end], end


def read_array_length(view: memoryview, position: int, compact: bool) -> tuple[int, int]:
    """Read the length of an array; -1 is null. A length larger than the number of remaining bytes is refused."""
    length, position = _read_length(view, position, compact, INT32)
    if length < -1 or length > len(view) - position or length > MAX_ELEMENTS:
        raise MalformedMessage(f"an array of {length} elements in {len(view) - position} bytes")
    return length, position


def tagged_field_count(view: memoryview, position: int) -> int:
    """Return the number of tagged fields in the block at the position; they begin one byte later."""
    if position >= len(view):
        raise MalformedMessage("the message ends before its tagged fields")
    count = view[position]
    if count > MAX_TAGGED_FIELDS:
        raise MalformedMessage(f"a struct of more than {MAX_TAGGED_FIELDS} tagged fields")
    return count


def skip_counted(view: memoryview, position: int, left: int) -> tuple[int, int]:
    """Skip a block of tagged fields in an array; return (position after it, `left` less their number).

    Raises MalformedMessage if more than `left` elements are used."""
    left -= tagged_field_count(view, position)
    if left < 0:
        raise MalformedMessage(f"more than {MAX_ELEMENTS} elements in one message")
    return skip_tagged_fields(view, position), left


def skip_tagged_fields(view: memoryview, position: int) -> int:
    """Return the position after a block of tagged fields."""
    count = tagged_field_count(view, position)
    position += 1
    for _ in range(count):
        _, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        position += size
        if position > len(view):
            raise MalformedMessage(f"a tagged field of {size} bytes passes the end of the message")
    return position


def string(value: str, compact: bool) -> bytes:
    """Encode a string."""
    encoded = value.encode()
    return (uvarint(len(encoded) + 1) if compact else INT16.pack(len(encoded))) + encoded


def nullable_string(value: str | None, compact: bool) -> bytes:
    """Encode a string or null."""
    if value is None:
        return b"\x00" if compact else b"\xff\xff"
    return string(value, compact)


def array_length(length: int, compact: bool) -> bytes:
    """Encode the length of an array; -1 is null."""
    return uvarint(length + 1) if compact else INT32.pack(length)
