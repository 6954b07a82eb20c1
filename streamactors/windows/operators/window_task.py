"""A task: the operators of one input partition, one behind the other.

Owner: the caller that feeds the partition; one thread at a time. Two tasks share nothing, not even stream time. A task has
no clock, thread or broker: its caller reports silence and the end of the input, and writes the task's changelog entries.

An error ends a task. The results of the rows before the failing one are still emitted; later calls raise TaskDead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from streamactors.windows.errors import RestoreError, TaskDead
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.buffered import Buffered
from streamactors.windows.operators.operator import Found, Operator, TaskEnvironment
from streamactors.windows.record import LateRecord
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.store_log import Change, NewestEntries, Stateful, StoreReader, TaskIdentity


class WindowTask:
    """Made by a TaskFactory. `disk`: its stores, if they are on disk."""

    def __init__(
        self,
        operators: Sequence[Operator],
        env: TaskEnvironment,
        identity: TaskIdentity,
        idle_after_ms: int | None,
        buffers: Sequence[Callable[[], Buffered]],
        disk: DiskStores | None = None,
        stateful: Iterable[Stateful] | None = None,
    ) -> None:
        """`stateful`: what the task keeps in changelogs; None: the operators that have a store."""
        self.disk = disk
        self._operators = operators
        self._env = env
        self._identity = identity
        self._idle_after_ms = idle_after_ms
        self._buffers = buffers
        kept: Iterable[Stateful] = operators if stateful is None else stateful
        self._stateful = {each.store: each for each in kept if each.store is not None}
        self._dead: Exception | None = None

    @property
    def identity(self) -> TaskIdentity:
        return self._identity

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of its stores. Each entry of `changes` carries one of them."""
        return tuple(self._stateful)

    @property
    def changelog_settings(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of the changelogs that are not just compacted, by store."""
        return self._env.changelog_settings

    @property
    def metrics(self) -> TaskMetrics:
        """The counts of this task."""
        return self._env.metrics

    @property
    def buffered(self) -> Buffered:
        """The entries and bytes that suppression holds back. O(entries) without a byte bound."""
        held = [buffer() for buffer in self._buffers]
        return Buffered(sum(each.records for each in held), sum(each.bytes for each in held))

    def process_chunk(self, rows: Sequence[Any]) -> list[Any]:
        """Process `rows`; return the results in order. How rows are cut into chunks changes no result.

        Raises the error that ends the task: BufferFull, OperatorFailed or InvalidRecord."""
        out: list[Any] = []
        self.process_into(rows, out)
        return out

    def process_into(self, rows: Sequence[Any], out: list[Any]) -> None:
        """As process_chunk, but append the results to `out`. When it raises, the results of the rows before are in `out`."""
        for operator in self._operators:
            operator.new_input()
        self._run(rows, out, None)
        if self.disk is not None:
            self.disk.rest()

    def idle(self, silent_ms: int) -> list[Any]:
        """The input has been silent for `silent_ms` of wall clock; return the results that this closes.

        Stream time advances by the silence beyond `idle_after`. Without `idle_after` nothing happens."""
        if self._idle_after_ms is None or silent_ms <= self._idle_after_ms:
            return []
        beyond = silent_ms - self._idle_after_ms
        out: list[Any] = []
        self._run((), out, lambda operator, into: operator.idle(beyond, into))
        return out

    def idle_due_ms(self) -> int | None:
        """The silence at which `idle` emits next; None if nothing is held or there is no `idle_after`."""
        due = [at for operator in self._operators if (at := operator.due_at()) is not None]
        return self._idle_after_ms + max(1, min(due)) if due and self._idle_after_ms is not None else None

    def end_of_input(self) -> list[Any]:
        """The input has ended by itself; return everything that is held. Rows that come after this are late."""
        out: list[Any] = []
        self._run((), out, lambda operator, into: operator.end(into))
        return out

    def start(self) -> list[Any]:
        """The state is restored. Windows need no start."""
        return []

    def wall_due_ms(self) -> int | None:
        """Windows are not called by the wall clock."""
        return None

    def wall_clock(self, now_ms: int) -> list[Any]:
        """Windows are not called by the wall clock."""
        return []

    def close(self) -> None:
        """The task ends."""

    def take_late(self) -> list[LateRecord]:
        """Return the late rows since the last call; always empty unless the factory has `keep_late`."""
        if not self._env.late:
            return []
        late, self._env.late = self._env.late, []
        return late

    def changes(self) -> list[Change]:
        """Return the changelog entries of everything that changed since the last call."""
        self._check_alive()
        changes = [change for each in self._stateful.values() for change in each.changes(self._identity)]
        if self.disk is not None:
            self.disk.take(changes)
        return changes

    def restore(self, changes: Iterable[Change]) -> None:
        """Rebuild the state from changelog entries, oldest first, or from disk. Call it before the first row.

        Raises RestoreError if the entries belong to another task."""
        reader_of = StoreReader if self.disk is None else self.disk.reader
        readers = {store: reader_of(store, self._identity) for store in self.stores}

        def reader(store: str) -> StoreReader:
            if store not in readers:
                raise RestoreError(
                    f"the changelog has entries of the store {store!r}; this task has {sorted(readers)}: "
                    "it belongs to another computation, begin with an empty changelog"
                )
            return readers[store]

        if isinstance(changes, NewestEntries):
            for store, entries in changes.stores.items():
                reader(store).add_all(entries)
        else:
            for change in changes:
                reader(change.store).add(change.key, change.value)
        for store, each in self._stateful.items():
            try:
                each.restore(readers[store])
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise RestoreError(f"changelog of {store} has an entry of another shape: {error}") from error

    @property
    def readable(self) -> frozenset[str]:
        """The names under which readers from outside find stores: those of the stores and of their steps."""
        kept = [operator for operator in self._operators if operator.store is not None]
        return frozenset([*(operator.node for operator in kept), *self.stores])

    def entries(self, store: str, request: StoreRequest) -> Iterable[StoreEntry]:
        """Return what a store, or the step of that name, has for a reader. Raises UnknownStore."""
        for operator in self._operators:
            if operator.store is not None and store in (operator.store, operator.node):
                return operator.entries(request)
        return ()

    def read(self, key: Any, start: int | None = None, end: int | None = None) -> Found | None:
        """Return the (value, timestamp) of a key (and window) in the last table, as downstream has seen it, or None.

        For an entry that suppression holds back: the value before it, with None as the unknown timestamp."""
        return self._operators[-1].read(self._env.identity.of(key), start, end)

    def _run(self, rows: Sequence[Any], result: list[Any], then: Callable[[Operator, list[Any]], None] | None) -> None:
        """Pass rows through all operators, calling `then` on each; append the output of the last one to `result`."""
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
            except Exception as raised:  # noqa: BLE001 - the results before it are still emitted
                # A later operator fails at an update of an earlier row, so the last error is the first in time.
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
