"""The ready aggregates of grouped streams: min, max, mean, first, last, top, distinct, quantiles; and windows of n rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamactors.windows.definitions.aggregator import as_values
from streamactors.windows.record import Record
from streamactors.windows.tables import aggregates
from streamactors.windows.tables.aggregates import ReadyAggregate
from streamactors.windows.topology.joining import callable_or_error
from streamactors.windows.topology.steps import Part, step
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.table import TopologyTable

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    R = TypeVarWithDefault("R", default=TopologyStream)
else:
    R = TypeVar("R")

Of = Callable[[Any], Any] | None


class ReadyAggregations(Part, ABC, Generic[R]):
    """The ready aggregates of grouped records. `of`: the part of a value that counts, default the value; `name` as in `aggregate`."""

    @abstractmethod
    def aggregate(
        self,
        init: Callable[[], Any],
        add: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any] | None = None,
        *,
        name: str | None = None,
    ) -> TopologyTable[R]:
        """The table of an aggregation."""

    def min(self, of: Of = None, *, name: str | None = None) -> TopologyTable[R]:
        """The smallest value. NaN is larger than every number."""
        return self._ready(aggregates.smallest(), of, name)

    def max(self, of: Of = None, *, name: str | None = None) -> TopologyTable[R]:
        """The largest value. NaN is larger than every number."""
        return self._ready(aggregates.largest(), of, name)

    def first(self, of: Of = None, *, name: str | None = None) -> TopologyTable[R]:
        """The value of the row that came first, whatever the timestamps; of merged sessions as well."""
        return self._ready(aggregates.first(), of, name)

    def last(self, of: Of = None, *, name: str | None = None) -> TopologyTable[R]:
        """The value of the row that came last, whatever the timestamps; of merged sessions as well."""
        return self._ready(aggregates.last(), of, name)

    def mean(self, of: Of = None, *, name: str | None = None) -> TopologyTable[R]:
        """The mean of the values."""
        return self._ready(aggregates.mean(), of, name)

    def top(self, n: int, of: Of = None, *, name: str | None = None) -> TopologyTable[R]:
        """The n largest values as a list, the largest first. NaN is larger than every number."""
        return self._ready(aggregates.top(n), of, name)

    def distinct(self, of: Of = None, *, precision: int = 12, name: str | None = None) -> TopologyTable[R]:
        """The number of distinct values by HyperLogLog, a float, about 1.6 % off with precision 12 (extra `sketches`)."""
        return self._ready(aggregates.distinct(precision), of, name)

    def quantiles(self, *ranks: float, of: Of = None, name: str | None = None) -> TopologyTable[R]:
        """The values at these ranks, from 0 to 1, as a list of floats, by a KLL sketch (extra `sketches`). NaN has no rank and is refused."""
        return self._ready(aggregates.quantiles(ranks), of, name)

    @step
    def _ready(self, ready: ReadyAggregate, of: Of, name: str | None) -> TopologyTable[R]:
        add = ready.add
        if of is not None:
            callable_or_error("of", of)
            part, inner = of, ready.add

            def add(state: Any, value: Any) -> Any:
                return inner(state, part(value))

        states = self.aggregate(ready.init, add, ready.merge, name=name)
        results = states.map_values(ready.result)
        states.node.shown_as = results.node
        return results


class CountedStream(Part, Generic[R]):
    """Grouped records in windows of n rows of a key; a window gives one result, when its last row comes."""

    def __init__(self, stream: TopologyStream, size: int) -> None:
        self.topology = stream.topology
        self._stream = stream
        self._size = size

    def count(self, *, name: str | None = None) -> R:
        """The number n for each n rows of a key; a Record with the largest time of them."""
        return self.aggregate(int, lambda count, _: count + 1, name=name)

    def reduce(self, fn: Callable[[Any, Any], Any], *, name: str | None = None) -> R:
        """`fn(old, new)` over the n values of a window; the first value is the first aggregate."""
        callable_or_error("reduce", fn)
        return self._results(
            list, lambda state, value: [fn(state[0], value)] if state else [value], lambda s: s[0], name
        )

    def aggregate(self, init: Callable[[], Any], add: Callable[[Any, Any], Any], *, name: str | None = None) -> R:
        """Fold the rows of a window: `init()`, then `add(aggregate, value)` for each row. The result is a Record with the largest timestamp of the rows."""
        callable_or_error("aggregate: init", init)
        callable_or_error("aggregate: add", add)
        return self._results(init, add, lambda state: state, name)

    @step
    def _results(
        self, init: Callable[[], Any], add: Callable[[Any, Any], Any], of: Callable[[Any], Any], name: str | None
    ) -> R:
        size, add = self._size, as_values(add)

        def take(state: Any, record: Record) -> tuple[Any, list[Record]]:
            count, time, aggregate = state or (0, record.timestamp, init())
            aggregate, time, count = add(aggregate, record.value), max(time, record.timestamp), count + 1
            if count < size:
                return (count, time, aggregate), []
            return None, [record.replace(value=of(aggregate), timestamp=time)]

        results: R = self.topology.ended(self._stream.keyed(take, name=name))
        return results
