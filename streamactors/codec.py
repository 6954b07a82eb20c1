"""The codec of topics, changelogs and links between processes.

Owner: shared, no state. Encodes None, bool, int, float, str, bytes, list, tuple, dict, datetime (a named zone becomes its
offset) and Decimal as msgpack, and decodes them to the same value of the same type. Refuses every other type, naming
it, and never unpickles."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final

import msgpack

from streamactors.errors import StreamError

_TUPLE, _BIG_INT, _DATETIME, _DECIMAL = 1, 2, 3, 4
FIRST_FREE: Final = 32
"""The first code of the extensions that `more` of `dumps` may use."""
_FOLD: Final = "~"  # marks the second of the two hours that a clock shows twice when summer time ends


class CodecError(StreamError, TypeError):
    """A value of a type that the codec refuses, or bytes that the codec did not write."""


ToExt = Callable[[Any], msgpack.ExtType | None]
FromExt = Callable[[int, bytes], Any]


def dumps(value: Any, more: ToExt | None = None) -> bytes:
    """Encode `value` as msgpack; `loads` returns an equal value of the same type.

    `more(part)` may return an extension for a part whose type the codec does not know, with a code of `FIRST_FREE` or more; None refuses it.
    Raises CodecError, which names the type, for a value of any other type."""

    try:
        data: bytes = msgpack.packb(
            value, default=_to_ext if more is None else partial(_to_more, more), strict_types=True
        )
    except CodecError:
        raise
    except (TypeError, ValueError, UnicodeError) as error:
        raise CodecError(f"{value!r} cannot be written as msgpack: {error}") from error
    return data


def loads(data: bytes | memoryview, more: FromExt | None = None) -> Any:
    """Return the value that `dumps` encoded; `more(code, data)` decodes the extensions of its `more`.

    Raises CodecError for bytes that `dumps` did not write."""

    try:
        if more is None:
            return msgpack.unpackb(data, ext_hook=_from_ext, strict_map_key=False, use_list=True)
        return msgpack.unpackb(data, ext_hook=partial(_from_more, more), strict_map_key=False, use_list=True)
    except Exception as error:
        raise CodecError(f"{bytes(data[:40])!r}… is not what this package writes: {error}") from error


def _to_more(more: ToExt, part: Any) -> msgpack.ExtType:
    if type(part) is tuple:
        return msgpack.ExtType(_TUPLE, dumps(list(part), more))
    found = more(part)
    return _to_ext(part) if found is None else found


def _from_more(more: FromExt, code: int, data: bytes) -> Any:
    if code >= FIRST_FREE:
        return more(code, data)
    return tuple(loads(data, more)) if code == _TUPLE else _from_ext(code, data)


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
        f"a {kind.__module__}.{kind.__qualname__} cannot be encoded; use None, bool, int, float, str, bytes, list, tuple, "
        "dict, datetime or Decimal, or give a serde of your own"
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
