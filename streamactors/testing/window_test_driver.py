"""WindowTestDriver: runs a windowed computation row by row, at times the test gives, without threads or brokers.

Owner: the test. What Kafka Streams users know as TopologyTestDriver; stream time comes with the rows, wall clock time
moves only when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamactors.errors import BuildError
from streamactors.windows.blueprint import Blueprint, RecordStep
from streamactors.windows.buffered import Buffered
from streamactors.windows.changelog import Change, TaskIdentity
from streamactors.windows.codec import Serdes
from streamactors.windows.compiler import compile
from streamactors.windows.duration import Duration, to_ms
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.fluent import Table, WindowOps
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.record import LateRecord, Record, RecordContext


class RecordStream(WindowOps["RecordStream", "RecordStream"]):
    """What the driver hands to the function under test: a stream of Records, written down instead of run."""

    def __init__(self, blueprint: Blueprint = Blueprint()) -> None:
        self.blueprint = blueprint
        self.numbers_taken = blueprint.numbers

    def via_windows(self, blueprint: Blueprint) -> RecordStream:
        return RecordStream(self.blueprint + blueprint)

    def map(self, fn: Callable[[Any], Any]) -> RecordStream:
        """`fn(record)` for each record."""
        return RecordStream(self.blueprint.then(RecordStep(fn, False)))

    def filter(self, predicate: Callable[[Any], Any]) -> RecordStream:
        """The records for which `predicate(record)` is true."""
        return RecordStream(self.blueprint.then(RecordStep(predicate, True)))


class WindowTestDriver:
    """`build` is given a stream of Records and returns what it makes of it, a table or a stream.

    `topic` names the input in contexts and in the bytes of suppressed entries; `serdes` are the stream's."""

    def __init__(
        self,
        build: Callable[[RecordStream], RecordStream | Table[RecordStream]],
        topic: str = "input",
        *,
        serdes: Serdes | None = None,
        idle_after: Duration | None = None,
        on_failure: Callable[[OperatorFailed], bool] | None = None,
        changelog: bool = True,
        identity: TaskIdentity = TaskIdentity("test"),
    ) -> None:
        built = build(RecordStream())
        if isinstance(built, Table):
            built = built.to_stream()
        if not isinstance(built, RecordStream):
            raise BuildError(f"WindowTestDriver: the function returned {built!r}; return the table or stream it builds")
        self._factory = compile(
            built.blueprint.with_idle_after(idle_after),
            serdes=serdes or Serdes(),
            keep_late=True,
            changelog=changelog,
            on_failure=on_failure,
        )
        self._identity = identity
        self._task = self._factory(identity)
        self._topic = topic
        self._offset = 0
        self._now_ms = 0
        self._last_input_ms = 0
        self._late: list[LateRecord] = []

    def pipe(
        self,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> list[Any]:
        """Feed one row; return what it released, in order: WindowedRecord, or Record where there is no window.

        Raises what the task would die of, for example BufferFull."""
        out: list[Any] = []
        self.pipe_into(key, value, timestamp, out, headers)
        return out

    def pipe_into(
        self,
        key: Any,
        value: Any,
        timestamp: int,
        out: list[Any],
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        """As pipe, appended to `out`; when it raises, what the row released before is there."""
        context = RecordContext(self._topic, self._identity.partition, self._offset, tuple(headers))
        self._offset += 1
        self._last_input_ms = self._now_ms
        self._task.process_into([Record(key, value, timestamp, context)], out)

    def pipe_all(self, records: Iterable[Record]) -> list[Any]:
        """Feed records as one chunk; return what they released, in order."""
        self._last_input_ms = self._now_ms
        return self._task.process_chunk(list(records))

    def advance_wall_clock(self, by: Duration) -> list[Any]:
        """Let wall clock time pass without input; return what that released (nothing without `idle_after`)."""
        self._now_ms += to_ms(by, "advance_wall_clock")
        return self._task.idle(self._now_ms - self._last_input_ms)

    def end_of_input(self) -> list[Any]:
        """Say that no row will follow; return everything that was still held back."""
        return self._task.end_of_input()

    def restart(self, changes: Iterable[Change]) -> None:
        """Go on with a new task, restored from changelog entries (as `changes` gave them, oldest first)."""
        self._task = self._factory(self._identity)
        self._task.restore(changes)
        self._last_input_ms = self._now_ms

    def changes(self) -> list[Change]:
        """The changelog entries of what changed since the last call, as a commit would write them."""
        return self._task.changes()

    def read(self, key: Any, start: int | None = None, end: int | None = None) -> tuple[Any, int | None] | None:
        """The last table's (value, timestamp) for a key (and window) as downstream has seen it."""
        return self._task.read(key, start, end)

    @property
    def dropped_late(self) -> int:
        """Rows refused, once per closed window."""
        return self._task.metrics.dropped_late

    @property
    def dropped_null(self) -> int:
        """Rows skipped because their key, or where it matters their value, is None."""
        return self._task.metrics.dropped_null

    @property
    def dropped_negative(self) -> int:
        """Rows skipped because their timestamp is negative."""
        return self._task.metrics.dropped_negative

    @property
    def late(self) -> list[LateRecord]:
        """The rows that `dropped_late` counts."""
        self._late.extend(self._task.take_late())
        return list(self._late)

    @property
    def buffered(self) -> Buffered:
        """(records, bytes) held back by suppression now."""
        return self._task.buffered

    @property
    def metrics(self) -> TaskMetrics:
        """Everything the task counts, under Kafka Streams' names."""
        return self._task.metrics
