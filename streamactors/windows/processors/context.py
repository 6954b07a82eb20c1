"""What a processor sees of its task: stores, time, timers, schedules, and the way to the steps behind it.

Owner: ProcessorOperator; used by the processor's own methods, on the thread of the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from streamactors.errors import BuildError, StreamError
from streamactors.windows.definitions.duration import Duration
from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.punctuation import Clock, Scheduled, checked_schedule
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.processors.timers import Timers
from streamactors.windows.record import Record, RecordContext


class NoStore(StreamError, LookupError):
    """A processor asked for a store that its step does not name."""


class Host(Protocol):
    """What runs the processor. `wall_ms`, `record_context`: of the current call."""

    node: str
    env: TaskEnvironment
    time: TaskTime
    timers: Timers
    wall_ms: int
    record_context: RecordContext | None

    def forward(self, record: Any, to: str | None) -> None:
        """Pass a record on."""

    def schedule(self, every_ms: int, fn: Callable[[int], object], clock: Clock) -> Scheduled:
        """Call a function every so often."""


class ProcessorContext:
    """See the module. `partition`: the number of the task's partitions."""

    def __init__(self, operator: Host, stores: Mapping[str, Any], partition: int) -> None:
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
        """Send a record to all steps behind the processor, or to the one named `to`. It passes through them before `forward` returns.

        Raises StreamError if there is no such step, for an element that is no Record, for a changed key behind process_values, and outside the
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
        """The wall clock in ms since 1970; it stands still within one call."""
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
        """Call `fn(now)` every so often by the stream time of the task or by the wall clock; `now` is in ms.

        By stream time: after the first row, then after the first row at or behind the next multiple of `every`. By the wall clock: first
        after `every`. A jump of time calls it once. Schedules do not survive a restart; set them in `init`. Returns the schedule; its
        `cancel()` ends it. Raises BuildError for values that cannot work."""
        every_ms, checked = checked_schedule(every, fn, clock)
        return self._operator.schedule(every_ms, checked, clock)
