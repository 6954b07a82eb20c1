"""Primitive types of the Kafka protocol, as the hand-written codecs read and write them.

Readers take (view, position) and return (value, next position); they raise MalformedMessage instead of reading past the
end, and nothing is allocated from a length that has not been compared with the bytes at hand. Source: Kafka's protocol
guide, KIP-482 for the compact types and tagged fields."""

from __future__ import annotations

from struct import Struct
from typing import Final

from streamactors.broker.protocol.errors import MalformedMessage

MAX_ELEMENTS: Final = 250_000
"""Elements of arrays in one message. A hundred megabytes of two-byte elements would be gigabytes of objects."""

MAX_STRING_BYTES: Final = 0xFFFF
"""Of a string in the compact form; the classic one can say half of it, and Apache Kafka takes no more in either. With this
much an id that is too long is still refused by name, where Apache Kafka closes the connection."""

MAX_TAGGED_FIELDS: Final = 127
"""Tagged fields of one struct: as many as one byte can count. None has more than a handful, and a hundred megabytes of
empty ones would keep everybody waiting for seconds. Apache Kafka has no such limit."""

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


def read_int16(view: memoryview, position: int) -> tuple[int, int]:
    if position + 2 > len(view):
        raise MalformedMessage("the message ends inside an int16")
    value: int = INT16.unpack_from(view, position)[0]
    return value, position + 2


def read_int32(view: memoryview, position: int) -> tuple[int, int]:
    if position + 4 > len(view):
        raise MalformedMessage("the message ends inside an int32")
    value: int = INT32.unpack_from(view, position)[0]
    return value, position + 4


def read_nullable_string(view: memoryview, position: int, compact: bool) -> tuple[str | None, int]:
    """Read a string that may be null, in its compact (flexible versions) or its classic form."""
    if compact:
        length, position = read_uvarint(view, position)
        length -= 1
    else:
        length, position = read_int16(view, position)
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
    """Read a byte string without copying it: the view lives as long as the frame's buffer."""
    if compact:
        length, position = read_uvarint(view, position)
        length -= 1
    else:
        length, position = read_int32(view, position)
    if length < 0:
        if length != -1:
            raise MalformedMessage(f"a byte string of length {length}")
        return None, position
    end = position + length
    if end > len(view):
        raise MalformedMessage(f"a byte string of {length} bytes where {len(view) - position} are left")
    return view[position:end], end


def read_array_length(view: memoryview, position: int, compact: bool) -> tuple[int, int]:
    """Read the length of an array; -1 says null. An element takes at least one byte, so a lying length is refused
    here."""
    if compact:
        length, position = read_uvarint(view, position)
        length -= 1
    else:
        length, position = read_int32(view, position)
    if length < -1 or length > len(view) - position or length > MAX_ELEMENTS:
        raise MalformedMessage(f"an array of {length} elements in {len(view) - position} bytes")
    return length, position


def tagged_field_count(view: memoryview, position: int) -> int:
    """Return how many tagged fields the block at the position has; they begin one byte further on."""
    if position >= len(view):
        raise MalformedMessage("the message ends before its tagged fields")
    count = view[position]
    if count > MAX_TAGGED_FIELDS:
        raise MalformedMessage(f"a struct of more than {MAX_TAGGED_FIELDS} tagged fields")
    return count


def skip_counted(view: memoryview, position: int, left: int) -> tuple[int, int]:
    """Skip a block of tagged fields within an array; return (position after it, `left` less their number).

    Raises MalformedMessage if that is below 0."""
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
    """Encode the length of an array; -1 says null."""
    return uvarint(length + 1) if compact else INT32.pack(length)
