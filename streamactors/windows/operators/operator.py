"""The base classes of all operators of a task: `process` takes a list of rows and appends results to a list.

Owner: WindowTask; one thread at a time. An operator reads no clock. Stream time comes from the rows (the largest
timestamp accepted, shared by all keys of the task, never going back) or from the calls `idle` and `end`. If an operator
raises, the results of the rows before stay in `out`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from streamactors.errors import UnknownStore
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.buffered import OpenWindows
from streamactors.windows.operators.windowed.late_counts import LateCounts
from streamactors.windows.record import LateRecord, RecordContext
from streamactors.windows.state.changelog_settings import COMPACTED, expiring
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import Ident as Ident
from streamactors.windows.state.serdes import KeyIdentity, Serdes
from streamactors.windows.state.store_log import Change, StoreLog, StoreReader, TaskIdentity

NO_TIME: Final = -1
"""Stream time before the first row."""

END_OF_TIME: Final = 1 << 66
"""Stream time after the end of the input: larger than every 64-bit window end plus every wait, so all windows close."""

Found: TypeAlias = tuple[Any, "int | None"]
"""What `read` returns: a value and its timestamp, None for an unknown timestamp."""

Update: TypeAlias = tuple[
    Ident,  # ident of the key
    Any,  # key
    "int | None",  # start of the window, None for a table without windows
    "int | None",  # end of the window
    Any,  # new value, None: deleted
    Any,  # old value
    int,  # timestamp
    "RecordContext | None",  # of the last contributing row
    "bool | None",  # final: no later update can change it; None: a version of the past, which is not the newest
]
"""One change of a table's entry, on its way between two operators. A plain tuple: a busy task makes millions."""


class TaskEnvironment:
    """What a task gives its operators.

    `late` collects refused rows; None: they are dropped. `on_failure` is called when user code raises and returns True
    if the row is to be skipped (it is a dead letter then). `track_changes`: the task keeps a changelog."""

    def __init__(
        self,
        serdes: Serdes,
        metrics: TaskMetrics,
        on_failure: Callable[[OperatorFailed], bool] | None = None,
        track_changes: bool = False,
        late: list[LateRecord] | None = None,
        late_counts: LateCounts | None = None,
    ) -> None:
        self.serdes = serdes
        self.identity = KeyIdentity(serdes)
        self.metrics = metrics
        self.late = late
        self.late_counts = late_counts
        """What a stage logs of dropped rows; None: there is no stage."""
        self.on_failure = on_failure
        self.track_changes = track_changes
        self.changelog_settings: dict[str, Mapping[str, str]] = {}
        """The settings of the changelogs that are not just compacted, by store."""

    def expires(self, log: StoreLog, retention_ms: int) -> None:
        """The store of `log` hides entries older than its retention."""
        self.changelog_settings[log.store] = settings = expiring(retention_ms)
        log.expires = settings is not COMPACTED

    def settle(self, failure: OperatorFailed) -> None:
        """Return if the failed row is to be skipped, else raise `failure`."""
        if self.on_failure is None or not self.on_failure(failure):
            raise failure


class Operator(ABC):
    """A step of a task. `node` names the step in errors and metrics."""

    store: str | None = None

    def __init__(self, node: str, env: TaskEnvironment) -> None:
        self.node = node
        self.env = env

    @abstractmethod
    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        """Process `rows` in order and append the results to `out`."""

    def new_input(self) -> None:  # noqa: B027 - most operators need none
        """Rows have come, so the input is no longer silent."""

    def idle(self, beyond_ms: int, out: list[Any]) -> None:  # noqa: B027 - most operators need none
        """The input has been silent for `beyond_ms` longer than the idle timeout."""

    def due_at(self) -> int | None:
        """The `beyond_ms` at which `idle` emits next; None if nothing is held."""
        return None

    def end(self, out: list[Any]) -> None:  # noqa: B027 - most operators need none
        """The input has ended: emit everything that is held."""

    def forwarded(self) -> None:  # noqa: B027 - most operators need none
        """In a topology: everything downstream of this operator has processed what it emitted last."""

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        """Return the changelog entries of the state that changed since the last call."""
        return ()

    def restore(self, reader: StoreReader) -> None:  # noqa: B027 - most operators need none
        """Rebuild the state from the changelog entries of this operator's store."""

    def open_windows(self) -> OpenWindows | None:
        """Return the windows that are open; None for an operator without windows, or if counting them would cost too much."""
        return None

    def entries(self, request: StoreRequest) -> Iterable[StoreEntry]:
        """Return the entries of the store among which a query from outside chooses."""
        raise UnknownStore(
            f"{self.node} keeps no table that can be read from outside; give the table of it a name: .map_values(fn, name=…), .to_table(name=…)"
        )

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        """Return the entry of a key and window as downstream has seen it, or None. A view without a store computes it: raises OperatorFailed."""
        raise NotImplementedError(f"{self.node} is not a table")

    def read_as_of(self, ident: Ident, time_ms: int) -> Found | None:
        """Return the version of a key that was valid at `time_ms`; without versions, the entry as `read` does."""
        return self.read(ident, None, None)


class SilentTime:
    """How silence moves a stream time: it advances with the wall clock, from its value when the input fell silent."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: int | None = None

    def over(self) -> None:
        """A row has come."""
        self._since = None

    def moved(self, stream_time: int, beyond_ms: int) -> int:
        """Return the stream time after a silence of `beyond_ms` beyond the idle timeout. Before the first row there is none to move."""
        if stream_time == NO_TIME:
            return NO_TIME
        if self._since is None:
            self._since = stream_time
        return max(stream_time, min(self._since + beyond_ms, END_OF_TIME))

    def due_in(self, stream_time: int, at: int | None) -> int | None:
        """Return the silence beyond the idle timeout that moves the stream time to `at`; None if no silence does."""
        if at is None or stream_time == NO_TIME:
            return None
        return max(0, at - (stream_time if self._since is None else self._since))


class TimedOperator(Operator):
    """An operator with a store and a stream time of its own."""

    def __init__(self, node: str, store: str, shape: str, env: TaskEnvironment) -> None:
        super().__init__(node, env)
        self.store = store
        self.stream_time = NO_TIME
        self._log = StoreLog(store, node, shape, env.track_changes)
        self._silent = SilentTime()
        self._time_before_end: int | None = None

    # ── time without rows ─────────────────────────────────────────────────────────────────────────────────────────

    def new_input(self) -> None:
        self._silent.over()

    def idle(self, beyond_ms: int, out: list[Any]) -> None:
        self._advance(self._silent.moved(self.stream_time, beyond_ms), out)

    def end(self, out: list[Any]) -> None:
        if self._time_before_end is None:
            self._time_before_end = max(self.stream_time, self._flushed_until())
            self._advance(END_OF_TIME, out)

    def _advance(self, stream_time: int, out: list[Any]) -> None:
        if stream_time > self.stream_time:
            self.stream_time = stream_time
            self._release(out)

    def due_at(self) -> int | None:
        return self._silent.due_in(self.stream_time, self._next_release())

    def _next_release(self) -> int | None:
        """The stream time at which the operator emits next; None if it holds nothing."""
        return None

    def _release(self, out: list[Any]) -> None:
        """Emit everything that is due at `stream_time`."""

    def _flushed_until(self) -> int:
        """The stream time that closes what the end of the input makes final. Called before these results are released."""
        return NO_TIME

    # ── changelog ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def lasting_time(self) -> int:
        """The stream time that a restart begins with.

        The end of a bounded read is not the end of its topic. Later rows must find the stream time that the rows before
        had reached; only the windows that the end has flushed as final stay closed."""
        return self.stream_time if self._time_before_end is None else self._time_before_end

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        return self._log.changes(identity, self._state(), self._entries())

    def restore(self, reader: StoreReader) -> None:
        state = reader.state(self._log)
        if state is not None:
            self._restore_state(state)
            self._restore_entries(reader.entries())

    def _state(self) -> dict[str, Any]:
        """What the store's metadata keeps for this operator."""
        return {"stream_time": self.lasting_time}

    def _restore_state(self, state: dict[str, Any]) -> None:
        self.stream_time = state["stream_time"]

    @abstractmethod
    def _entries(self) -> Iterable[tuple[bytes, list[Any]]]:
        """The changed entries: (key in the changelog, fields)."""

    @abstractmethod
    def _restore_entries(self, entries: Iterable[list[Any]]) -> None:
        """Take back all entries, from their fields. There may be millions: a call per entry costs as much as decoding it."""
