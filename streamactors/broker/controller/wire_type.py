"""The primitive types of Kafka's flexible messages, as pairs of a writer and a bounded reader.

Owner: metadata_record. Only what metadata records need: compact lengths (varint, plus one), tagged fields. What is read
was written by a controller, but a damaged log must end in an error and not in an allocation: lengths are checked first.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from streamactors.errors import StreamActorsError

T = TypeVar("T")


class CorruptMetadata(StreamActorsError):
    """A metadata record that no version of its format allows, or that contradicts those before it."""


class WireType(NamedTuple, Generic[T]):
    """How a value is appended to a buffer, and read at a position: (value, position after it)."""

    write: Callable[[bytearray, T], None]
    read: Callable[[bytes, int], tuple[T, int]]


def write_unsigned(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Return (value, position after it) of an unsigned varint of at most 32 bits."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise CorruptMetadata(f"no end to the number before byte {at} of {len(data)}")


def take(data: bytes, at: int, count: int) -> tuple[bytes, int]:
    """Return (bytes, position after them). Raises CorruptMetadata when there are fewer."""
    end = at + count
    if end > len(data):
        raise CorruptMetadata(f"{count} bytes wanted at byte {at} of {len(data)}")
    return data[at:end], end


def _fixed(form: str) -> WireType[int]:
    packer = struct.Struct(form)

    def write(out: bytearray, value: int) -> None:
        out += packer.pack(value)

    def read(data: bytes, at: int) -> tuple[int, int]:
        raw, end = take(data, at, packer.size)
        return packer.unpack(raw)[0], end

    return WireType(write, read)


def _write_text(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
        return
    encoded = value.encode()
    write_unsigned(out, len(encoded) + 1)
    out += encoded


def _read_nullable_text(data: bytes, at: int) -> tuple[str | None, int]:
    length, at = read_unsigned(data, at)
    if length == 0:
        return None, at
    raw, end = take(data, at, length - 1)
    try:
        return raw.decode(), end
    except UnicodeDecodeError as error:
        raise CorruptMetadata(f"the text at byte {at} is not UTF-8") from error


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    value, end = _read_nullable_text(data, at)
    if value is None:
        raise CorruptMetadata(f"null at byte {at}, where a text must be")
    return value, end


def _read_uuid(data: bytes, at: int) -> tuple[uuid.UUID, int]:
    raw, end = take(data, at, 16)
    return uuid.UUID(bytes=raw), end


INT8: Final = _fixed(">b")
INT16: Final = _fixed(">h")
UINT16: Final = _fixed(">H")
INT32: Final = _fixed(">i")
INT64: Final = _fixed(">q")
BOOLEAN: Final = WireType[bool](
    lambda out, value: out.append(value), lambda data, at: (bool(take(data, at, 1)[0][0]), at + 1)
)
UUID: Final = WireType[uuid.UUID](lambda out, value: out.extend(value.bytes), _read_uuid)
TEXT: Final = WireType[str](_write_text, _read_text)
NULLABLE_TEXT: Final = WireType[str | None](_write_text, _read_nullable_text)


def array(item: WireType[T]) -> WireType[tuple[T, ...]]:
    """Return the type of an array of `item`; a null array reads as an empty one."""

    def write(out: bytearray, values: tuple[T, ...]) -> None:
        write_unsigned(out, len(values) + 1)
        for value in values:
            item.write(out, value)

    def read(data: bytes, at: int) -> tuple[tuple[T, ...], int]:
        length, at = read_unsigned(data, at)
        if length - 1 > len(data) - at:  # an item takes a byte at least: a lying count ends here
            raise CorruptMetadata(f"an array of {length - 1} items in {len(data) - at} bytes")
        values = []
        for _ in range(length - 1):
            value, at = item.read(data, at)
            values.append(value)
        return tuple(values), at

    return WireType(write, read)


def read_tags(data: bytes, at: int) -> tuple[dict[int, bytes], int]:
    """Return the optional fields that end a structure, by tag, and the position after them."""
    count, at = read_unsigned(data, at)
    tagged: dict[int, bytes] = {}
    for _ in range(count):
        tag, at = read_unsigned(data, at)
        size, at = read_unsigned(data, at)
        tagged[tag], at = take(data, at, size)
    return tagged, at


def structure(made: type[Any], *types: WireType[Any]) -> WireType[Any]:
    """Return the type of a nested structure without optional fields of its own."""

    def write(out: bytearray, value: tuple[Any, ...]) -> None:
        for item_type, item in zip(types, value, strict=True):
            item_type.write(out, item)
        out.append(0)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        items = []
        for item_type in types:
            item, at = item_type.read(data, at)
            items.append(item)
        _, at = read_tags(data, at)
        return made(*items), at

    return WireType(write, read)
