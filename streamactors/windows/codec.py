"""Bytes of keys and values: identity and order of keys, sizes of buffered entries, changelog entries.

Owner: shared, stateless but for a bounded cache. Two forms:

* `Serdes`, what the stream's topic would hold: str as UTF-8, int and float as 8 bytes big-endian, bytes as they are,
  everything else msgpack. Keys are compared and ordered by these bytes, buffered entries are measured by them.
* `dumps` and `loads`, exact and self-describing msgpack: None, bool, int, float, str, bytes, list, tuple, dict,
  datetime (a named zone as its offset) and Decimal come back as they went in; anything else is refused by name. Never
  unpickles."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import msgpack

from streamactors.errors import StreamError

_TUPLE, _BIG_INT, _DATETIME, _DECIMAL = 1, 2, 3, 4
_FOLD: Final = "~"  # the second time a clock shows an hour
_INT64: Final = struct.Struct(">q")
_FLOAT64: Final = struct.Struct(">d")


class CodecError(StreamError, TypeError):
    """A value that has no bytes, or bytes that hold no value."""


def dumps(value: Any) -> bytes:
    """Return `value` as msgpack that `loads` turns back exactly. Raises CodecError naming the type it cannot keep."""
    try:
        data: bytes = msgpack.packb(value, default=_to_ext, strict_types=True)
    except CodecError:
        raise
    except (TypeError, ValueError, UnicodeError) as error:
        raise CodecError(f"{value!r} cannot be written as msgpack: {error}") from error
    return data


def loads(data: bytes) -> Any:
    """Return what `dumps` was given. Raises CodecError for bytes it did not write."""
    try:
        return msgpack.unpackb(data, ext_hook=_from_ext, strict_map_key=False, use_list=True)
    except Exception as error:
        raise CodecError(f"{data[:40]!r}… is not what this package writes: {error}") from error


def _to_ext(value: Any) -> msgpack.ExtType:
    kind = type(value)
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, dumps(list(value)))
    if kind is int:  # beyond 64 bits
        return msgpack.ExtType(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if kind is datetime:
        return msgpack.ExtType(_DATETIME, f"{value.isoformat()}{_FOLD * value.fold}".encode())
    if kind is Decimal:
        return msgpack.ExtType(_DECIMAL, str(value).encode())
    raise CodecError(
        f"a {kind.__module__}.{kind.__qualname__} has no bytes here; keep None, bool, int, float, str, bytes, list, tuple, "
        "dict, datetime or Decimal in windows, or give serdes=Serdes(key=…, value=…)"
    )


def _from_ext(code: int, data: bytes) -> Any:
    if code == _TUPLE:
        return tuple(loads(data))
    if code == _BIG_INT:
        return int.from_bytes(data, "big", signed=True)
    if code == _DATETIME:
        text = data.decode()
        return datetime.fromisoformat(text.removesuffix(_FOLD)).replace(fold=int(text.endswith(_FOLD)))
    if code == _DECIMAL:
        return Decimal(data.decode())
    raise CodecError(f"extension type {code} is unknown")


def default_bytes(value: Any) -> bytes:
    """Bytes of a key or value where the stream names no serdes."""
    kind = type(value)
    if kind is str:
        try:
            return value.encode()  # type: ignore[no-any-return]
        except UnicodeEncodeError as error:
            raise CodecError(f"{value!r} is no UTF-8 text: {error.reason}; clean it before it becomes a key") from error
    if kind is int and -(1 << 63) <= value < 1 << 63:
        return _INT64.pack(value)
    if kind is float:
        return _FLOAT64.pack(value)
    if kind is bytes:
        return value  # type: ignore[no-any-return]
    return dumps(value)


@dataclass(frozen=True, slots=True)
class Serdes:
    """How a stream's keys and values become bytes."""

    key: Callable[[Any], bytes] = default_bytes
    value: Callable[[Any], bytes] = default_bytes

    def size(self, value: Any) -> int:
        """Bytes of a value; None has none."""
        if value is None:
            return 0
        if self.value is default_bytes:
            kind = type(value)
            if kind is int or kind is float:
                return 8 if kind is float or -(1 << 63) <= value < 1 << 63 else len(dumps(value))
        return len(self.value(value))


class _NoText:
    """No key is one."""


class KeyIdentity:
    """Turns keys into hashable stand-ins that are equal exactly when the keys' bytes are.

    Bytes that are UTF-8 stand as that text, others as themselves: one to one, and a text key stands for itself at no
    cost. `text` is str where that short cut holds; with a key serde of the user's own it is a type no key has."""

    CACHE_LIMIT: Final = 65_536

    def __init__(self, serdes: Serdes) -> None:
        self._to_bytes = serdes.key
        self.text: type = str if serdes.key is default_bytes else _NoText
        self._of_int: dict[int, str | bytes] = {}

    def of(self, key: Any) -> str | bytes:
        """Stand-in of any key but None."""
        if type(key) is int:  # bool, float and int are equal in a dict but not in bytes: only ints are kept here
            known = self._of_int.get(key)
            if known is None:
                if len(self._of_int) >= self.CACHE_LIMIT:
                    self._of_int.clear()
                known = self._of_int[key] = self._compute(key)
            return known
        return self._compute(key)

    def check(self, ident: str | bytes) -> None:
        """Raise CodecError for a text that stands for itself but has no bytes; asked once per new entry."""
        if type(ident) is str and not ident.isascii():
            default_bytes(ident)

    def _compute(self, key: Any) -> str | bytes:
        data = self._to_bytes(key)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data


def key_bytes(ident: str | bytes) -> bytes:
    """The key's bytes, back from its stand-in."""
    return ident.encode() if type(ident) is str else ident  # type: ignore[return-value]
