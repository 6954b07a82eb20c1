"""WindowTestDriver: runs a windowed computation row by row, without threads or brokers.

Owner: the test. It corresponds to TopologyTestDriver of Kafka Streams, for what begins with `Source.group_by_key()`, `key_by` or `to_table`.
Stream time comes from the timestamps of the rows; only `advance_wall_clock` moves the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamactors.durations import Duration
from streamactors.errors import BuildError
from streamactors.testing.task_driver import TaskDriver
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.operators.buffered import Buffered
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.state.store_log import TaskIdentity
from streamactors.windows.topology.chain import Records
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.table import TopologyTable


class WindowTestDriver(TaskDriver):
    """`build` receives a stream of Records and returns a table or a stream.

    `topic` names the input in contexts and in the bytes of suppressed entries; `serdes` are the stream's.
    `idle_after` (seconds, a timedelta or a string): as in `windowed_by`."""

    def __init__(
        self,
        build: Callable[[Any], Any],
        topic: str = "input",
        *,
        serdes: Serdes | None = None,
        idle_after: Duration | None = None,
        on_failure: Callable[[OperatorFailed], bool] | None = None,
        changelog: bool = True,
        identity: TaskIdentity = TaskIdentity("test"),
    ) -> None:
        built = build(Records())
        if isinstance(built, TopologyTable):
            built = built.to_stream()
        if not isinstance(built, TopologyStream):
            raise BuildError(f"WindowTestDriver: the function returned {built!r}; return the table or stream it builds")
        stream: Any = built.again()
        stream.topology.idle_after(idle_after)
        self._results = stream.node
        self._topic = topic
        super().__init__(
            lambda now_ms: stream.topology.tasks(
                stream.node,
                serdes=serdes or Serdes(),
                keep_late=True,
                changelog=changelog,
                on_failure=on_failure,
                now_ms=now_ms,
            ),
            identity,
        )

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
        self._process(self._topic, key, value, timestamp, out, headers)

    def read(self, key: Any, start: int | None = None, end: int | None = None) -> tuple[Any, int | None] | None:
        """Return the (value, timestamp) of a key (and window) in the last table, as downstream has seen it."""
        view = self._view(self._results)
        return view.get(key) if start is None else view.fetch(key, start, end)

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
    def buffered(self) -> Buffered:
        """The records and bytes that suppression holds."""
        return self._task.buffered
