"""What a processor sees of its task: stores, time, timers, schedules, and the way to the steps downstream.

Owner: ProcessorOperator; used by the processor's own methods, on the thread of the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from streamactors.durations import Duration
from streamactors.errors import BuildError, StreamError
from streamactors.windows.processors.punctuation import Clock, Scheduled, checked_schedule
from streamactors.windows.record import Record, RecordContext

if TYPE_CHECKING:
    from streamactors.windows.processors.operator import ProcessorOperator


class NoStore(StreamError, LookupError):
    """A processor asked for a store that its step does not name."""


class ProcessorContext:
    """Given to a processor's `init`. `partition`: the number of the task's partitions."""

    def __init__(self, operator: ProcessorOperator, stores: Mapping[str, Any], partition: int) -> None:
        self._operator = operator
        self._stores = stores
        self.partition = partition

    def store(self, name: str) -> Any:
        """Return a store by its name: KeyValues, WindowValues, SessionValues or VersionedValues; a table's store gives (value, timestamp).

        Raises NoStore for a store that the step does not name."""
        store = self._stores.get(name)
        if store is None:
            raise NoStore(
                f"{self._operator.node} has no store {name!r}; it has {sorted(self._stores)}: name it in process(…, stores=[…])"
            )
        return store

    def forward(self, record: Record, to: str | None = None) -> None:
        """Send a record to all steps downstream of the processor, or to the one named `to`. It passes through them before `forward` returns.

        Raises StreamError if there is no such step, for an element that is not a Record, for a changed key after process_values, and outside the
        processor's own methods."""
        self._operator.forward(record, to)

    def drop(self, record: Record) -> None:
        """Count a row as dropped."""
        self._operator.env.metrics.dropped_null += 1

    # ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def stream_time(self) -> int:
        """The largest timestamp of any row of the task, in ms, this row included; -1 before the first row."""
        return self._operator.time.stream_ms

    @property
    def wall_clock(self) -> int:
        """The wall clock in ms since 1970; it does not change within one call."""
        return self._operator.wall_ms

    @property
    def record_context(self) -> RecordContext | None:
        """Topic, partition, offset and headers of the row that is processed; None in timers and scheduled functions."""
        return self._operator.record_context

    def timer(self, key: Any, at: int) -> None:
        """Have `on_timer(key, at)` called when stream time reaches `at`, in ms. There is one timer per key and time; it survives restarts."""
        if isinstance(at, bool) or not isinstance(at, int):
            raise BuildError(
                f"{self._operator.node}: timer at {at!r}; give a time in whole ms, for example record.timestamp + 60_000"
            )
        self._operator.timers.set(key, at)

    def cancel_timer(self, key: Any, at: int) -> bool:
        """Cancel a timer. Returns False if it is not set."""
        return self._operator.timers.cancel(key, at)

    def schedule(self, every: Duration, fn: Callable[[int], object], clock: Clock = "stream") -> Scheduled:
        """Call `fn(now)` at intervals of the task's stream time or of the wall clock; `now` is in ms.

        By stream time: after the first row, then after the first row at or after the next multiple of `every`. By the wall clock: first
        after `every`. A bare number of `every` is milliseconds of stream time, or seconds of the wall clock. A jump of time
        calls it once. Schedules do not survive a restart; set them in `init`. Returns the schedule; its
        `cancel()` ends it. Raises BuildError for values that cannot work."""
        every_ms, checked = checked_schedule(every, fn, clock)
        return self._operator.schedule(every_ms, checked, clock)
