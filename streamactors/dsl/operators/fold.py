"""Operators that keep a value from element to element, or make lists of elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, S, U
from streamactors.durations import Duration
from streamactors.stages.checks import plain_function

if TYPE_CHECKING:
    from streamactors.stages.fold.quantiles import Quantiles


class FoldOps(Ops[Out, Mat]):
    """Operators that gather several elements: folds, groups, sliding windows."""

    __slots__ = ()

    def scan(self, zero: U, fn: Callable[[U, Out], U]) -> Ops[U, Mat]:
        """Emit `zero`, then for each element the value so far combined with it by `fn(value, element)`.

        Each run starts with a copy of `zero`.
        Emits when: `fn` has returned.                Backpressures when: downstream does.
        Completes when: upstream completes, after `zero`.   Cancels when: downstream cancels.
        Supervision: resume drops the element; restart goes back to `zero` and emits it.

        Example:
            a -1-2-3|
            a.scan(0, lambda total, x: total + x)
        """
        from streamactors.stages.fold.fold import Scan

        return self._via(Scan(zero, fn))

    def fold(self, zero: U, fn: Callable[[U, Out], U]) -> Ops[U, Mat]:
        """Combine all elements by `fn(value, element)`, beginning with `zero`; emit the result when upstream completes.

        Each run starts with a copy of `zero`.
        Emits when: upstream completes.               Backpressures when: downstream does.
        Completes when: the result has been emitted.  Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also goes back to `zero`.
        Marks: after the result.

        Example:
            a -1-2-3|
            a.fold(0, lambda total, x: total + x)
        """
        from streamactors.stages.fold.fold import Fold

        return self._via(Fold(zero, fn))

    def fold_while(self, zero: U, predicate: Callable[[U], Any], fn: Callable[[U, Out], U]) -> Ops[U, Mat]:
        """Combine elements by `fn(value, element)`, beginning with `zero`, while `predicate(value)` is true; emit the result.

        Each run starts with a copy of `zero`. The value for which the predicate is false is the result.
        Emits when: the predicate is false, or upstream completes.   Backpressures when: downstream does.
        Completes when: the result has been emitted.                 Cancels when: the predicate is false, or downstream cancels.
        Supervision: resume drops the element, restart also goes back to `zero`.
        Marks: after the result.

        Example:
            a -1-2-3|
            a.fold_while(0, lambda total: total < 3, lambda total, x: total + x)
        """
        from streamactors.stages.fold.fold_while import FoldWhile

        return self._via(FoldWhile(zero, predicate, fn))

    def accumulate(self, fn: Callable[[Any, Out], Any] = operator.add) -> Ops[Any, Mat]:
        """Emit the first element, then for each element the value so far combined with it by `fn(value, element)`.

        As `itertools.accumulate`: a scan without a zero. The default adds.
        Emits when: `fn` has returned.                Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Marks: at once, exactly.

        Example:
            a -1-2-3|
            a.accumulate()
        """
        from streamactors.stages.fold.fold import StatefulMap

        plain_function("accumulate", fn)

        def add(state: list[Any], element: Any) -> tuple[list[Any], Any]:
            value = fn(state[0], element) if state else element
            return [value], value

        return self._via_as("accumulate", StatefulMap(list, add))

    def reduce(self, fn: Callable[[Any, Out], Any]) -> Ops[Out, Mat]:
        """Combine all elements by `fn(value, element)`, beginning with the first; emit the result when upstream completes.

        Emits when: upstream completes.               Backpressures when: downstream does.
        Completes when: the result has been emitted.  Cancels when: downstream cancels.
        Fails when: there was no element, with NoSuchElement.
        Supervision: resume drops the element, restart also what was combined so far.
        Marks: after the result.

        Example:
            a -1-3-2|
            a.reduce(max)
        """
        from streamactors.stages.fold.fold import Reduce

        return self._via(Reduce(fn))

    def stateful_map(
        self,
        create: Callable[[], S],
        fn: Callable[[S, Out], tuple[S, U]],
        on_complete: Callable[[S], U | None] | None = None,
    ) -> Ops[U, Mat]:
        """Turn each element into a result with the help of a state: `fn(state, element)` returns (next state, result).

        `create()` makes the state of a run. `on_complete(state)` is called exactly once for each state made, however the stream
        ends; what it returns is emitted last, unless it is None or downstream has cancelled.
        Emits when: `fn` has returned, and once at the end if `on_complete` returns a result.
        Backpressures when: downstream does.          Completes when: upstream completes and the last result has been emitted.
        Cancels when: downstream cancels.
        Supervision: resume drops the element; restart also closes the state, emits the result of that, and makes a new state.
        Fails when: upstream or a function fails, after the result of `on_complete`.

        Example:
            a -1-2-3|
            a.stateful_map(lambda: 0, lambda n, x: (n + 1, x * n))
        """
        from streamactors.stages.fold.fold import StatefulMap

        return self._via(StatefulMap(create, fn, on_complete))

    def map_with_resource(
        self, open: Callable[[], S], fn: Callable[[S, Out], U], close: Callable[[S], U | None] | None = None
    ) -> Ops[U, Mat]:
        """Turn each element into `fn(resource, element)`; `open()` makes the resource of a run, `close(resource)` ends it.

        `close` is called exactly once for each resource, however the stream ends; what it returns is emitted last, unless it is None.
        Emits when: `fn` has returned, and once at the end if `close` gives something.
        Backpressures when: downstream does.          Completes when: upstream completes and the last result has been emitted.
        Cancels when: downstream cancels.
        Supervision: resume drops the element; restart also closes the resource, drops what `close` returns, and opens a new one.
        Fails when: upstream or a function fails, after what `close` gives.

        Example:
            a -5-7|
            a.map_with_resource(list, lambda kept, x: kept.append(x) or len(kept), lambda kept: kept)
        """
        from streamactors.stages.fold.map_with_resource import MapWithResource

        return self._via(MapWithResource(open, fn, close))

    def stateful_map_concat(self, create: Callable[[], Callable[[Out], Iterable[U]]]) -> Ops[U, Mat]:
        """Turn each element into the results of an iterable; `create()` makes the function of a run, which may keep a state.

        Iterators are read on demand, and one result ahead, so they may be endless.
        Emits when: the current iterable has a result.   Backpressures when: downstream does, or the current iterable has more.
        Completes when: upstream completes and the last iterable has ended.   Cancels when: downstream cancels.
        Supervision: resume drops the element and the rest of its iterable; restart also makes a new function.
        Marks: when the current iterable has ended.

        Example:
            a -1--2|
            a.stateful_map_concat(lambda: lambda x: [x, -x])
        """
        from streamactors.stages.fold.stateful_map_concat import StatefulMapConcat

        return self._via(StatefulMapConcat(create))

    def pairwise(self) -> Ops[tuple[Out, Out], Mat]:
        """Emit each element together with the one before it, as `itertools.pairwise`.

        Emits when: an element arrives, from the second on.   Backpressures when: downstream does.
        Completes when: upstream completes.                   Cancels when: downstream cancels.

        Example:
            a -1--2--3|
            a.pairwise()
        """
        from streamactors.stages.fold.grouping import Sliding
        from streamactors.stages.transform.mapping import Filter, Map

        return self._via_as("pairwise", Sliding(2), Filter(lambda pair: len(pair) == 2), Map(tuple))

    def grouped(self, n: int) -> Ops[list[Out], Mat]:
        """Collect elements into lists of `n`; the last one may be shorter.

        Emits when: `n` elements have come, or upstream completes with some left.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Marks: after the list that has the elements before them.

        Example:
            a -1--2--3|
            a.grouped(2)
        """
        from streamactors.stages.fold.grouping import Grouped

        return self._via(Grouped(n))

    def grouped_within(self, n: int, span: Duration) -> Ops[list[Out], Mat]:
        """Collect elements into lists: of `n`, or of the elements that came within `span`, whichever is first; never an empty list.

        A number as `span` is ms. Spans are counted from the last full list, or from the start.
        Emits when: `n` elements have come, or a span is over and an element has come.   Backpressures when: downstream does and a list is full.
        Completes when: upstream completes, after the last list.   Cancels when: downstream cancels.
        Marks: after the list that has the elements before them.

        Example:
            a -1-2---3--4|
            a.grouped_within(9, '40ms')
        """
        from streamactors.stages.fold.grouped_within import GroupedWithin

        return self._via(GroupedWithin(n, span))

    def grouped_weighted_within(
        self, max_weight: float, span: Duration, cost: Callable[[Out], float], max_number: int | None = None
    ) -> Ops[list[Out], Mat]:
        """Collect elements into lists that weigh at most `max_weight`, have at most `max_number` elements, and whose elements came within
        `span` (seconds, a timedelta or a string) of the first; a heavier element is a list of its own. Never an empty list.

        Emits when: a list has its weight or number, the next element would make it too heavy, or its time is over.
        Backpressures when: downstream does and a list is full.
        Completes when: upstream completes, after the last list.   Cancels when: downstream cancels.
        Supervision: resume drops an element for which `cost` raised, restart also the elements collected so far.
        Marks: after the list that has the elements before them.

        Example:
            a -1--2-----1|
            a.grouped_weighted_within(3, '30ms', lambda x: x)
        """
        from streamactors.stages.fold.weighted_within import GroupedWeightedWithin

        return self._via(GroupedWeightedWithin(max_weight, span, cost, max_number))

    def aggregate_with_boundary(
        self,
        allocate: Callable[[], S],
        aggregate: Callable[[S, Out], tuple[S, bool]],
        harvest: Callable[[S], U],
        emit_on_timer: tuple[Callable[[S], Any], Duration] | None = None,
    ) -> Ops[U, Mat]:
        """Combine elements until `aggregate` says that the result is complete.

        `allocate()` makes a new aggregate; `aggregate(it, element)` returns (the new one, whether it is complete); `harvest(it)` returns the
        result. With `emit_on_timer=(predicate, interval)` an aggregate for which `predicate(it)` is true is emitted at each interval (seconds,
        a timedelta or a string), too.
        Emits when: an aggregate is complete, or the timer's predicate is true.   Backpressures when: downstream does.
        Completes when: upstream completes, after the last aggregate.   Cancels when: downstream cancels.
        Supervision: resume drops an element for which a function raised, restart also the aggregate.
        Marks: after the result that has the elements before them.

        Example:
            a -1-2-0-3|
            a.aggregate_with_boundary(list, lambda xs, x: ([*xs, x], x == 0), sum)
        """
        from streamactors.stages.fold.aggregating import AggregateWithBoundary

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
        Fails when: `value` raises, or a number is NaN.   Supervision: resume drops the element.   Marks: after the result.

        Example:
            a -1-2-9|
            a.quantiles([0.5])
        """
        from streamactors.stages.fold.fold import Fold
        from streamactors.stages.fold.quantiles import Quantiles, checked_k, checked_ranks, sketch_class
        from streamactors.stages.transform.mapping import Map

        sketch_class()
        wanted, size = checked_ranks("quantiles", ranks), checked_k("quantiles", k)
        number = None if value is None else plain_function("quantiles", value)

        def add(sketch: Quantiles | None, element: Any) -> Quantiles:
            found = element if number is None else number(element)
            return (Quantiles(wanted, size) if sketch is None else sketch).add(found)

        return self._via_as("quantiles", Fold(None, add), Map(lambda sketch: {} if sketch is None else sketch.values()))

    def sliding(self, n: int, step: int = 1) -> Ops[list[Out], Mat]:
        """Emit lists of `n` elements, each beginning `step` elements after the one before.

        At the end a shorter list is emitted if it has elements that no other list has. With a step above `n`, elements between
        the lists are dropped.
        Emits when: `n` elements have come, or upstream completes with new ones left.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Marks: after the last list that has elements from before them.

        Example:
            a -1--2--3|
            a.sliding(2)
        """
        from streamactors.stages.fold.grouping import Sliding

        return self._via(Sliding(n, step))

    def grouped_weighted(self, min_weight: float, cost: Callable[[Out], float]) -> Ops[list[Out], Mat]:
        """Collect elements into lists that weigh at least `min_weight`; the last one may be lighter.

        Emits when: the weight of the collected elements reaches `min_weight`, or upstream completes with some left.
        Backpressures when: downstream does.          Completes when: upstream completes.
        Cancels when: downstream cancels.
        Supervision: resume drops an element for which `cost` raised, restart also the elements collected so far.
        Marks: after the list that has the elements before them.

        Example:
            a -1--2--3|
            a.grouped_weighted(3, lambda x: x)
        """
        from streamactors.stages.fold.grouping_by import GroupedWeighted

        return self._via(GroupedWeighted(min_weight, cost))

    def grouped_adjacent_by(self, key: Callable[[Out], Any]) -> Ops[list[Out], Mat]:
        """Collect elements next to each other that have the same key into lists.

        Emits when: an element with another key comes, or upstream completes.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume drops an element for which `key` raised, restart also the elements collected so far.
        Marks: after the list that has the elements before them.

        Example:
            a -1--3--2|
            a.grouped_adjacent_by(lambda x: x % 2)
        """
        from streamactors.stages.fold.grouping_by import GroupedAdjacentBy

        return self._via(GroupedAdjacentBy(key))

    def grouped_adjacent_by_weighted(
        self, key: Callable[[Out], Any], max_weight: float, cost: Callable[[Out], float]
    ) -> Ops[list[Out], Mat]:
        """As `grouped_adjacent_by`, with lists that weigh at most `max_weight`; a heavier element is a list of its own.

        Emits when: an element has another key or would make the list too heavy, or upstream completes.
        Backpressures when: downstream does.          Completes when: upstream completes.
        Cancels when: downstream cancels.
        Supervision: resume drops an element for which a function raised, restart also the elements collected so far.
        Marks: after the list that has the elements before them.

        Example:
            a -1--3--5|
            a.grouped_adjacent_by_weighted(lambda x: x % 2, 5, lambda x: x)
        """
        from streamactors.stages.fold.grouping_by import GroupedAdjacentByWeighted

        return self._via(GroupedAdjacentByWeighted(key, max_weight, cost))
