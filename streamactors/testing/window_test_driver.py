"""WindowTestDriver: runs a windowed computation row by row, without threads or brokers.

Owner: the test. It corresponds to TopologyTestDriver of Kafka Streams. Stream time comes from the timestamps of the rows;
only `advance_wall_clock` moves the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamactors.errors import BuildError
from streamactors.windows.definitions.blueprint import Blueprint, RecordStep
from streamactors.windows.definitions.duration import Duration, to_ms
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.fluent import Table, WindowOps
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.buffered import Buffered
from streamactors.windows.operators.task_factory import compile
from streamactors.windows.record import LateRecord, Record, RecordContext
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.state.store_log import Change, TaskIdentity


class RecordStream(WindowOps["RecordStream", "RecordStream"]):
    """The stream of Records that the driver passes to the function under test; it records the steps."""

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
    """`build` receives a stream of Records and returns a table or a stream.

    `topic` names the input in contexts and in the bytes of suppressed entries; `serdes` are the stream's.
    `idle_after` (ms, a timedelta or a text): as in `windowed_by`."""

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
        """Process one row; return the results in order: WindowedRecord, or Record without windows.

        Raises the error that ends the task, for example BufferFull."""
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
        """As pipe, but append the results to `out`. When it raises, the results before the error are in `out`."""
        context = RecordContext(self._topic, self._identity.partition, self._offset, tuple(headers))
        self._offset += 1
        self._last_input_ms = self._now_ms
        self._task.process_into([Record(key, value, timestamp, context)], out)

    def pipe_all(self, records: Iterable[Record]) -> list[Any]:
        """Process records as one chunk; return the results in order."""
        self._last_input_ms = self._now_ms
        return self._task.process_chunk(list(records))

    def advance_wall_clock(self, by: Duration) -> list[Any]:
        """Advance the wall clock by `by` (ms, a timedelta or a text) without input; return the results (none without `idle_after`)."""
        self._now_ms += to_ms(by, "advance_wall_clock")
        return self._task.idle(self._now_ms - self._last_input_ms)

    def end_of_input(self) -> list[Any]:
        """End the input; return everything that was held."""
        return self._task.end_of_input()

    def restart(self, changes: Iterable[Change]) -> None:
        """Continue with a new task, restored from the entries that `changes` returned, oldest first."""
        self._task = self._factory(self._identity)
        self._task.restore(changes)
        self._last_input_ms = self._now_ms

    def changes(self) -> list[Change]:
        """Return the changelog entries since the last call, as a commit would write them."""
        return self._task.changes()

    def read(self, key: Any, start: int | None = None, end: int | None = None) -> tuple[Any, int | None] | None:
        """Return the (value, timestamp) of a key (and window) in the last table, as downstream has seen it."""
        return self._task.read(key, start, end)

    @property
    def dropped_late(self) -> int:
        """Refused rows, counted once per closed window."""
        return self._task.metrics.dropped_late

    @property
    def dropped_null(self) -> int:
        """Rows skipped because their key, or a value that the operator needs, is None."""
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
        """The records and bytes that suppression holds."""
        return self._task.buffered

    @property
    def metrics(self) -> TaskMetrics:
        """The metrics of the task, under Kafka Streams' names."""
        return self._task.metrics
