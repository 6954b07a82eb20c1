"""Primitive types of the keys and values in Kafka's internal topics.

Owner: the record formats in `group/` and `transaction/`. These are Kafka's own wire types, in the two flavours its
schemas know: classic (int16 and int32 lengths) and flexible (varint lengths plus one, tagged fields at the end of
each structure). What is read was written by a coordinator, ours or Apache Kafka's, but a damaged value must not
take the broker down: every length is checked against what is there, and anything wrong raises `CorruptRecord`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeVar

from streamactors.errors import StreamActorsError

T = TypeVar("T")

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
MAX_STRING_BYTES: Final = 32_767


class CorruptRecord(StreamActorsError):
    """A key or value of an internal topic that no version of its format allows."""


class Reader:
    """Takes one value apart, front to back."""

    __slots__ = ("_at", "_data", "flexible")

    def __init__(self, data: bytes | memoryview, *, at: int = 0, flexible: bool = False) -> None:
        self._data = bytes(data)
        self._at = at
        self.flexible = flexible

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise CorruptRecord(f"{count} bytes wanted at position {self._at} of a record of {len(self._data)} bytes")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def int8(self) -> int:
        return int.from_bytes(self._take(1), "big", signed=True)

    def int16(self) -> int:
        return int(_INT16.unpack(self._take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self._take(4))[0])

    def int64(self) -> int:
        return int(_INT64.unpack(self._take(8))[0])

    def varint(self) -> int:
        """Return an unsigned varint of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise CorruptRecord(f"a varint longer than 5 bytes before position {self._at}")

    def _length(self, classic: Callable[[], int]) -> int:
        return self.varint() - 1 if self.flexible else classic()

    def nullable_string(self) -> str | None:
        length = self._length(self.int16)
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise CorruptRecord(f"a string that is not UTF-8 before position {self._at}") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise CorruptRecord(f"null before position {self._at}, where a string must be")
        return text

    def byte_string(self) -> bytes:
        length = self._length(self.int32)
        if length < 0:
            raise CorruptRecord(f"null before position {self._at}, where bytes must be")
        return self._take(length)

    def array(self, item: Callable[[], T]) -> list[T]:
        """Return the items of an array, none for a null one. An item takes at least a byte, so a lying count ends
        early."""
        count = self._length(self.int32)
        if count > len(self._data) - self._at:
            raise CorruptRecord(f"an array of {count} items in {len(self._data) - self._at} bytes")
        return [item() for _ in range(count)]

    def tagged_fields(self) -> dict[int, bytes]:
        """Return the optional fields that end a flexible structure, by tag; none in a classic one."""
        if not self.flexible:
            return {}
        return {self.varint(): self._take(self.varint()) for _ in range(self.varint())}


class Writer:
    """Puts one value together, front to back."""

    __slots__ = ("_out", "flexible")

    def __init__(self, version: int, *, flexible: bool = False) -> None:
        self._out = bytearray(_INT16.pack(version))
        self.flexible = flexible

    def finish(self) -> bytes:
        return bytes(self._out)

    def int8(self, value: int) -> Writer:
        self._out += value.to_bytes(1, "big", signed=True)
        return self

    def int16(self, value: int) -> Writer:
        self._out += _INT16.pack(value)
        return self

    def int32(self, value: int) -> Writer:
        self._out += _INT32.pack(value)
        return self

    def int64(self, value: int) -> Writer:
        self._out += _INT64.pack(value)
        return self

    def varint(self, value: int) -> Writer:
        while value > 0x7F:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)
        return self

    def string(self, value: str | None) -> Writer:
        data = None if value is None else value.encode()
        if self.flexible:
            self.varint(0 if data is None else len(data) + 1)
        else:
            self.int16(-1 if data is None else len(data))
        self._out += data or b""
        return self

    def byte_string(self, value: bytes) -> Writer:
        if self.flexible:
            self.varint(len(value) + 1)
        else:
            self.int32(len(value))
        self._out += value
        return self

    def count(self, items: int | None) -> Writer:
        """Write the length of an array whose items follow; None is a null array."""
        if self.flexible:
            return self.varint(0 if items is None else items + 1)
        return self.int32(-1 if items is None else items)

    def tagged_fields(self, fields: dict[int, bytes] | None = None) -> Writer:
        """End a flexible structure; nothing in a classic one."""
        if self.flexible:
            self.varint(len(fields or {}))
            for tag, data in sorted((fields or {}).items()):
                self.varint(tag).varint(len(data))
                self._out += data
        return self


def too_long(text: str | None) -> bool:
    """Whether a name from a request is too long for the int16 length it is stored under."""
    return text is not None and len(text) > MAX_STRING_BYTES // 4 and len(text.encode()) > MAX_STRING_BYTES
