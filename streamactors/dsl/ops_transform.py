"""Operators that turn elements into others one by one, or by chunks, and predicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.expanding import MapChunks, MapConcat
from streamactors.stages.transform import Collect, Filter, FilterNot, Map


class TransformOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def map(self, fn: Callable[[Out], U]) -> Ops[U, Mat]:
        """Apply `fn` to each element.

        Emits when: `fn` has returned.                Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.
        """
        return self._via(Map(fn))

    def filter(self, predicate: Callable[[Out], Any] | None) -> Ops[Out, Mat]:
        """Pass the elements for which `predicate` is true; with None, those that are true themselves.

        Emits when: the predicate is true.            Backpressures when: downstream does, for passed elements.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.
        """
        return self._via(Filter(predicate))

    def filter_not(self, predicate: Callable[[Out], Any] | None) -> Ops[Out, Mat]:
        """Pass the elements for which `predicate` is false; with None, those that are false themselves.

        Emits when: the predicate is false.           Backpressures when: downstream does, for passed elements.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.
        """
        return self._via(FilterNot(predicate))

    def collect(
        self, fn: Callable[[Out], U | None], when: type | tuple[type, ...] | Callable[[Out], Any] | None = None
    ) -> Ops[U, Mat]:
        """Apply a partial function: where it returns None the element is left out.

        `when` says for which elements `fn` is meant, by their type or by a predicate; then whatever it returns is emitted, None
        included.
        Emits when: `fn` has returned something.      Backpressures when: downstream does, for passed elements.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.
        """
        if when is None:
            return self._via(Collect(fn))
        chosen = (lambda element: isinstance(element, when)) if isinstance(when, (type, tuple)) else when
        return self._via(Filter(chosen))._via(Map(fn))

    def map_concat(self, fn: Callable[[Out], Iterable[U]]) -> Ops[U, Mat]:
        """Turn each element into an iterable and emit what that gives, one element's after the other's.

        Iterators are read as there is demand, and one result ahead, so they may be endless.
        Emits when: the current iterable has a result.   Backpressures when: downstream does, or the current iterable has more.
        Completes when: upstream completes and the last iterable is through.   Cancels when: downstream cancels.
        Supervision: resume and restart drop the element, and what its iterable still had.
        """
        return self._via(MapConcat(fn))

    def map_chunks(self, fn: Callable[[list[Out]], Iterable[U]]) -> Ops[U, Mat]:
        """Give whole chunks to `fn`, for numpy, Arrow, polars and the like: `fn(list of elements)` returns any iterable of results.

        How elements are cut into chunks depends on demand and timing: the results must not. `grouped` gives chunks of one length.
        Emits when: `fn` has returned results.        Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the chunk.
        """
        return self._via(MapChunks(fn))
