"""The order of keys for readers: numbers by value, then all other keys by their bytes.

The bytes of strings and of byte strings have Python's order. Those of numbers do not: -1 is ff…ff, and 1.5 lies beyond every int. `KeyPlaces`
gives each key its place. A store on disk or in memory has its entries in the order of the bytes; `number_runs` says which parts of it, in which direction,
have the numbers between two bounds in the order of their values, so a range of numbers is a merge of at most four scans."""

from __future__ import annotations

import heapq
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from streamactors.windows.state.reads import StoreEntry
from streamactors.windows.state.serdes import KeyIdentity, Serdes, key_bytes
from streamactors.windows.state.total_order import rank

Place = tuple[int, Any, bytes]
"""Where a key is among others: 0 for numbers, then by value; 1 for others, then by bytes."""

_NUMBERS: Final = frozenset({int, float})
_INT64: Final = struct.Struct(">q")
_FLOAT64: Final = struct.Struct(">d")
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1
BYTES: Final = 8
"""Length of the bytes of a number; larger ints have other bytes, and are found by `items` only."""
T = TypeVar("T")


def is_number(key: Any) -> bool:
    """True if a key has a place among numbers. True and False have none."""
    return type(key) in _NUMBERS


COUNTS, OTHERS, SIGNED = 1, 2, 4
"""Kinds of keys: ints from 0 upwards, keys that are not numbers, other numbers. Keys of one of the first two kinds alone have the order of their bytes."""
ALL: Final = COUNTS | OTHERS | SIGNED
IN_ORDER: Final = frozenset({0, COUNTS, OTHERS})


def kind_of(key: Any) -> int:
    """Return the kind of a key."""
    kind = type(key)
    if kind is int:
        return COUNTS if 0 <= key <= _LAST else SIGNED
    return SIGNED if kind is float else OTHERS


def has_run(key: Any) -> bool:
    """True if `number_runs` finds a key: it is a number whose bytes are those of a number."""
    kind = type(key)
    return kind is float or (kind is int and _FIRST <= key <= _LAST)


class KeyPlaces:
    """The places of keys of one stream."""

    def __init__(self, serdes: Serdes) -> None:
        self._identity = KeyIdentity(serdes)

    def data(self, key: Any) -> bytes:
        """Return the bytes of a key. Raises CodecError for a key that cannot be encoded."""
        return key_bytes(self._identity.of(key))

    def of(self, key: Any) -> Place:
        """Return the place of a key."""
        return place_of(key, self.data(key))

    def in_order(self, entries: Iterable[StoreEntry]) -> list[StoreEntry]:
        """Return entries by key, then by window; equal keys and windows once."""
        found = {(self.of(each.key), each.start or 0, each.end or 0): each for each in entries}
        return [found[at] for at in sorted(found)]


def place_of(key: Any, data: bytes) -> Place:
    """Return the place of a key with these bytes."""
    return (0, rank(key), data) if type(key) in _NUMBERS else (1, data, data)


def between(place: Place, low: Place | None, high: Place | None) -> bool:
    """True if a key lies between two keys, both included; None: no bound. Numbers and other keys are never between each other."""
    return (low is None or (low[0] == place[0] and low[:2] <= place[:2])) and (
        high is None or (high[0] == place[0] and place[:2] <= high[:2])
    )


class Run(NamedTuple):
    """Keys of one type from `low` to `last`, both included, by their bytes; `reverse`: larger bytes are smaller numbers."""

    low: bytes
    last: bytes
    reverse: bool
    kind: type


def number_runs(first: float | None, last: float | None) -> list[Run]:
    """Return the runs of the numbers from `first` to `last`, both included; None: no bound. NaN is larger than every number."""
    if first is not None and first != first:
        return [] if last is not None and last == last else [_NANS]
    runs = []
    low, high = _whole(first, math.ceil, _FIRST), _whole(last, math.floor, _LAST)
    for begin, end in ((max(low, _FIRST), min(high, -1)), (max(low, 0), min(high, _LAST))):
        if begin <= end:
            runs.append(Run(_INT64.pack(begin), _INT64.pack(end), False, int))
    bottom = -math.inf if first is None else _float_at(first, math.inf)
    top = math.inf if last is None or last != last else _float_at(last, -math.inf)
    if bottom <= top:
        if bottom <= 0:
            runs.append(Run(_FLOAT64.pack(min(top, -0.0) or -0.0), _FLOAT64.pack(bottom or -0.0), True, float))
        if top >= 0:
            runs.append(Run(_FLOAT64.pack(max(bottom, 0.0) or 0.0), _FLOAT64.pack(top or 0.0), False, float))
    if last is None or last != last:
        runs.append(_NANS)
    return runs


def _whole(bound: float | None, rounded: Callable[[float], int], none: int) -> int:
    if bound is None or bound != bound:
        return none
    if bound in (math.inf, -math.inf):
        return _FIRST - 1 if bound < 0 else _LAST + 1
    return rounded(bound)


def _float_at(bound: float, toward: float) -> float:
    """Return the float that is nearest to a bound, on its side `toward`: not every int has an equal float."""
    try:
        nearest = float(bound)
    except OverflowError:
        nearest = math.inf if bound > 0 else -math.inf
    beyond = nearest < bound if toward > 0 else nearest > bound
    return math.nextafter(nearest, toward) if beyond else nearest


_NANS: Final = Run(b"\x7f\xf0" + b"\x00" * 5 + b"\x01", b"\x7f" + b"\xff" * 7, False, float)


def merged(runs: Iterable[Iterator[tuple[Any, T]]], *, reverse: bool) -> Iterator[T]:
    """Merge runs of (place, entry), each in the order of its places."""
    return (entry for _, entry in heapq.merge(*runs, key=itemgetter(0), reverse=reverse))


def turned(run: Iterator[tuple[Any, T]]) -> Iterator[tuple[Any, T]]:
    """Reverse the entries of each key of a run that was scanned against the order of its bytes."""
    for _, entries in groupby(run, key=itemgetter(0)):
        yield from reversed(list(entries))
