"""Operators that keep a value from element to element, or make lists of elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from streamactors.clock import Duration
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, S, U
from streamactors.stages.checks import plain_function
from streamactors.stages.fold.aggregating import AggregateWithBoundary
from streamactors.stages.fold.fold import Fold, Reduce, Scan, StatefulMap
from streamactors.stages.fold.fold_while import FoldWhile
from streamactors.stages.fold.grouped_within import GroupedWithin
from streamactors.stages.fold.grouping import Grouped, Sliding
from streamactors.stages.fold.grouping_by import GroupedAdjacentBy, GroupedAdjacentByWeighted, GroupedWeighted
from streamactors.stages.fold.map_with_resource import MapWithResource
from streamactors.stages.fold.quantiles import Quantiles, checked_k, checked_ranks, sketch_class
from streamactors.stages.fold.stateful_map_concat import StatefulMapConcat
from streamactors.stages.fold.weighted_within import GroupedWeightedWithin
from streamactors.stages.transform.mapping import Filter, Map


class FoldOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def scan(self, zero: U, fn: Callable[[U, Out], U]) -> Ops[U, Mat]:
        return self._via(Scan(zero, fn))

    def fold(self, zero: U, fn: Callable[[U, Out], U]) -> Ops[U, Mat]:
        return self._via(Fold(zero, fn))

    def fold_while(self, zero: U, predicate: Callable[[U], Any], fn: Callable[[U, Out], U]) -> Ops[U, Mat]:
        return self._via(FoldWhile(zero, predicate, fn))

    def accumulate(self, fn: Callable[[Any, Out], Any] = operator.add) -> Ops[Any, Mat]:
        """Emit the first element, then for each element the value so far combined with it by `fn(value, element)`.

        As `itertools.accumulate`: a scan without a zero. The default adds.
        Emits when: `fn` has returned.                Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Marks: at once, exactly.
        """
        plain_function("accumulate", fn)

        def add(state: list[Any], element: Any) -> tuple[list[Any], Any]:
            value = fn(state[0], element) if state else element
            return [value], value

        return self._via_as("accumulate", StatefulMap(list, add))

    def reduce(self, fn: Callable[[Any, Out], Any]) -> Ops[Out, Mat]:
        return self._via(Reduce(fn))

    def stateful_map(
        self,
        create: Callable[[], S],
        fn: Callable[[S, Out], tuple[S, U]],
        on_complete: Callable[[S], U | None] | None = None,
    ) -> Ops[U, Mat]:
        return self._via(StatefulMap(create, fn, on_complete))

    def map_with_resource(
        self, open: Callable[[], S], fn: Callable[[S, Out], U], close: Callable[[S], U | None] | None = None
    ) -> Ops[U, Mat]:
        return self._via(MapWithResource(open, fn, close))

    def stateful_map_concat(self, create: Callable[[], Callable[[Out], Iterable[U]]]) -> Ops[U, Mat]:
        return self._via(StatefulMapConcat(create))

    def pairwise(self) -> Ops[tuple[Out, Out], Mat]:
        """Emit each element together with the one before it, as `itertools.pairwise`.

        Emits when: an element arrives, from the second on.   Backpressures when: downstream does.
        Completes when: upstream completes.                   Cancels when: downstream cancels.
        """
        return self._via_as("pairwise", Sliding(2), Filter(lambda pair: len(pair) == 2), Map(tuple))

    def grouped(self, n: int) -> Ops[list[Out], Mat]:
        return self._via(Grouped(n))

    def grouped_within(self, n: int, span: Duration) -> Ops[list[Out], Mat]:
        return self._via(GroupedWithin(n, span))

    def grouped_weighted_within(
        self, max_weight: float, span: Duration, cost: Callable[[Out], float], max_number: int | None = None
    ) -> Ops[list[Out], Mat]:
        return self._via(GroupedWeightedWithin(max_weight, span, cost, max_number))

    def aggregate_with_boundary(
        self,
        allocate: Callable[[], S],
        aggregate: Callable[[S, Out], tuple[S, bool]],
        harvest: Callable[[S], U],
        emit_on_timer: tuple[Callable[[S], Any], Duration] | None = None,
    ) -> Ops[U, Mat]:
        return self._via(AggregateWithBoundary(allocate, aggregate, harvest, emit_on_timer))

    def quantiles(
        self, ranks: Iterable[float], *, value: Callable[[Out], float] | None = None, k: int = 200
    ) -> Ops[dict[float, float], Mat]:
        """Emit, at the end, the numbers at some ranks: `quantiles([0.5, 0.99])` gives `{0.5: the median, 0.99: …}`; {} without elements.

        The number of an element is the element, or `value(element)`. Numbers are kept in a KLL sketch of a few kilobytes, whose rank error
        is about 1.7 % at `k=200`; a larger `k` is more exact, and up to some hundred elements the result is exact. In
        `group_by` each substream has its own. Needs the extra `streamactors[sketches]`.
        Emits when: upstream completes.               Backpressures when: never.
        Completes when: the result has been emitted.  Cancels when: downstream cancels.
        Fails when: `value` raises, or a number is NaN.   Supervision: resume drops the element.   Marks: behind the result.
        """
        sketch_class()
        wanted, size = checked_ranks("quantiles", ranks), checked_k("quantiles", k)
        number = None if value is None else plain_function("quantiles", value)

        def add(sketch: Quantiles | None, element: Any) -> Quantiles:
            found = element if number is None else number(element)
            return (Quantiles(wanted, size) if sketch is None else sketch).add(found)

        return self._via_as("quantiles", Fold(None, add), Map(lambda sketch: {} if sketch is None else sketch.values()))

    def sliding(self, n: int, step: int = 1) -> Ops[list[Out], Mat]:
        return self._via(Sliding(n, step))

    def grouped_weighted(self, min_weight: float, cost: Callable[[Out], float]) -> Ops[list[Out], Mat]:
        return self._via(GroupedWeighted(min_weight, cost))

    def grouped_adjacent_by(self, key: Callable[[Out], Any]) -> Ops[list[Out], Mat]:
        return self._via(GroupedAdjacentBy(key))

    def grouped_adjacent_by_weighted(
        self, key: Callable[[Out], Any], max_weight: float, cost: Callable[[Out], float]
    ) -> Ops[list[Out], Mat]:
        return self._via(GroupedAdjacentByWeighted(key, max_weight, cost))
