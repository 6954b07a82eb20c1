"""The aggregation of several streams into one table.

Owner: WindowTask. `TagRows` marks each row with its stream, so that one aggregation adds each by its own function: one
store and one stream time for all. Kafka mode over windows has a stream time for each stream but one store, which hides what
is older than its retention by what all streams put: `share_store` makes such aggregations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from streamactors.windows.definitions.aggregator import Aggregator
from streamactors.windows.operators.aggregate import AggregateSpec, WindowedOperator
from streamactors.windows.operators.operator import NO_TIME, Ident, Operator, TaskEnvironment, TimedOperator
from streamactors.windows.operators.windowed.session_windows import SessionOperator
from streamactors.windows.operators.windowed.sliding_windows import SlidingOperator
from streamactors.windows.operators.windowed.time_updates import TimeUpdates
from streamactors.windows.operators.windowed.time_windows import Opened
from streamactors.windows.record import Record, Tagged
from streamactors.windows.state.stores import Stores

SEGMENT_MS: Final = 60_000
"""The shortest segment of Kafka Streams' stores."""


class TagRows(Operator):
    """The value of each row as Tagged. `needs_value`: rows without value are dropped and counted."""

    def __init__(self, node: str, env: TaskEnvironment, number: int, needs_value: bool) -> None:
        super().__init__(node, env)
        self._number = number
        self._needs_value = needs_value

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        number = self._number
        for row in rows:
            if row.value is None and self._needs_value:
                self.env.metrics.dropped_null += 1
            else:
                out.append(Record(row.key, Tagged(number, row.value), row.timestamp, row.context))


def tagged(init: Callable[[], Any], adds: Sequence[Callable[[Any, Any], Any]], merge: Any) -> Aggregator:
    """Return the aggregation of tagged rows."""

    return Aggregator("cogroup", init, _TaggedAdd(adds), merge)


class _TaggedAdd:
    """Adds a row by the function of its stream."""

    def __init__(self, adds: Sequence[Callable[[Any, Any], Any]]) -> None:
        self._adds = adds

    def __call__(self, aggregate: Any, row: Tagged) -> Any:
        return self._adds[row.number](aggregate, row.value)

    def function_of(self, row: Tagged) -> Callable[[Any, Any], Any]:
        """Return the user's function, for the error that names it."""
        return self._adds[row.number]


class StoreTime:
    """The times of a shared store: the newest entry that any stream put into it, and the stream time of each stream.

    `parts`: the aggregations of the streams, in the order of the streams. The first one has the store, and its metadata has all times."""

    def __init__(self) -> None:
        self.newest = NO_TIME
        self.parts: list[TimedOperator] = []

    def lasting_times(self) -> list[int]:
        """Return the stream times that a restart begins with."""
        return [part.lasting_time for part in self.parts]

    def restore(self, stream_times: Sequence[int]) -> None:
        """Take the stream times back."""
        for part, time in zip(self.parts, stream_times, strict=True):
            part.stream_time = time


class _Shared(WindowedOperator):
    """Reads and writes the times of the shared store in the place of an operator's own."""

    store_time: StoreTime

    @property
    def _newest(self) -> int:
        return self.store_time.newest

    @_newest.setter
    def _newest(self, time: int) -> None:
        self.store_time.newest = max(time, self.store_time.newest)

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"stream_times": self.store_time.lasting_times()}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.store_time.restore(state["stream_times"])


class SharedTimeUpdates(_Shared, TimeUpdates):
    """Tumbling and hopping windows in a shared store. Kafka Streams' store on disk refuses and counts what belongs to a dead segment."""

    def _folded(self, opened: Opened, ident: Ident, record: Record) -> list[Any]:
        updates = super()._folded(opened, ident, record)
        segment = max(self._retention // 2, SEGMENT_MS)
        first_live = max(0, self._newest - self._retention) // segment
        self.env.metrics.dropped_late += sum(update[0] // segment < first_live for update in updates)
        return updates


class SharedSessions(_Shared, SessionOperator):
    """Sessions in a shared store."""


class SharedSliding(_Shared, SlidingOperator):
    """Sliding windows in a shared store."""


SHARED: dict[str, type[Any]] = {
    "TimeWindows": SharedTimeUpdates,
    "UnlimitedWindows": SharedTimeUpdates,
    "SessionWindows": SharedSessions,
    "SlidingWindows": SharedSliding,
}
_STORE_FIELDS = ("_cells", "_sessions", "_keys", "_log")


def share_store(
    spec: AggregateSpec[Any], env: TaskEnvironment, stores: Stores, time: StoreTime, first: Operator | None
) -> TimedOperator:
    """Return the aggregation of one stream; all but the first one use the store of the `first`."""
    kind = SHARED[type(spec.windows).__name__]
    operator: TimedOperator = type(kind.__name__, (kind,), {"store_time": time})(spec, env, stores)
    time.parts.append(operator)
    if first is not None:
        for name in _STORE_FIELDS:
            if hasattr(first, name):
                setattr(operator, name, getattr(first, name))
        operator.store = None
    return operator
