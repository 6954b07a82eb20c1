"""Operators that turn elements into others one by one, or by chunks, and predicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.errors import BuildError
from streamactors.stages.defaults import NOT_GIVEN


class TransformOps(Ops[Out, Mat]):
    """Operators that make each element into others: maps, filters, partial functions."""

    __slots__ = ()

    def map(self, fn: Callable[[Out], U]) -> Ops[U, Mat]:
        """Apply `fn` to each element.

        Emits when: `fn` has returned.                Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.

        Example:
            a -1-2-3|
            a.map(lambda x: x * 10)
        """
        from streamactors.stages.transform.mapping import Map

        return self._via(Map(fn))

    def filter(self, predicate: Callable[[Out], Any] | None) -> Ops[Out, Mat]:
        """Pass the elements for which `predicate` is true; with None, those that are true themselves.

        Emits when: the predicate is true.            Backpressures when: downstream does, for passed elements.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.

        Example:
            a -1-2-3|
            a.filter(lambda x: x % 2)
        """
        from streamactors.stages.transform.mapping import Filter

        return self._via(Filter(predicate))

    def filter_not(self, predicate: Callable[[Out], Any] | None) -> Ops[Out, Mat]:
        """Pass the elements for which `predicate` is false; with None, those that are false themselves.

        Emits when: the predicate is false.           Backpressures when: downstream does, for passed elements.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.

        Example:
            a -1-2-3|
            a.filter_not(lambda x: x % 2)
        """
        from streamactors.stages.transform.mapping import FilterNot

        return self._via(FilterNot(predicate))

    def collect(
        self, fn: Callable[[Out], U | None], when: type | tuple[type, ...] | Callable[[Out], Any] | None = None
    ) -> Ops[U, Mat]:
        """Apply a partial function: where it returns None the element is left out.

        `when` says for which elements `fn` is meant, by their type or by a predicate; then whatever it returns is emitted, None
        included.

        Emits when: `fn` has returned a result.       Backpressures when: downstream does, for passed elements.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.

        Example:
            a -1-x-3|
            a.collect(lambda x: x * 10, when=int)
        """
        from streamactors.stages.transform.mapping import Collect, Filter, Map

        if when is None:
            return self._via(Collect(fn))
        chosen = (lambda element: isinstance(element, when)) if isinstance(when, (type, tuple)) else when
        return self._via_as("collect", Filter(chosen), Map(fn))

    def collect_type(self, kind: type[U] | tuple[type, ...]) -> Ops[U, Mat]:
        """Pass the elements of a type.

        Emits when: the element is an instance of `kind`.   Backpressures when: downstream does.
        Completes when: upstream completes.                 Cancels when: downstream cancels.

        Example:
            a -1-x-3|
            a.collect_type(int)
        """
        from streamactors.stages.transform.mapping import Filter

        return self._via_as("collect_type", Filter(lambda element: isinstance(element, kind)))

    def collect_first(self, fn: Callable[[Out], U | None]) -> Ops[U, Mat]:
        """Apply a partial function; emit its first result that is not None, then complete.

        Emits when: `fn` gives a result.              Backpressures when: downstream does.
        Completes when: it has emitted, or upstream completes.   Cancels when: it has emitted, or downstream cancels.

        Example:
            a -1-2-3|
            a.collect_first(lambda x: x if x > 1 else None)
        """
        from streamactors.stages.limit.counting import Take
        from streamactors.stages.transform.mapping import Collect

        return self._via_as("collect_first", Collect(fn), Take(1))

    def collect_while(self, fn: Callable[[Out], U | None]) -> Ops[U, Mat]:
        """Apply a partial function until it returns None, then complete.

        Emits when: `fn` gives a result.              Backpressures when: downstream does.
        Completes when: `fn` returns None, or upstream completes.   Cancels when: `fn` returns None, or downstream cancels.

        Example:
            a -1-2-3|
            a.collect_while(lambda x: x if x < 3 else None)
        """
        from streamactors.stages.limit.predicates import TakeWhile
        from streamactors.stages.transform.mapping import Map

        return self._via_as("collect_while", Map(fn), TakeWhile(lambda result: result is not None))

    def flatten_optional(self) -> Ops[Any, Mat]:
        """Leave out the elements that are None.

        Emits when: the element is not None.          Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -1-2-3|
            a.map(lambda x: x if x > 1 else None).flatten_optional()
        """
        from streamactors.stages.transform.mapping import Filter

        return self._via_as("flatten_optional", Filter(lambda element: element is not None))

    def map_concat(self, fn: Callable[[Out], Iterable[U]]) -> Ops[U, Mat]:
        """Turn each element into an iterable and emit its results, one iterable after the other.

        Iterators are read on demand, and one result ahead, so they may be endless.
        Emits when: the current iterable has a result.   Backpressures when: downstream does, or the current iterable has more.
        Completes when: upstream completes and the last iterable has ended.   Cancels when: downstream cancels.
        Supervision: resume and restart drop the element, and the rest of its iterable.
        Marks: when the current iterable has ended.

        Example:
            a -1-2-3|
            a.map_concat(lambda x: [x] * x)
        """
        from streamactors.stages.transform.expanding import MapConcat

        return self._via(MapConcat(fn))

    def map_chunks(self, fn: Callable[[list[Out]], Iterable[U]]) -> Ops[U, Mat]:
        """Call `fn` with whole chunks, for numpy, Arrow, polars and others: `fn(list of elements)` returns any iterable of results.

        Demand and timing decide where chunks are cut, so results must not depend on it. `grouped` makes lists of one length.
        Emits when: `fn` has returned results.        Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the chunk.
        Marks: after the results of the chunk before them.

        Example:
            a -(12)-3|
            a.map_chunks(lambda xs: [sum(xs)])
        """
        from streamactors.stages.transform.expanding import MapChunks

        return self._via(MapChunks(fn))

    def zip_with_index(self) -> Ops[tuple[Out, int], Mat]:
        """Pair each element with its number, from 0: (element, number).

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -x--y|
            a.zip_with_index()
        """
        from streamactors.stages.transform.zip_with_index import ZipWithIndex

        return self._via(ZipWithIndex())

    @overload
    def intersperse(self, separator: U, *, start: U = NOT_GIVEN, end: U = NOT_GIVEN) -> Ops[Out | U, Mat]: ...

    @overload
    def intersperse(self, start: U, separator: U, end: U, /) -> Ops[Out | U, Mat]: ...

    def intersperse(
        self, separator: Any, *between_and_end: Any, start: Any = NOT_GIVEN, end: Any = NOT_GIVEN
    ) -> Ops[Any, Mat]:
        """Put `separator` between elements, `start` before the first and `end` after the last; an empty stream gets `start` and
        `end`, too. `intersperse(",", start="[", end="]")` can be written `intersperse("[", ",", "]")`.

        Emits when: upstream does; `start` is emitted first.   Backpressures when: downstream does.
        Completes when: upstream completes and `end` has been emitted.   Cancels when: downstream cancels.
        Marks: held while an element waits for its separator to leave.

        Example:
            a -1-2-3|
            a.intersperse(',')
        """
        from streamactors.stages.transform.expanding import Intersperse

        if between_and_end:
            if len(between_and_end) != 2 or start is not NOT_GIVEN or end is not NOT_GIVEN:
                raise BuildError("intersperse expects a separator, or (start, separator, end)")
            start, (separator, end) = separator, between_and_end
        return self._via(Intersperse(separator, start, end))
