"""Ready aggregates: init, add, merge and the result of min, max, mean, first, last, top, distinct and quantiles.

Owner: one aggregation. The state is of types that the codec knows, so changelogs hold it; `result` makes of the state what users
see. Distinct counts and quantiles are sketches of the library datasketches (extra `sketches`): their size is bounded, their
results approximate."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import Any

from streamactors.errors import BuildError
from streamactors.windows.definitions.aggregator import ByArrival
from streamactors.windows.state.serdes import default_bytes
from streamactors.windows.state.total_order import rank


@dataclass(frozen=True, slots=True)
class ReadyAggregate:
    """`add(state, value)` onto `init()`, `merge(a, b)` of two sessions; `result(state)` is the value of the table."""

    init: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]


def _nothing() -> list[Any]:
    return []


def _only(state: list[Any]) -> Any:
    return state[0] if state else None


def _choosing(choose: Callable[[Any, Any], Any]) -> ReadyAggregate:
    """The value that `choose(old, new)` keeps. Sessions merge in the order in which their first rows came."""

    def merge(left: list[Any], right: list[Any]) -> list[Any]:
        return [choose(left[0], right[0])] if left and right else left or right

    return ReadyAggregate(_nothing, lambda state, value: merge(state, [value]), ByArrival(merge), _only)


def smallest() -> ReadyAggregate:
    """The smallest value; of equal ones the one that came first."""
    return _choosing(lambda old, new: new if rank(new) < rank(old) else old)


def largest() -> ReadyAggregate:
    """The largest value; of equal ones the one that came first."""
    return _choosing(lambda old, new: new if rank(new) > rank(old) else old)


def first() -> ReadyAggregate:
    """The value that came first."""
    return _choosing(lambda old, _: old)


def last() -> ReadyAggregate:
    """The value that came last: of merged sessions it is the row that has merged them, which is added after the merge."""
    return _choosing(lambda _, new: new)


def mean() -> ReadyAggregate:
    """The mean of the values; the state is (sum, count)."""

    def add(state: tuple[Any, int], value: Any) -> tuple[Any, int]:
        return state[0] + value, state[1] + 1

    def merge(left: tuple[Any, int], right: tuple[Any, int]) -> tuple[Any, int]:
        return left[0] + right[0], left[1] + right[1]

    return ReadyAggregate(lambda: (0, 0), add, merge, lambda state: state[0] / state[1] if state[1] else None)


def top(n: int) -> ReadyAggregate:
    """The n largest values, the largest first; of equal ones those that came first."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise BuildError(f"top: n is {n!r}; give a number of at least 1")

    def add(state: list[Any], value: Any) -> list[Any]:
        return heapq.nlargest(n, [*state, value], key=rank)

    merge = ByArrival(lambda left, right: heapq.nlargest(n, [*left, *right], key=rank))
    return ReadyAggregate(_nothing, add, merge, list)


def _datasketches(where: str) -> Any:
    try:
        import datasketches
    except ImportError as error:
        raise BuildError(f"{where} needs the package datasketches: pip install 'streamactors[sketches]'") from error
    return datasketches


def distinct(precision: int = 12) -> ReadyAggregate:
    """The number of distinct values by HyperLogLog, as a float. `precision`: 4 to 21; 12 is about 1.6 % off."""
    library = _datasketches("distinct")
    if isinstance(precision, bool) or not isinstance(precision, int) or not 4 <= precision <= 21:
        raise BuildError(f"distinct: precision is {precision!r}; give a number from 4 to 21")

    def load(state: bytes) -> Any:
        return library.hll_sketch.deserialize(state) if state else library.hll_sketch(precision)

    def add(state: bytes, value: Any) -> bytes:
        sketch = load(state)
        sketch.update(default_bytes(value).hex())
        return bytes(sketch.serialize_compact())

    def merge(left: bytes, right: bytes) -> bytes:
        union = library.hll_union(precision)
        union.update(load(left))
        union.update(load(right))
        return bytes(union.get_result().serialize_compact())

    return ReadyAggregate(bytes, add, merge, lambda state: load(state).get_estimate())


def quantiles(ranks: tuple[float, ...]) -> ReadyAggregate:
    """The values at these ranks (0 to 1) by a KLL sketch, as a list of floats; about 1.7 % of rank off."""
    library = _datasketches("quantiles")
    if not ranks or not all(isinstance(rank, int | float) and 0 <= rank <= 1 for rank in ranks):
        raise BuildError(f"quantiles: the ranks are {ranks!r}; give numbers from 0 to 1, such as 0.5, 0.99")

    def load(state: bytes) -> Any:
        return library.kll_doubles_sketch.deserialize(state) if state else library.kll_doubles_sketch()

    def add(state: bytes, value: Any) -> bytes:
        number = float(value)
        if isnan(number):  # the sketch ignores it, and an empty sketch has no quantile
            raise ValueError(f"quantiles: a value is {value!r}, which has no rank; drop it first, with filter")
        sketch = load(state)
        sketch.update(number)
        return bytes(sketch.serialize())

    def merge(left: bytes, right: bytes) -> bytes:
        sketch = load(left)
        sketch.merge(load(right))
        return bytes(sketch.serialize())

    def result(state: bytes) -> list[float] | None:
        return [load(state).get_quantile(rank) for rank in ranks] if state else None

    return ReadyAggregate(bytes, add, merge, result)
