"""The fluent API of windows: group_by_key, key_by, windowed_by, count, reduce, aggregate, suppress … to_stream.

Every call returns a new immutable value. `WindowOps` is the mix-in of all streams of Records. A subclass writes one
method, `via_windows(blueprint)`, which continues the stream behind the finished blueprint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from streamactors.engine.ways_out import WaysOut
from streamactors.errors import BuildError
from streamactors.stages.checks import no_coroutine_function
from streamactors.windows.definitions.aggregator import Aggregator, aggregating, counting, reducing
from streamactors.windows.definitions.blueprint import (
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
from streamactors.windows.definitions.duration import Duration
from streamactors.windows.definitions.suppressed import Suppressed
from streamactors.windows.definitions.windows import SessionWindows, UnlimitedWindows, Windows

A = TypeVar("A")
T_co = TypeVar("T_co", covariant=True)  # the table that an aggregation starts
R_co = TypeVar("R_co", covariant=True)  # the stream of Record that a table without windows ends in
W_co = TypeVar("W_co", covariant=True)  # the stream of WindowedRecord that a windowed table ends in


class WindowOps(ABC, Generic[R_co, W_co]):
    """The windowed operators of a stream of Records."""

    numbers_taken: int = 0
    """Number of generated names that earlier steps use."""

    @abstractmethod
    def via_windows(self, blueprint: Blueprint) -> Any:
        """Return the stream of the results of `blueprint`, fed by this stream."""

    def group_by_key(self, *, changelog: bool = True, max_task_idle: Duration | None = 0) -> Grouped[R_co, W_co]:
        """Aggregate records by the key they have. Records whose key is None are dropped and counted.

        `changelog` (behind a Kafka source): keep the state in changelog topics. `max_task_idle`: how long (ms, a timedelta
        or a text) a task of several topics waits for a topic without rows, after the broker has reported its end; None: no wait at all."""
        return Grouped(self, self._begin("group_by_key", GroupByKeyStep(), changelog, max_task_idle))

    def key_by(self, fn: Callable[[Any], Any], *, changelog: bool = True) -> Grouped[R_co, W_co]:
        """Aggregate records by the key `fn(record)`; a key of None drops the record, counted. `changelog` as in group_by_key."""
        if not callable(fn):
            raise BuildError(f"key_by: {fn!r} is not callable; give a function of a record")
        no_coroutine_function("key_by", fn)
        return Grouped(self, self._begin("key_by", KeyByStep(fn), changelog, 0))

    def to_table(
        self, *, name: str | None = None, changelog: bool = True, max_task_idle: Duration | None = 0
    ) -> Table[R_co]:
        """The latest value of each key, without windows; None deletes. The other parameters, `max_task_idle` in ms too, are as in
        group_by_key."""
        begun = self._begin("to_table", GroupByKeyStep(), changelog, max_task_idle)
        blueprint, node, store = begun.named(name, "to-table")
        return Table(self, blueprint.then(ToTableStep(node, store)))

    def _begin(self, where: str, step: Step, changelog: bool, max_task_idle: Duration | None) -> Blueprint:
        return Blueprint((step,), self.numbers_taken, intake=intake(where, changelog, max_task_idle))


def _must_be_callable(fn: object, where: str) -> None:
    if not callable(fn):
        raise BuildError(f"{where}: {fn!r} is not callable; give a function of a value")
    no_coroutine_function(where, fn)


class _Aggregations(ABC, WaysOut, Generic[T_co]):
    """The aggregations of grouped records; each starts a table."""

    __slots__ = ()

    def count(self, *, name: str | None = None) -> T_co:
        """Count rows per key (and window).

        Rows whose value is None count in time windows and sessions. Without windows and in sliding windows they are
        dropped and counted as dropped."""
        return self._table(counting(), name)

    def reduce(self, fn: Callable[[Any, Any], Any], *, name: str | None = None) -> T_co:
        """`fn(old, new)` over the values of a key (in a window); the first value is the first aggregate."""
        return self._table(reducing(fn), name)

    def aggregate(
        self,
        init: Callable[[], A],
        add: Callable[[A, Any], A | None],
        merge: Callable[[A, A], A] | None = None,
        *,
        name: str | None = None,
    ) -> T_co:
        """`add(aggregate, value)` onto `init()`; `merge(a, b)` joins the aggregates of two sessions.

        The result None deletes the aggregate; the next row starts from `init()`."""
        return self._table(aggregating(init, add, merge), name)

    @abstractmethod
    def _table(self, aggregator: Aggregator, name: str | None) -> T_co:
        """The table of this aggregation."""


_RUNS: Final = ("run_with", "run", "run_iter", "run_async_iter", "via", "to", "map")
_AGGREGATE_FIRST: Final = dict.fromkeys(
    _RUNS,
    "groups are no stream; aggregate them: .count(), .reduce(fn) or .aggregate(init, add), then .to_stream() gives a Source",
)


@dataclass(frozen=True, slots=True)
class Grouped(_Aggregations["Table[R_co]"], Generic[R_co, W_co]):
    """Records, grouped by key."""

    _ways_out = _AGGREGATE_FIRST
    _origin: WindowOps[Any, Any]
    _blueprint: Blueprint

    def group_by_key(self) -> Grouped[R_co, W_co]:
        """Return itself: the records are grouped already."""
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

        `semantics`: "kafka" gives Kafka Streams' results row for row; "strict" never emits two final results for a
        window and loses none when time jumps. `retention`: how long a window stays readable; at least the time that
        closes it. `idle_after`: once the input has been silent for so long, stream time advances with the wall clock,
        so the last windows close. `late`: the sink of the rows that closed windows refuse. Times are ms, timedeltas or texts such as "5m".

        Raises BuildError (a ValueError) if something does not fit."""
        step = windowing(windows, semantics, retention, late)
        return Windowed(self._origin, self._blueprint.with_idle_after(idle_after), step)

    def _table(self, aggregator: Aggregator, name: str | None) -> Table[R_co]:
        blueprint, node, store = self._blueprint.named(name, aggregator.kind)
        return Table(self._origin, blueprint.then(AggregateStep(WindowingStep(), aggregator, node, store)))


@dataclass(frozen=True, slots=True)
class Windowed(_Aggregations["WindowedTable[W_co]"], Generic[W_co]):
    """Grouped records with their windows."""

    _ways_out = _AGGREGATE_FIRST
    _origin: WindowOps[Any, Any]
    _blueprint: Blueprint
    _windowing: WindowingStep

    def _table(self, aggregator: Aggregator, name: str | None) -> WindowedTable[W_co]:
        if aggregator.merge is None and isinstance(self._windowing.windows, SessionWindows):
            raise BuildError(
                "aggregate: a row that bridges two sessions merges them, so their aggregates must be merged, too; "
                "give merge(a, b)"
            )
        blueprint, node, store = self._blueprint.named(name, aggregator.kind)
        return WindowedTable(self._origin, blueprint.then(AggregateStep(self._windowing, aggregator, node, store)))


S = TypeVar("S", covariant=True)
T = TypeVar("T", bound="Table[Any]")


@dataclass(frozen=True, slots=True)
class Table(WaysOut, Generic[S]):
    """A table as a stream of updates: one for each change of an entry."""

    _ways_out = dict.fromkeys(
        _RUNS, "a table is no stream; .to_stream() gives its updates, which run: table.to_stream().run_with(sink)"
    )

    _origin: WindowOps[Any, Any]
    _blueprint: Blueprint

    @property
    def blueprint(self) -> Blueprint:
        """The steps so far."""
        return self._blueprint

    def _then(self: T, blueprint: Blueprint) -> T:
        return replace(self, _blueprint=blueprint)

    def filter(self: T, predicate: Callable[[Any], Any], *, name: str | None = None) -> T:
        """Keep the entries that match. An entry that does not match is deleted downstream by a tombstone."""
        _must_be_callable(predicate, "filter")
        blueprint, node, _ = self._blueprint.named(name, "table-filter", stores=False)
        return self._then(blueprint.then(TableStep(predicate, True, node)))

    def map_values(self: T, fn: Callable[[Any], Any], *, name: str | None = None) -> T:
        """Map every value; keys, windows and timestamps stay."""
        _must_be_callable(fn, "map_values")
        blueprint, node, _ = self._blueprint.named(name, "table-map-values", stores=False)
        return self._then(blueprint.then(TableStep(fn, False, node)))

    def suppress(self: T, suppressed: Suppressed, *, idle_after: Duration | None = None) -> T:
        """Hold back updates until the window closes, or for a limit of stream time. `idle_after` (ms, a timedelta or a text) as in windowed_by.

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
        """Emit every update as an element; the value None is a tombstone."""
        result: S = self._origin.via_windows(self._blueprint.then(ToStreamStep()))
        return result


@dataclass(frozen=True, slots=True)
class WindowedTable(Table[S]):
    """A table whose entries are windows of keys."""

    def emit_on_window_close(self, *, idle_after: Duration | None = None) -> WindowedTable[S]:
        """Emit final results only, from the store of the aggregation, without a buffer.

        Must stand directly behind the aggregation. `idle_after` (ms, a timedelta or a text) as in windowed_by."""
        last = self._blueprint.steps[-1]
        if not isinstance(last, AggregateStep) or last.emits_on_close:
            raise BuildError(
                "emit_on_window_close reads the aggregation's own store: put it directly behind count, reduce or aggregate"
            )
        if isinstance(last.windowing.windows, UnlimitedWindows):
            raise BuildError(
                "emit_on_window_close: an unlimited window never closes; use time, session or sliding windows"
            )
        blueprint = self._blueprint.with_idle_after(idle_after)
        return replace(
            self, _blueprint=replace(blueprint, steps=(*blueprint.steps[:-1], replace(last, emits_on_close=True)))
        )
