"""Constructors of Sink that end in one value: foreach, ignore, to_list, head, last, fold, reduce, count."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.typevars import T, U
from streamactors.engine.blueprint import StageModule
from streamactors.engine.stage import GraphStage
from streamactors.stages.foreach_async import foreach_async
from streamactors.stages.sinks import Count, Head, Ignore, Last, ToList
from streamactors.stages.sinks_calling import Fold, Foreach, Reduce

if TYPE_CHECKING:
    from streamactors.dsl.sink import Sink


class BasicSinks:
    """See the module. Each materializes a future that also fails when the stream does."""

    __slots__ = ()

    @classmethod
    def foreach(cls, fn: Callable[[T], object]) -> Sink[T, StreamFuture[None]]:
        """Call `fn` with each element.

        Materializes: a future that ends with the stream.   Backpressures when: `fn` runs.
        Fails when: `fn` raises (supervision: resume and restart drop the element).
        Marks: done with what `fn` has returned from.
        """
        return sink(Foreach(fn))

    @classmethod
    def foreach_async(
        cls, parallelism: int, fn: Callable[[T], Awaitable[object]] | Callable[[T], object]
    ) -> Sink[T, StreamFuture[None]]:
        """Call `fn`, a coroutine function or a plain one, with up to `parallelism` elements at a time.

        Materializes: a future that ends with the stream.   Backpressures when: `parallelism` calls run.
        Fails when: a call fails, at once (supervision: resume and restart drop the element).
        Marks: done when all calls for what came before them have ended.
        """
        from streamactors.dsl.sink import Sink

        return Sink(foreach_async(parallelism, fn))

    @classmethod
    def ignore(cls) -> Sink[object, StreamFuture[None]]:
        """Drop every element.

        Materializes: a future that ends with the stream.   Marks: done as elements arrive.
        """
        return sink(Ignore())

    @classmethod
    def to_list(cls) -> Sink[T, StreamFuture[list[T]]]:
        """Collect all elements, however many: put `limit(n)` before it for a bound.

        Materializes: a future of the list.                 Marks: done when the stream has completed.
        """
        return sink(ToList())

    @classmethod
    def head(cls) -> Sink[T, StreamFuture[T]]:
        """Take the first element and cancel.

        Materializes: a future of it; NoSuchElement when the stream is empty.
        """
        return sink(Head())

    @classmethod
    def head_option(cls) -> Sink[T, StreamFuture[T | None]]:
        """Take the first element and cancel.

        Materializes: a future of it; None when the stream is empty.
        """
        return sink(Head(None))

    @classmethod
    def last(cls) -> Sink[T, StreamFuture[T]]:
        """Keep the last element.

        Materializes: a future of it; NoSuchElement when the stream is empty.
        Marks: done when the stream has completed.
        """
        return sink(Last())

    @classmethod
    def last_option(cls) -> Sink[T, StreamFuture[T | None]]:
        """Keep the last element.

        Materializes: a future of it; None when the stream is empty.
        Marks: done when the stream has completed.
        """
        return sink(Last(None))

    @classmethod
    def fold(cls, zero: U, fn: Callable[[U, T], U]) -> Sink[T, StreamFuture[U]]:
        """Combine all elements with `fn(so_far, element)`, beginning with (a copy of) `zero`.

        Materializes: a future of the result.               Backpressures when: `fn` runs.
        Fails when: `fn` raises (supervision: resume drops the element, restart also goes back to `zero`).
        Marks: done when the stream has completed.
        """
        return sink(Fold(zero, fn))

    @classmethod
    def reduce(cls, fn: Callable[[T, T], T]) -> Sink[T, StreamFuture[T]]:
        """Combine all elements with `fn(so_far, element)`, beginning with the first.

        Materializes: a future of the result; NoSuchElement when the stream is empty.
        Fails when: `fn` raises (supervision: resume drops the element, restart also what was combined).
        Marks: done when the stream has completed.
        """
        return sink(Reduce(fn))

    @classmethod
    def count(cls) -> Sink[object, StreamFuture[int]]:
        """Count the elements.

        Materializes: a future of the number.               Marks: done when the stream has completed.
        """
        return sink(Count())


def sink(stage: GraphStage) -> Sink[Any, Any]:
    """Return the sink of a stage."""
    from streamactors.dsl.sink import Sink

    return Sink(StageModule(stage))
