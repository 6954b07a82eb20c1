"""The nodes of tables: sources, views, suppression, and the way back to a stream.

A table sends old values only if a step after it needs them (`enable_old`), and a source has a store only if a step reads it
(`materialize`). Both are decided while the topology is built, in the order of its steps, as in Kafka Streams: it decides
which deletions a filter forwards."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from streamactors.durations import EventSpan, event_ms
from streamactors.errors import BuildError
from streamactors.windows.definitions.suppressed import Suppressed
from streamactors.windows.definitions.windowing import Windowing
from streamactors.windows.definitions.windows import SessionWindows, TimeWindows, UnlimitedWindows
from streamactors.windows.metrics import SuppressMetrics
from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.operators.suppress_buffer import SuppressBuffer
from streamactors.windows.operators.table_steps import ToStream
from streamactors.windows.state.stores import Stores
from streamactors.windows.tables.expiring import ExpiringTable
from streamactors.windows.tables.source import TableSource, UnstoredTableSource
from streamactors.windows.tables.stored import StoredTable
from streamactors.windows.tables.versioned import VersionedTable
from streamactors.windows.tables.views import ON_CHANGE, VERSIONED_VIEWS, VIEWS, StoredView
from streamactors.windows.topology.model import Build, Topology, TopologyNode

NO_WINDOWS = Windowing()


class TableNode(TopologyNode):
    """A node whose rows are updates of a table. `windowing`: the windows of its keys; `closing`: those of all tables above,
    as far as each way up leads to windows (None: one does not). `versioned`: its updates tell which version is the newest."""

    windowing: Windowing = NO_WINDOWS
    versioned: bool = False
    history_ms: int | None = None
    _sends_old: bool = False

    @property
    def closing(self) -> list[Windowing] | None:
        """The windows above, for until_window_closes; None if a way up has none."""
        if self.windowing.windows is not None and not self._derives:
            return [self.windowing]
        found: list[Windowing] = []
        for table in self.derives_from():
            above = table.closing
            if above is None:
                return None
            found += above
        return found or None

    _derives = True

    def derives_from(self) -> list[TableNode]:
        """The tables that this one is made of."""
        return []

    def enable_old(self, force: bool) -> bool:
        """Have updates carry old values. Without `force` only where this needs no new store. Return whether they do."""
        if not self._sends_old:
            self._sends_old = self._enable_old(force)
        return self._sends_old

    @abstractmethod
    def _enable_old(self, force: bool) -> bool: ...

    def materialize(self) -> None:
        """A step reads this table."""
        for table in self.derives_from():
            table.materialize()

    def first_old_is_none(self) -> None:
        """A step compares old values with new ones: the first update of a key must carry None, and not an initial value that may equal the new one."""
        for table in self.derives_from():
            table.first_old_is_none()

    def carries(self, suppressed: Suppressed) -> bool:
        """Whether the operator of this table can do the work of a suppression that comes right after it."""
        return False


class TableSourceNode(TableNode):
    """A topic or a stream as a table. `named`: it has a store even if no step reads one."""

    def __init__(
        self,
        name: str,
        store: str,
        named: bool,
        history_ms: int | None = None,
        ttl_ms: int | None = None,
        *,
        unread: bool = False,
    ) -> None:
        """`unread`: it has a store that no step reads, so its updates carry old values only if a step needs them."""
        super().__init__(name)
        self._store = store
        self._unread = unread
        self._materialized = named or history_ms is not None or ttl_ms is not None
        self._ttl_ms = ttl_ms
        self.keeps_time = ttl_ms is not None
        self.history_ms = history_ms
        self.topic: str | None = None  # of a global table
        self.versioned = history_ms is not None
        self._carries_old = False

    @property
    def store(self) -> str | None:  # type: ignore[override]
        return self._store if self._materialized or self._unread else None

    @property
    def closing(self) -> list[Windowing] | None:
        return None

    def materialize(self) -> None:
        self._materialized = True

    def _enable_old(self, force: bool) -> bool:
        if not force and not self._materialized:
            return False
        self._materialized = self._carries_old = True
        return True

    def operator(self, build: Build) -> Operator:
        filled = build.globals.get(self.topic) if self.topic is not None else None
        if filled is not None:
            return filled
        if self.history_ms is not None:
            kafka = build.topology.semantics == "kafka"
            return VersionedTable(
                self.name,
                self._store,
                build.env,
                build.stores,
                self.history_ms,
                sends_old=self._carries_old,
                kafka=kafka,
            )
        if self._ttl_ms is not None:
            return ExpiringTable(
                self.name,
                self._store,
                build.env,
                build.stores,
                self._ttl_ms,
                build.time_of(self),
                sends_old=self._carries_old,
            )
        if self.store is None:
            return UnstoredTableSource(self.name, build.env, build.stores)
        return TableSource(self.name, self._store, build.env, build.stores, sends_old=self._carries_old)


def table_source(
    topology: Topology, kind: str, name: str | None, history: EventSpan | None, ttl: EventSpan | None = None
) -> TableSourceNode:
    """Return the node of a table of records. `history`: it keeps older versions for this time. `ttl`: its entries expire after this time."""
    history_ms = None if history is None else event_ms(history, f"{kind}: history", minimum=1)
    ttl_ms = None if ttl is None else event_ms(ttl, f"{kind}: ttl", minimum=1)
    if history_ms is not None and ttl_ms is not None:
        raise BuildError(f"{kind}: a table with history= never removes the newest version; leave ttl= or history= out")
    node_name, store = topology.stored(name, kind)
    read = topology.reads_tables
    return TableSourceNode(node_name, store, name is not None and read, history_ms, ttl_ms, unread=not read)


class ViewNode(TableNode):
    """filter, filter_not, map_values or emit_on_change (`kind`). `store`: the name of its own store, None without."""

    def __init__(self, name: str, kind: str, fn: Callable[[Any], Any], parent: TableNode, store: str | None) -> None:
        super().__init__(name)
        self.kind = kind
        self.fn = fn
        self.parent = parent
        self.store = store
        self.windowing = parent.windowing
        self.versioned = parent.versioned and store is None
        self.history_ms = parent.history_ms if self.versioned else None
        self._carries_old = False
        if kind == ON_CHANGE:
            self._carries_old = parent.enable_old(True)
            parent.first_old_is_none()
        elif kind != "map-values":
            self._carries_old = parent.enable_old(False)

    def derives_from(self) -> list[TableNode]:
        return [self.parent]

    def materialize(self) -> None:
        if self.store is None:
            self.parent.materialize()

    def _enable_old(self, force: bool) -> bool:
        if self.store is not None:
            self._carries_old = True
            return True
        if self.parent.enable_old(force):
            self._carries_old = True
        return self._carries_old

    def operator(self, build: Build) -> Operator:
        parent = build.of(self.parent)
        make = (VERSIONED_VIEWS if self.parent.versioned else VIEWS)[self.kind]
        if self.store is None:
            return make(self.name, build.env, self.fn, self._carries_old, parent)
        stored = StoredTable(self.store, self.name, build.env, build.stores)
        build.keep(stored)
        view = make(self.name, build.env, self.fn, False, parent)
        skips = self.kind != "map-values" and not self.parent.versioned
        return StoredView(view, stored, build.env, sends_old=self._carries_old, skips_empty=skips)


class SuppressNode(TableNode):
    """Holds back updates. `above`: the windows that until_window_closes waits for."""

    def __init__(
        self, name: str, store: str, suppressed: Suppressed, parent: TableNode, above: list[Windowing]
    ) -> None:
        super().__init__(name)
        self.store = store
        self.suppressed = suppressed
        self.parent = parent
        self.above = above
        self.windowing = parent.windowing
        parent.enable_old(True)

    def derives_from(self) -> list[TableNode]:
        return [self.parent]

    def _enable_old(self, force: bool) -> bool:
        return self.parent.enable_old(force)

    def carrier(self, build: Build) -> TopologyNode:
        carried = not (build.topology.reads_tables or build.detailed) and self.parent.carries(self.suppressed)
        return self.parent if carried else self

    def metrics(self, build: Build) -> SuppressMetrics:
        """Return new metrics of the task."""
        report = SuppressMetrics(self.name, str(self.store), build.detailed)
        build.env.metrics.suppressed.append(report)
        return report

    def operator(self, build: Build) -> Operator:
        operator = suppress_buffer(
            self.name,
            str(self.store),
            build.env,
            self.suppressed,
            self.above or [self.windowing],
            build.of(self.parent),
            self.metrics(build),
            build.stores,
        )
        topology = build.topology
        operator.leaves_when_forwarded = topology.semantics == "kafka"
        operator.sends_released = topology.semantics == "strict" and topology.reads_tables
        build.buffers.append(operator)
        return operator


class ToStreamNode(TopologyNode):
    """The updates of a table as rows of a stream."""

    def __init__(self, name: str, parent: TableNode) -> None:
        super().__init__(name)
        self.parent = parent

    def operator(self, build: Build) -> Operator:
        return ToStream(build.env, self.parent.windowing.windows is not None, build.of(self.parent))


def suppress_buffer(
    node: str,
    store: str,
    env: TaskEnvironment,
    suppressed: Suppressed,
    above: Sequence[Windowing],
    parent: Operator,
    report: SuppressMetrics,
    stores: Stores,
) -> SuppressBuffer:
    """Return the operator of a suppression. `above`: the windows of the tables above it, those of its own keys first."""
    wait, bucket = suppressed.limit_ms, 0
    windows = above[0].windows
    if suppressed.final:
        wait = max(_wait_ms(windowing) for windowing in above)
        if isinstance(windows, TimeWindows | UnlimitedWindows):
            bucket = windows.advance_ms if isinstance(windows, TimeWindows) else 1
    session = isinstance(windows, SessionWindows)
    return SuppressBuffer(node, store, env, suppressed, wait, session, parent, report, stores, bucket)


def _wait_ms(windowing: Windowing) -> int:
    windows = windowing.windows
    assert windows is not None
    # an inclusive window is still open while its end equals the limit, so it is not final yet
    return windows.wait_ms + (windows.inclusive_end and windowing.semantics == "strict")
