"""The fluent words: group_by_key, key_by, windowed_by, count, reduce, aggregate, suppress … to_stream.

Owner: nobody; every call returns a new value. `WindowOps` is the mix-in for anything that streams Records; it asks for
one method, `via_windows(blueprint)`, which continues the stream behind the finished blueprint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from streamactors.errors import BuildError
from streamactors.windows.aggregator import Aggregator, aggregating, counting, reducing
from streamactors.windows.blueprint import (
    AggregateStep,
    Blueprint,
    GroupByKeyStep,
    KeyByStep,
    Semantics,
    Step,
    SuppressStep,
    TableStep,
    ToStreamStep,
    ToTableStep,
    WindowingStep,
    intake,
    windowing,
)
from streamactors.windows.definitions import SessionWindows, UnlimitedWindows, Windows
from streamactors.windows.duration import Duration
from streamactors.windows.suppressed import Suppressed

A = TypeVar("A")
R_co = TypeVar("R_co", covariant=True)  # the stream of Record that a table without windows ends in
W_co = TypeVar("W_co", covariant=True)  # the stream of WindowedRecord that a windowed table ends in


class WindowOps(ABC, Generic[R_co, W_co]):
    """What a stream of Records can do with windows."""

    numbers_taken: int = 0
    """How many generated names the steps before have used."""

    @abstractmethod
    def via_windows(self, blueprint: Blueprint) -> Any:
        """This stream, continued behind `blueprint`: a stream of what its last step gives."""

    def group_by_key(self, *, changelog: bool = True, max_task_idle: Duration | None = 0) -> Grouped[R_co, W_co]:
        """Aggregate records by the key they have. Records whose key is None are dropped and counted.

        Behind a Kafka source: `changelog`: keep the state in changelog topics. `max_task_idle`: how long a task of several
        topics waits for rows that one of them does not have yet; None: not even for those it has."""
        return Grouped(self, self._begin("group_by_key", GroupByKeyStep(), changelog, max_task_idle))

    def key_by(self, fn: Callable[[Any], Any], *, changelog: bool = True) -> Grouped[R_co, W_co]:
        """Aggregate records by the key `fn(record)`; a key of None drops the record, counted. `changelog` as in group_by_key."""
        if not callable(fn):
            raise BuildError(f"key_by: {fn!r} is not callable; give a function of a record")
        return Grouped(self, self._begin("key_by", KeyByStep(fn), changelog, 0))

    def to_table(
        self, *, name: str | None = None, changelog: bool = True, max_task_idle: Duration | None = 0
    ) -> Table[R_co]:
        """The latest value of each key, without windows; None deletes. The rest as in group_by_key."""
        begun = self._begin("to_table", GroupByKeyStep(), changelog, max_task_idle)
        blueprint, node, store = begun.named(name, "to-table")
        return Table(self, blueprint.then(ToTableStep(node, store)))

    def _begin(self, where: str, step: Step, changelog: bool, max_task_idle: Duration | None) -> Blueprint:
        return Blueprint((step,), self.numbers_taken, intake=intake(where, changelog, max_task_idle))


def _must_be_callable(fn: object, where: str) -> None:
    if not callable(fn):
        raise BuildError(f"{where}: {fn!r} is not callable; give a function of a value")


@dataclass(frozen=True, slots=True)
class Grouped(Generic[R_co, W_co]):
    """Records with the key they are aggregated by."""

    _origin: WindowOps[Any, Any]
    _blueprint: Blueprint

    def group_by_key(self) -> Grouped[R_co, W_co]:
        """The same: it is grouped already."""
        return self

    def windowed_by(
        self,
        windows: Windows,
        semantics: Semantics = "strict",
        *,
        retention: Duration | None = None,
        idle_after: Duration | None = None,
        late: Any = None,
    ) -> Windowed[W_co]:
        """Aggregate per window.

        `semantics`: "kafka" does exactly what Kafka Streams does; "strict" the same, except that a final result is
        final and that nothing is lost when time jumps. `retention`: how long a window stays readable, at least what
        closing it takes. `idle_after`: once the input has been silent for so long, stream time goes on by wall clock,
        so the last windows close. `late`: where rows go that a closed window refused.

        Raises BuildError (a ValueError) if something does not fit."""
        step = windowing(windows, semantics, retention, late)
        return Windowed(self._origin, self._blueprint.with_idle_after(idle_after), step)

    def count(self, *, name: str | None = None) -> Table[R_co]:
        """Rows per key, without windows; rows whose value is None are dropped and counted."""
        return self._table(counting(), name)

    def reduce(self, fn: Callable[[Any, Any], Any], *, name: str | None = None) -> Table[R_co]:
        """`fn(old, new)` over the values of a key, without windows; the first value is the aggregate itself."""
        return self._table(reducing(fn), name)

    def aggregate(
        self,
        init: Callable[[], A],
        add: Callable[[A, Any], A | None],
        merge: Callable[[A, A], A] | None = None,
        *,
        name: str | None = None,
    ) -> Table[R_co]:
        """`add(aggregate, value)` onto `init()`, without windows; None deletes the aggregate. Nothing is ever merged."""
        return self._table(aggregating(init, add, merge), name)

    def _table(self, aggregator: Aggregator, name: str | None) -> Table[R_co]:
        blueprint, node, store = self._blueprint.named(name, aggregator.kind)
        return Table(self._origin, blueprint.then(AggregateStep(WindowingStep(), aggregator, node, store)))


@dataclass(frozen=True, slots=True)
class Windowed(Generic[W_co]):
    """Grouped records and the windows they are aggregated in."""

    _origin: WindowOps[Any, Any]
    _blueprint: Blueprint
    _windowing: WindowingStep

    def count(self, *, name: str | None = None) -> WindowedTable[W_co]:
        """Rows per key and window; None values count too (not in sliding windows)."""
        return self._table(counting(), name)

    def reduce(self, fn: Callable[[Any, Any], Any], *, name: str | None = None) -> WindowedTable[W_co]:
        """`fn(old, new)` over the values of a key in a window; the first value is the aggregate itself."""
        return self._table(reducing(fn), name)

    def aggregate(
        self,
        init: Callable[[], A],
        add: Callable[[A, Any], A | None],
        merge: Callable[[A, A], A] | None = None,
        *,
        name: str | None = None,
    ) -> WindowedTable[W_co]:
        """`add(aggregate, value)` onto `init()`; `merge(a, b)` joins the aggregates of two sessions.

        None as the result deletes the aggregate; the next row starts from `init()`."""
        if merge is None and isinstance(self._windowing.windows, SessionWindows):
            raise BuildError(
                "aggregate: session windows are merged when a row bridges them, so their aggregates must be too; "
                "give merge(a, b)"
            )
        return self._table(aggregating(init, add, merge), name)

    def _table(self, aggregator: Aggregator, name: str | None) -> WindowedTable[W_co]:
        blueprint, node, store = self._blueprint.named(name, aggregator.kind)
        return WindowedTable(self._origin, blueprint.then(AggregateStep(self._windowing, aggregator, node, store)))


S = TypeVar("S", covariant=True)
T = TypeVar("T", bound="Table[Any]")


@dataclass(frozen=True, slots=True)
class Table(Generic[S]):
    """A table as it changes: one update for each change of an entry."""

    _origin: WindowOps[Any, Any]
    _blueprint: Blueprint

    @property
    def blueprint(self) -> Blueprint:
        """What was asked for so far."""
        return self._blueprint

    def _then(self: T, blueprint: Blueprint) -> T:
        return replace(self, _blueprint=blueprint)

    def filter(self: T, predicate: Callable[[Any], Any], *, name: str | None = None) -> T:
        """Entries whose value does not match are deleted downstream (a tombstone, not silence)."""
        _must_be_callable(predicate, "filter")
        blueprint, node, _ = self._blueprint.named(name, "table-filter", stores=False)
        return self._then(blueprint.then(TableStep(predicate, True, node)))

    def map_values(self: T, fn: Callable[[Any], Any], *, name: str | None = None) -> T:
        """`fn(value)` for every value; keys, windows and timestamps stay."""
        _must_be_callable(fn, "map_values")
        blueprint, node, _ = self._blueprint.named(name, "table-map-values", stores=False)
        return self._then(blueprint.then(TableStep(fn, False, node)))

    def suppress(self: T, suppressed: Suppressed, *, idle_after: Duration | None = None) -> T:
        """Hold back updates until the window closes, or for a limit of stream time. `idle_after` as in windowed_by.

        Raises BuildError for until_window_closes on a table without windows."""
        if not isinstance(suppressed, Suppressed):
            raise BuildError(
                f"suppress: {suppressed!r} does not say when; give Suppressed.until_window_closes(…) or "
                "Suppressed.until_time_limit(…)"
            )
        if suppressed.final and self._blueprint.windowing.windows is None:
            raise BuildError(
                "suppress: until_window_closes needs a windowed table, and nothing upstream has windows; "
                "put windowed_by(…) in front of the aggregation, or use until_time_limit(…)"
            )
        blueprint, node, store = self._blueprint.with_idle_after(idle_after).named(suppressed.name, "suppress")
        return self._then(blueprint.then(SuppressStep(suppressed, node, store)))

    def to_stream(self) -> S:
        """Every update as an element; None is a tombstone."""
        result: S = self._origin.via_windows(self._blueprint.then(ToStreamStep()))
        return result


@dataclass(frozen=True, slots=True)
class WindowedTable(Table[S]):
    """A table whose entries are windows of keys."""

    def emit_on_window_close(self, *, idle_after: Duration | None = None) -> WindowedTable[S]:
        """Final results only, read from the aggregation's own store: no buffer, and no bound to set.

        Must stand right behind the aggregation. `idle_after` as in windowed_by."""
        last = self._blueprint.steps[-1]
        if not isinstance(last, AggregateStep) or last.emits_on_close:
            raise BuildError(
                "emit_on_window_close reads the aggregation's own store: put it right behind count, reduce or aggregate"
            )
        if isinstance(last.windowing.windows, UnlimitedWindows):
            raise BuildError(
                "emit_on_window_close: an unlimited window never closes; use time, session or sliding windows"
            )
        blueprint = self._blueprint.with_idle_after(idle_after)
        return replace(
            self, _blueprint=replace(blueprint, steps=(*blueprint.steps[:-1], replace(last, emits_on_close=True)))
        )
