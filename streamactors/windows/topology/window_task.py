"""A task of a topology: the partitions of one number of all its topics.

Owner: the caller that feeds the task; one thread at a time. Two tasks share nothing, not even stream time. A task has no clock, thread or
broker: its caller decides the order of the rows of several topics, reports silence and the end of the input, and writes the task's changelog
entries.

An error ends a task. The results of the rows before the failing one are still emitted; later calls raise TaskDead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import ExitStack
from typing import Any

from streamactors.errors import UnknownStore
from streamactors.windows.errors import InvalidRecord, RestoreError, TaskDead
from streamactors.windows.joins.lookup import LookupJoin
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.buffered import Buffered, OpenWindows
from streamactors.windows.operators.operator import Operator
from streamactors.windows.processors.state_store import StateStore
from streamactors.windows.record import LateRecord
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.store_log import Change, NewestEntries, Stateful, StoreReader, TaskIdentity
from streamactors.windows.tables.stored import StoredTable
from streamactors.windows.topology.model import ANY_TOPIC, Build, TopologyNode
from streamactors.windows.topology.plan import TopologyPlan, Way, hand_on, run


class WindowTask:
    """Made by a TaskFactory."""

    def __init__(
        self, build: Build, identity: TaskIdentity, idle_after_ms: int | None, disk: DiskStores | None = None
    ) -> None:
        """`disk`: the stores, if they are on disk."""
        self.disk = disk
        self._plan = TopologyPlan(build)
        self._operator_of = build.of
        self._operators = [step.operator for step in self._plan.steps.values()]
        self._env = build.env
        self._identity = identity
        self._idle_after_ms = idle_after_ms
        self._buffers = build.buffers
        self._stateful = {each.store: each for each in build.stateful if each.store is not None}
        self._times = build.times
        self._outbox = build.outbox
        self._kept: Mapping[str, Sized] = getattr(build.stores, "made", {})
        self._input = self._plan.entrances.get(ANY_TOPIC)
        self._dead: Exception | None = None
        self._started = False

    def operator(self, node: TopologyNode) -> Operator:
        """Return the operator of a node, for reading."""
        return self._operator_of(node)

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
    def stream_time_ms(self) -> int | None:
        """The largest timestamp of any row so far; None before the first one, or if no operator of the task keeps it."""
        known = [time.stream_ms for time in self._times]
        known += [at for operator in self._operators if isinstance(at := getattr(operator, "stream_time", None), int)]
        return max((at for at in known if at >= 0), default=None)

    @property
    def buffered(self) -> Buffered:
        """The entries and bytes that suppression holds back. O(entries) without a byte bound."""
        held = [each.buffered() for each in self._buffers]
        return Buffered(sum(each.records for each in held), sum(each.bytes for each in held))

    @property
    def holds(self) -> int:
        """Number of entries that suppression holds back. O(1)."""
        return sum(each.holds for each in self._buffers)

    @property
    def open_windows(self) -> OpenWindows | None:
        """The open windows of all aggregations; None without windows."""
        known = [found for each in self._operators if (found := each.open_windows()) is not None]
        closes = [each.next_close_ms for each in known if each.next_close_ms is not None]
        return OpenWindows(sum(each.open for each in known), min(closes, default=None)) if known else None

    @property
    def entries_in_memory(self) -> Mapping[str, int]:
        """Number of entries of each store in memory, by name."""
        return {name: len(store) for name, store in self._kept.items()}

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def process_chunk(self, rows: Sequence[Any]) -> list[Any]:
        """Process `rows`; return the results in order. How rows are cut into chunks changes no result.

        Raises the error that ends the task: BufferFull, OperatorFailed or InvalidRecord."""
        out: list[Any] = []
        self.process_into(rows, out)
        return out

    def process_into(self, rows: Sequence[Any], out: list[Any]) -> None:
        """As process_chunk, but append the Outputs to `out`. When it raises, the Outputs of the rows before are in `out`."""
        for operator in self._operators:
            operator.new_input()
        if not self._started:
            out += self.start()
        self._count(len(rows))
        self._guarded(lambda: self._process(rows), out)
        if self.disk is not None:
            self.disk.rest()

    def _count(self, rows: int) -> None:
        self._env.metrics.rows += rows
        if self._env.late_counts is not None:
            self._env.late_counts.rows += rows

    def _process(self, rows: Sequence[Any]) -> None:
        for topic, lookup in self._plan.first_lookups:
            lookup.ask_ahead([row for row in rows if topic == ANY_TOPIC or _topic_of(row) == topic])
        if self._input is not None:
            self._pass(self._input, rows)
            return
        try:
            topics = [row.context.topic for row in rows]
        except AttributeError:  # a row has no topic: process the rows before it, and fail at this row
            for row in rows:
                self._enter(_topic_of(row), [row])
            return
        first, count = 0, len(rows)
        while first < count:
            topic, last = topics[first], first + 1
            while last < count and topics[last] == topic:
                last += 1
            self._enter(topic, rows[first:last])
            first = last

    def _enter(self, topic: str, rows: Sequence[Any]) -> None:
        """Process rows of one topic."""
        way = self._plan.entrances.get(topic)
        if way is None:
            raise InvalidRecord(
                f"{rows[0]!r} comes from the topic {topic!r}; this topology reads {sorted(self._plan.entrances)}"
            )
        self._pass(way, rows)

    def _pass(self, way: Way, rows: Sequence[Any]) -> None:
        """Pass rows through an entrance and everything after it."""
        if way.alone or len(rows) == 1:
            for row in rows:
                way.enter(row)
                self._go_round()
        else:
            run(way.step, rows if type(rows) is list else list(rows))
            self._go_round()

    def _go_round(self) -> None:
        """Process what lies in repartition topics in memory, until nothing is left."""
        queues = self._outbox.queues
        if queues is None:
            return
        entrances = self._plan.entrances
        while queues.waiting:
            topic, row = queues.take()
            entrances[topic].enter(row)

    @property
    def is_started(self) -> bool:
        """True once the processors were started."""
        return self._started

    def start(self) -> list[Any]:
        """Start the processors, when the state is restored; return what they forward. Idempotent."""
        out: list[Any] = []

        def start_all() -> None:
            for time in self._times:
                time.start()
            self._go_round()

        if not self._started:
            self._started = True
            self._guarded(start_all, out)
        return out

    def wall_due_ms(self) -> int | None:
        """The wall clock at which a scheduled function is due next; None if there is none."""
        return min((at for time in self._times if (at := time.by_wall.next_ms()) is not None), default=None)

    def wall_clock(self, now_ms: int) -> list[Any]:
        """The wall clock is at `now_ms`: call the scheduled functions that are due; return the Outputs."""
        out: list[Any] = []

        def call() -> None:
            for time in self._times:
                time.by_wall.run(now_ms)
            self._go_round()

        self._guarded(call, out)
        return out

    def close(self) -> None:
        """The task ends: close its processors and lookups."""
        with ExitStack() as closing:  # the error of one keeps no other one open
            for step in self._plan.steps.values():
                if isinstance(step.operator, LookupJoin):
                    closing.callback(step.operator.close)
            for time in reversed(self._times):
                closing.callback(time.close)

    def stateful(self, store: str) -> Stateful | None:
        """Return what keeps a store, or None."""
        return self._stateful.get(store)

    # ── time without rows ─────────────────────────────────────────────────────────────────────────────────────────

    def idle(self, silent_ms: int) -> list[Any]:
        """The input has been silent for `silent_ms` of wall clock; return the results that this closes."""
        if self._idle_after_ms is None or silent_ms <= self._idle_after_ms:
            return []
        beyond = silent_ms - self._idle_after_ms
        return self._at_each(lambda operator, out: operator.idle(beyond, out))

    def idle_due_ms(self) -> int | None:
        """The silence at which `idle` emits next; None if nothing is held or there is no `idle_after`."""
        due = [at for operator in self._operators if (at := operator.due_at()) is not None]
        return self._idle_after_ms + max(1, min(due)) if due and self._idle_after_ms is not None else None

    def end_of_input(self) -> list[Any]:
        """The input has ended by itself; return everything that is held. Rows that come after this are late."""
        return self._at_each(lambda operator, out: operator.end(out))

    def _at_each(self, call: Callable[[Operator, list[Any]], None]) -> list[Any]:
        """Call each operator, those before others first, and pass on what it emits."""
        out: list[Any] = []

        def at_each() -> None:
            for step in self._plan.steps.values():
                emitted: list[Any] = []
                call(step.operator, emitted)
                if emitted:
                    hand_on(step, emitted)
                self._go_round()

        self._guarded(at_each, out)
        return out

    def _guarded(self, work: Callable[[], None], out: list[Any]) -> None:
        self._check_alive()
        self._outbox.rows = out
        try:
            work()
        except Exception as error:
            self._dead = error
            raise
        finally:
            self._outbox.rows = []

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise TaskDead(
                f"this task ended with {type(self._dead).__name__}; restore a new one from the last commit"
            ) from self._dead

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

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
        """The names under which readers from outside find stores: those of the stores and of tables."""
        tables = [node.name for node, step in self._plan.steps.items() if step.operator.store is not None]
        return frozenset([*tables, *self._stateful])

    def entries(self, store: str, request: StoreRequest) -> Iterable[StoreEntry]:
        """Return what a store, or the table of that name, has for a reader. Raises UnknownStore."""
        for node in self._plan.steps:
            if node.shown_as is not None and store in (node.name, node.store):
                return self.operator(node.shown_as).entries(request)
        kept = self._stateful.get(store)
        if isinstance(kept, StateStore | Operator | StoredTable):
            return kept.entries(request)
        if kept is not None:
            raise UnknownStore(
                f"the store {store!r} holds what a step waits for, and no results; read the table that the step makes, by its name"
            )
        for node in self._plan.steps:
            if node.name == store:
                return self.operator(node).entries(request)
        return ()


def _topic_of(row: Any) -> str:
    context = getattr(row, "context", None)
    if context is None:
        raise InvalidRecord(f"{row!r} has no context, so its topic is unknown; rows of a topology carry their origin")
    return str(context.topic)
