"""The codec of topics, changelogs and links between processes.

Owner: shared, no state. Encodes None, bool, int, float, str, bytes, bytearray, list, tuple, dict, datetime (a named zone
becomes its offset) and Decimal as msgpack, and decodes them to the same value of the same type. Refuses every other type, naming
it, and never unpickles.

A tuple is an extension that holds msgpack, so each tuple inside a tuple is one call inside another. `MOST_TUPLES` bounds them in both
directions: `dumps` writes nothing that `loads` refuses."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any, Final

import msgpack

from streamactors.errors import StreamError

_TUPLE, _BIG_INT, _DATETIME, _DECIMAL, _BYTEARRAY = 1, 2, 3, 4, 5
FIRST_FREE: Final = 32
"""The first code of the extensions that `more` of `dumps` may use."""
_FOLD: Final = "~"  # marks the second of the two hours that a clock shows twice when summer time ends
MOST_TUPLES: Final = 200
"""The largest number of tuples, one inside the other."""
MOST_LEVELS: Final = 1_000
"""The largest number of lists, tuples and dicts, one inside the other. msgpack itself writes and reads 1,024 lists."""
_SHALLOW: Final = 2
"""unpackb keeps 40 KB on the C stack. Tuples inside more tuples than this are read by an Unpacker, which keeps them on the heap."""
_TYPES: Final = "None, bool, int, float, str, bytes, bytearray, list, tuple, dict, datetime or Decimal"
_LISTS: Final = frozenset({list, tuple})
_CONTAINERS: Final = _LISTS | {dict}


class CodecError(StreamError, TypeError):
    """A value of a type that the codec refuses, or bytes that the codec did not write."""


ToExt = Callable[[Any], msgpack.ExtType | None]
FromExt = Callable[[int, bytes], Any]


def dumps(value: Any, more: ToExt | None = None) -> bytes:
    """Encode `value` as msgpack; `loads` returns an equal value of the same type.

    `more(part)` may return an extension for a part whose type the codec does not know, with a code of `FIRST_FREE` or more; None refuses it.
    Raises CodecError, which names the type, for a value of any other type, and for a value nested deeper than `MOST_TUPLES` or `MOST_LEVELS`."""

    default = _FIRST_TO_EXT if more is None else partial(_to_ext, 0, more)
    try:
        data: bytes = msgpack.packb(value, default=default, strict_types=True)
        if (0xC4 in data or 0xC5 in data or 0xC6 in data) and _has_bytearray(value):  # what byte strings begin with
            data = msgpack.packb(_marked(value), default=default, strict_types=True)
    except CodecError as error:
        raise error.with_traceback(None) from None  # without the frames of each level
    except (TypeError, ValueError, UnicodeError, RecursionError) as error:
        _check_levels(value)
        raise CodecError(f"{reprlib.repr(value)} cannot be written as msgpack: {error}") from error
    return data


def loads(data: bytes | memoryview, more: FromExt | None = None) -> Any:
    """Return the value that `dumps` encoded; `more(code, data)` decodes the extensions of its `more`.

    Raises CodecError for bytes that `dumps` did not write."""

    try:
        return _unpacked(data, 0, more)
    except Exception as error:
        raise CodecError(f"{bytes(data[:40])!r}… is not what this package writes: {error}") from error


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _to_ext(level: int, more: ToExt | None, part: Any) -> msgpack.ExtType:
    """Return the extension of a part that msgpack does not know. `level`: number of tuples around it."""
    kind = type(part)
    if kind is tuple:
        if level == _SHALLOW:  # so the lists between tuples cannot add up to more than the C stack holds
            _check_levels(part, level)
        return msgpack.ExtType(
            _TUPLE, msgpack.packb(list(part), default=_to_ext_at(level + 1, more), strict_types=True)
        )
    found = None if more is None else more(part)
    if found is not None:
        return found
    if kind is int:  # beyond 64 bits
        return msgpack.ExtType(_BIG_INT, part.to_bytes(part.bit_length() // 8 + 1, "big", signed=True))
    if kind is datetime:
        return msgpack.ExtType(_DATETIME, f"{part.isoformat()}{_FOLD * part.fold}".encode())
    if kind is Decimal:
        return msgpack.ExtType(_DECIMAL, str(part).encode())
    raise CodecError(f"a {kind.__module__}.{kind.__qualname__} cannot be encoded; {_ADVICE}")


_ADVICE: Final = f"use {_TYPES}, or give a serde of your own"
_TO_EXT: Final = tuple(partial(_to_ext, level, None) for level in range(MOST_TUPLES + 1))
_FIRST_TO_EXT: Final = _TO_EXT[0]


def _to_ext_at(level: int, more: ToExt | None) -> Callable[[Any], msgpack.ExtType]:
    return _TO_EXT[level] if more is None else partial(_to_ext, level, more)


def _check_levels(value: Any, tuples: int = 0) -> None:
    """Raise CodecError if `value`, which is inside so many tuples, is nested too deep. Needs no stack; a value inside itself is too deep."""
    waiting = [(value, tuples, 1)] if type(value) in _CONTAINERS else []
    while waiting:
        part, tuples, levels = waiting.pop()
        tuples += type(part) is tuple
        if tuples > MOST_TUPLES or levels > MOST_LEVELS:
            raise CodecError(
                f"a value is nested too deep to be written: at most {MOST_LEVELS} lists, tuples and dicts one inside the other, of them "
                f"{MOST_TUPLES} tuples; write it as a flat list, or give a serde of your own; it is {reprlib.repr(value)}"
            )
        inside = [*part, *part.values()] if type(part) is dict else part
        waiting += [(inner, tuples, levels + 1) for inner in inside if type(inner) in _CONTAINERS]


def _has_bytearray(value: Any) -> bool:
    """Return whether a bytearray is part of `value`: msgpack writes it as bytes without a question, and a memoryview, which is refused.

    Looks at all parts of one depth at a time, so that the loops run in C: about 30 ns for each part."""
    found = False
    parts = [value]
    while True:
        kinds = set(map(type, parts))
        if memoryview in kinds:
            raise CodecError(f"a memoryview cannot be encoded: convert it with bytes(…), {_ADVICE}")
        found = found or bytearray in kinds
        if kinds.isdisjoint(_CONTAINERS):
            return found
        dicts = [part for part in parts if type(part) is dict] if dict in kinds else []
        lists = parts if kinds <= _LISTS else [part for part in parts if type(part) in _LISTS]
        parts = [
            *chain.from_iterable(lists),
            *chain.from_iterable(dicts),
            *chain.from_iterable(map(dict.values, dicts)),
        ]


def _marked(part: Any) -> Any:
    """Return a copy of a value in which each bytearray is an extension."""
    kind = type(part)
    if kind is bytearray:
        return msgpack.ExtType(_BYTEARRAY, bytes(part))
    if kind is dict:
        return {key: _marked(value) for key, value in part.items()}  # a bytearray is no key
    return kind(map(_marked, part)) if kind in _LISTS else part


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _from_ext(level: int, more: FromExt | None, code: int, data: bytes) -> Any:
    """Return the value of an extension. `level`: number of tuples around it."""
    if code == _TUPLE:
        return tuple(_unpacked(data, level + 1, more))
    if code == _BIG_INT:
        return int.from_bytes(data, "big", signed=True)
    if code == _DATETIME:
        text = data.decode()
        return datetime.fromisoformat(text.removesuffix(_FOLD)).replace(fold=int(text.endswith(_FOLD)))
    if code == _DECIMAL:
        return Decimal(data.decode())
    if code == _BYTEARRAY:
        return bytearray(data)
    if more is not None and code >= FIRST_FREE:
        return more(code, data)
    raise CodecError(f"extension type {code} is unknown")


_FROM_EXT: Final = tuple(partial(_from_ext, level, None) for level in range(MOST_TUPLES + 1))


def _unpacked(data: bytes | memoryview, level: int, more: FromExt | None) -> Any:
    """Return the value of msgpack that is inside so many tuples."""
    if level > MOST_TUPLES:
        raise CodecError(f"it has more than {MOST_TUPLES} tuples, one inside the other")
    from_ext = _FROM_EXT[level] if more is None else partial(_from_ext, level, more)
    if level <= _SHALLOW:
        return msgpack.unpackb(data, ext_hook=from_ext, strict_map_key=False, use_list=True)
    unpacker = msgpack.Unpacker(
        ext_hook=from_ext, strict_map_key=False, use_list=True, max_buffer_size=len(data), read_size=1
    )
    unpacker.feed(data)
    value = unpacker.unpack()
    if unpacker.tell() != len(data):
        raise CodecError("bytes follow the end of a tuple")
    return value
