"""The bytes of keys and values decide the identity and order of keys and the sizes of buffered entries.

Owner: shared, stateless but for a bounded cache. `Serdes` gives the bytes that the stream's topic would hold: str as
UTF-8, int and float as 8 bytes big-endian, bytes as they are, every other type by the codec. Windows compare and order
keys by these bytes and measure buffered entries by them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from streamactors.codec import CodecError, dumps

Ident = str | bytes
"""The identity of a key in stores: see KeyIdentity."""

_INT64: Final = struct.Struct(">q")
_FLOAT64: Final = struct.Struct(">d")


def default_bytes(value: Any) -> bytes:
    """Return the bytes of a key or value of a stream without serdes of its own."""
    kind = type(value)
    if kind is str:
        try:
            return value.encode()  # type: ignore[no-any-return]
        except UnicodeEncodeError as error:
            raise CodecError(
                f"{value!r} is not UTF-8 text: {error.reason}; clean it before it becomes a key"
            ) from error
    if kind is int and -(1 << 63) <= value < 1 << 63:
        return _INT64.pack(value)
    if kind is float:
        return _FLOAT64.pack(value)
    if kind is bytes:
        return value  # type: ignore[no-any-return]
    return dumps(value)


@dataclass(frozen=True, slots=True)
class Serdes:
    """The two functions that turn a stream's keys and values into bytes."""

    key: Callable[[Any], bytes] = default_bytes
    """Returns the bytes of a key."""
    value: Callable[[Any], bytes] = default_bytes
    """Returns the bytes of a value."""

    def size(self, value: Any) -> int:
        """Return the number of bytes of `value`; 0 for None."""
        if value is None:
            return 0
        if self.value is default_bytes:
            kind = type(value)
            if kind is int or kind is float:
                return 8 if kind is float or -(1 << 63) <= value < 1 << 63 else len(dumps(value))
        return len(self.value(value))


class _NoText:
    """A type that no key has."""


class KeyIdentity:
    """Maps each key to an ident: a hashable str or bytes. Two idents are equal exactly when the bytes of their keys are.

    Key bytes that are UTF-8 become that string, other bytes stay bytes. So a string is its own ident and costs nothing.
    `text` is str where this holds; with a key serde of the user's own `text` is a type that no key has."""

    CACHE_LIMIT: Final = 65_536

    def __init__(self, serdes: Serdes) -> None:
        self._to_bytes = serdes.key
        self.text: type = str if serdes.key is default_bytes else _NoText
        self._of_int: dict[int, str | bytes] = {}

    def of(self, key: Any) -> str | bytes:
        """Return the ident of a key that is not None."""
        if type(key) is str and self.text is str and key.isascii():
            return key
        if type(key) is int:  # True, 1.0 and 1 are equal in a dict but not in bytes, so only ints are cached
            known = self._of_int.get(key)
            if known is None:
                if len(self._of_int) >= self.CACHE_LIMIT:
                    self._of_int.clear()
                known = self._of_int[key] = self._compute(key)
            return known
        return self._compute(key)

    def check(self, ident: str | bytes) -> None:
        """Raise CodecError for a string that has no UTF-8 bytes. Called once for each new entry."""
        if type(ident) is str and not ident.isascii():
            default_bytes(ident)

    def _compute(self, key: Any) -> str | bytes:
        return ident_of_bytes(self._to_bytes(key))


def ident_of_bytes(data: bytes) -> Ident:
    """Return the ident of a key with these bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def key_bytes(ident: str | bytes) -> bytes:
    """Return the bytes of the key of `ident`."""
    return ident.encode() if type(ident) is str else ident  # type: ignore[return-value]
