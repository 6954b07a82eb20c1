"""A task: the operators of one input partition, in a row; chunk in, list out.

Owner: whoever feeds the partition, one thread at a time. Two tasks share nothing, least of all time. No clock, thread
or broker in it: silence and the end of the input are told to it, and its state is handed out as changelog entries.

An error ends a task: what the rows before it gave still goes out, later calls raise TaskDead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streamactors.windows.buffered import Buffered
from streamactors.windows.changelog import Change, StoreReader, TaskIdentity
from streamactors.windows.errors import RestoreError, TaskDead
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operator import Operator, Surroundings
from streamactors.windows.record import LateRecord


class WindowTask:
    """Made by a TaskFactory."""

    def __init__(
        self,
        operators: Sequence[Operator],
        around: Surroundings,
        identity: TaskIdentity,
        idle_after_ms: int | None,
        buffers: Sequence[Callable[[], Buffered]],
    ) -> None:
        self._operators = operators
        self._around = around
        self._identity = identity
        self._idle_after_ms = idle_after_ms
        self._buffers = buffers
        self._dead: Exception | None = None

    @property
    def identity(self) -> TaskIdentity:
        return self._identity

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores it has; `changes` names one of them in each entry."""
        return tuple(operator.store for operator in self._operators if operator.store is not None)

    @property
    def metrics(self) -> TaskMetrics:
        """Counts of this task."""
        return self._around.metrics

    @property
    def buffered(self) -> Buffered:
        """Entries and bytes that suppression holds back now. O(entries) where no byte bound is set."""
        held = [buffer() for buffer in self._buffers]
        return Buffered(sum(each.records for each in held), sum(each.bytes for each in held))

    def process_chunk(self, rows: Sequence[Any]) -> list[Any]:
        """What `rows` give, in order. How rows are cut into chunks changes nothing.

        Raises what the task dies of: BufferFull, OperatorFailed, InvalidRecord."""
        out: list[Any] = []
        self.process_into(rows, out)
        return out

    def process_into(self, rows: Sequence[Any], out: list[Any]) -> None:
        """As process_chunk, appended to `out`; when it raises, what the rows before the failing one gave is there."""
        for operator in self._operators:
            operator.new_input()
        self._run(rows, out, None)

    def idle(self, silent_ms: int) -> list[Any]:
        """What closes because the input has been silent for `silent_ms` of wall clock altogether.

        From `idle_after` on stream time goes on by the time beyond it; without `idle_after` nothing happens."""
        if self._idle_after_ms is None or silent_ms <= self._idle_after_ms:
            return []
        beyond = silent_ms - self._idle_after_ms
        out: list[Any] = []
        self._run((), out, lambda operator, into: operator.idle(beyond, into))
        return out

    def idle_due_ms(self) -> int | None:
        """The silence at which `idle` gives something out next; None if nothing is held or there is no `idle_after`."""
        due = [at for operator in self._operators if (at := operator.due_at()) is not None]
        return self._idle_after_ms + max(1, min(due)) if due and self._idle_after_ms is not None else None

    def end_of_input(self) -> list[Any]:
        """Everything still held back: the input has come to its own end, and rows that come all the same are late."""
        out: list[Any] = []
        self._run((), out, lambda operator, into: operator.end(into))
        return out

    def take_late(self) -> list[LateRecord]:
        """The rows refused by closed windows since the last call; empty unless the factory was asked to keep them."""
        if not self._around.late:
            return []
        late, self._around.late = self._around.late, []
        return late

    def changes(self) -> list[Change]:
        """The changelog entries of everything that changed since the last call."""
        self._check_alive()
        return [change for operator in self._operators for change in operator.changes(self._identity)]

    def restore(self, changes: Iterable[Change]) -> None:
        """Rebuild the state from changelog entries, oldest first. To be called before the first row.

        Raises RestoreError if they are not this task's."""
        readers = {op.store: StoreReader(op.store, self._identity) for op in self._operators if op.store is not None}
        for change in changes:
            reader = readers.get(change.store)
            if reader is None:
                raise RestoreError(
                    f"the changelog has entries of the store {change.store!r}; this task has {sorted(readers)}: "
                    "it belongs to another computation, begin with an empty changelog"
                )
            reader.add(change.key, change.value)
        for operator in self._operators:
            if operator.store is not None:
                try:
                    operator.restore(readers[operator.store])
                except (TypeError, ValueError, KeyError, AttributeError) as error:
                    raise RestoreError(
                        f"changelog of {operator.store} has an entry of another shape: {error}"
                    ) from error

    def read(self, key: Any, start: int | None = None, end: int | None = None) -> tuple[Any, int | None] | None:
        """The last table's (value, timestamp) for a key (and window) as downstream has seen it; None if there is none.

        Of a suppressed entry that is held back: the value before, whose timestamp is not known (None)."""
        return self._operators[-1].read(key, self._around.identity.of(key), start, end)

    def _run(self, rows: Sequence[Any], result: list[Any], then: Callable[[Operator, list[Any]], None] | None) -> None:
        """Pass rows through the operators, each of which then does `then`; the last one's output goes to `result`."""
        self._check_alive()
        error: Exception | None = None
        last = self._operators[-1]
        for operator in self._operators:
            out = result if operator is last else []
            try:
                if rows:
                    operator.process(rows, out)
                if then is not None and error is None:
                    then(operator, out)
            except Exception as raised:  # noqa: BLE001 - whatever it is, what came before it still goes out
                # An operator further on fails at an update of an earlier row, so the last error is the first in time.
                error = raised
            rows = out
        if error is not None:
            self._dead = error
            raise error

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise TaskDead(
                f"this task ended with {type(self._dead).__name__}; restore a new one from the last commit"
            ) from self._dead
