"""A task of a topology: the partitions of one number of all its topics.

Owner: the caller that feeds the task; one thread at a time. It is a WindowTask to the stage that runs it: rows in, Outputs out, changelog entries, silence and the end of the input. The caller decides the order of rows of several
topics. An error ends a task; later calls raise TaskDead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from streamactors.windows.errors import InvalidRecord
from streamactors.windows.joins.lookup import LookupJoin
from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.operators.window_task import WindowTask
from streamactors.windows.processors.state_store import StateStore
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.reads import StoreEntry, StoreRequest, UnknownStore
from streamactors.windows.state.store_log import Stateful, TaskIdentity
from streamactors.windows.tables.stored import StoredTable
from streamactors.windows.topology.edges import Outbox
from streamactors.windows.topology.model import Build, Node
from streamactors.windows.topology.plan import Plan, hand_on, run


class TopologyTask(WindowTask):
    """Made by a TopologyFactory."""

    def __init__(
        self,
        build: Build,
        env: TaskEnvironment,
        outbox: Outbox,
        identity: TaskIdentity,
        idle_after_ms: int | None,
        disk: DiskStores | None = None,
    ) -> None:
        """`disk`: the stores, if they are on disk."""
        self._plan = Plan(build)
        operators = [step.operator for step in self._plan.steps.values()]
        super().__init__(operators, env, identity, idle_after_ms, build.buffers, disk, build.stateful)
        self._times = build.times
        self._outbox = outbox
        self._started = False

    def operator(self, node: Node) -> Operator:
        """Return the operator of a node, for reading."""
        return self._plan.steps[node].operator

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def process_into(self, rows: Sequence[Any], out: list[Any]) -> None:
        """As process_chunk, but append the Outputs to `out`. When it raises, the Outputs of the rows before are in `out`."""
        for step in self._plan.steps.values():
            step.operator.new_input()
        if not self._started:
            out += self.start()
        self._guarded(lambda: self._process(rows), out)
        if self.disk is not None:
            self.disk.rest()

    def _process(self, rows: Sequence[Any]) -> None:
        for topic, lookup in self._plan.first_lookups:
            lookup.ask_ahead([row for row in rows if _topic_of(row) == topic])
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
        if way.alone or len(rows) == 1:
            for row in rows:
                way.enter(row)
                self._go_round()
        else:
            run(way.step, list(rows))
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
        """The wall clock stands at `now_ms`: call the scheduled functions that are due; return the Outputs."""
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
        raise InvalidRecord(f"{row!r} has no context, so no topic can be told; rows of a topology carry their origin")
    return str(context.topic)
