"""Constructors of Sink that end in one value: foreach, ignore, to_list, head, last, fold, reduce, count."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import T, U
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import Joined, Module, StageModule, keep_right

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Sink


class ValueSinks(Constructors):
    """Sinks that materialize a value made of the elements. Each materializes a future that also fails when the stream does."""

    __slots__ = ()

    @classmethod
    def foreach(cls, fn: Callable[[T], object]) -> Sink[T, StreamFuture[None]]:
        """Call `fn` with each element.

        Materializes: a future that ends with the stream.   Backpressures when: `fn` runs.
        Fails when: `fn` raises.
        Marks: done when `fn` has returned.
        Supervision: resume and restart drop the element.

        Example:
            a -1-2-3|
            a.run_with(Sink.foreach(seen.append))
        """
        from streamactors.stages.sinks.foreach import Foreach

        return cls._of(Foreach(fn))

    @classmethod
    def foreach_async(
        cls,
        parallelism: int,
        fn: Callable[[T], Awaitable[object]] | Callable[[T], object],
        *,
        loop: AbstractEventLoop | None = None,
    ) -> Sink[T, StreamFuture[None]]:
        """Call `fn`, a coroutine function or a plain one, with up to `parallelism` elements at a time.

        A coroutine function runs on the system's asyncio loop, or on `loop`, your own running loop.
        Materializes: a future that ends with the stream.   Backpressures when: `parallelism` calls run.
        Fails when: a call fails, at once.                  Supervision: resume and restart drop the element.
        Marks: done when the calls for all elements before them have ended.

        Example:
            a -1-2-3|
            a.run_with(Sink.foreach_async(2, wait))
        """
        from streamactors.stages.sinks.foreach import ForeachAsync
        from streamactors.stages.sinks.values import Ignore

        return cls._of(Joined(StageModule(ForeachAsync(parallelism, fn, loop)), StageModule(Ignore()), keep_right))

    @classmethod
    def ignore(cls) -> Sink[object, StreamFuture[None]]:
        """Drop every element.

        Materializes: a future that ends with the stream.   Marks: done as elements arrive.

        Example:
            a -1-2-3|
            a.run_with(Sink.ignore())
        """
        from streamactors.stages.sinks.values import Ignore

        return cls._of(Ignore())

    @classmethod
    def to_list(cls) -> Sink[T, StreamFuture[list[T]]]:
        """Collect all elements, however many: put `limit(n)` before it for a bound.

        Materializes: a future of the list.                 Marks: done when the stream has completed.

        Example:
            a -1-2-3|
            a.run_with(Sink.to_list())
        """
        from streamactors.stages.sinks.values import ToList

        return cls._of(ToList())

    @classmethod
    def head(cls) -> Sink[T, StreamFuture[T]]:
        """Take the first element and cancel.

        Materializes: a future of it; NoSuchElement when the stream is empty.

        Example:
            a -1-2-3|
            a.run_with(Sink.head())
        """
        from streamactors.stages.sinks.values import Head

        return cls._of(Head())

    @classmethod
    def head_option(cls) -> Sink[T, StreamFuture[T | None]]:
        """Take the first element and cancel.

        Materializes: a future of it; None when the stream is empty.

        Example:
            a ---|
            a.run_with(Sink.head_option())
        """
        from streamactors.stages.sinks.values import Head

        return cls._of(Head(None))

    @classmethod
    def last(cls) -> Sink[T, StreamFuture[T]]:
        """Keep the last element.

        Materializes: a future of it; NoSuchElement when the stream is empty.
        Marks: done when the stream has completed.

        Example:
            a -1-2-3|
            a.run_with(Sink.last())
        """
        from streamactors.stages.sinks.values import Last

        return cls._of(Last())

    @classmethod
    def last_option(cls) -> Sink[T, StreamFuture[T | None]]:
        """Keep the last element.

        Materializes: a future of it; None when the stream is empty.
        Marks: done when the stream has completed.

        Example:
            a ---|
            a.run_with(Sink.last_option())
        """
        from streamactors.stages.sinks.values import Last

        return cls._of(Last(None))

    @classmethod
    def fold(cls, zero: U, fn: Callable[[U, T], U]) -> Sink[T, StreamFuture[U]]:
        """Combine all elements with `fn(so_far, element)`, beginning with (a copy of) `zero`.

        Materializes: a future of the result.               Backpressures when: `fn` runs.
        Fails when: `fn` raises.
        Marks: done when the stream has completed.
        Supervision: resume drops the element, restart also goes back to `zero`.

        Example:
            a -1-2-3|
            a.run_with(Sink.fold(0, lambda total, x: total + x))
        """
        from streamactors.stages.sinks.foreach import Fold

        return cls._of(Fold(zero, fn))

    @classmethod
    def fold_while(cls, zero: U, predicate: Callable[[U], object], fn: Callable[[U, T], U]) -> Sink[T, StreamFuture[U]]:
        """Combine elements by `fn(value, element)`, beginning with `zero`, while `predicate(value)` is true; then cancel.

        Materializes: a future of the value: the first for which `predicate` is false, or that of the whole stream.
        Supervision: resume drops the element, restart begins with `zero` again.

        Example:
            a -1-2-3|
            a.run_with(Sink.fold_while(0, lambda n: n < 3, lambda n, x: n + x))
        """
        return cls._of(_folding_while(zero, predicate, fn))

    @classmethod
    def fold_async(cls, zero: U, fn: Callable[[U, T], Any]) -> Sink[T, StreamFuture[U]]:
        """Combine all elements by the asynchronous `fn(value, element)`, beginning with (a copy of) `zero`; one call at a time.

        `fn` may be a coroutine function, or a plain function, which runs on the system's threads and may return a future.
        Materializes: a future of the result.               Backpressures when: a call runs.
        Fails when: a call fails.   Supervision: resume drops the element, restart also goes back to `zero`.
        Marks: done when the stream has completed.

        Example:
            a -1-2-3|
            a.run_with(Sink.fold_async(0, add))
        """
        return cls._of(_folding_async(zero, fn))

    @classmethod
    def reduce(cls, fn: Callable[[T, T], T]) -> Sink[T, StreamFuture[T]]:
        """Combine all elements with `fn(so_far, element)`, beginning with the first.

        Materializes: a future of the result; NoSuchElement when the stream is empty.
        Fails when: `fn` raises.   Supervision: resume drops the element, restart also what was combined.
        Marks: done when the stream has completed.

        Example:
            a -1-3-2|
            a.run_with(Sink.reduce(max))
        """
        from streamactors.stages.sinks.foreach import Reduce

        return cls._of(Reduce(fn))

    @classmethod
    def count(cls) -> Sink[object, StreamFuture[int]]:
        """Count the elements.

        Materializes: a future of the number.               Marks: done when the stream has completed.

        Example:
            a -1-2-3|
            a.run_with(Sink.count())
        """
        from streamactors.stages.sinks.values import Count

        return cls._of(Count())

    @classmethod
    def take_last(cls, n: int) -> Sink[T, StreamFuture[list[T]]]:
        """Keep the last `n` elements.

        Materializes: a future of a list of at most `n` elements, in their order.
        Marks: done when the stream has completed.

        Example:
            a -1-2-3|
            a.run_with(Sink.take_last(2))
        """
        from streamactors.stages.sinks.deciding import TakeLast

        return cls._of(TakeLast(n))

    @classmethod
    def exists(cls, predicate: Callable[[T], object]) -> Sink[T, StreamFuture[bool]]:
        """Find out whether `predicate` is true for an element; the first such element cancels the stream.

        Materializes: a future of True or False.            Fails when: `predicate` raises.
        Marks: done when the answer is known.               Supervision: resume and restart drop the element.

        Example:
            a -1-2-3|
            a.run_with(Sink.exists(lambda x: x == 2))
        """
        from streamactors.stages.sinks.deciding import Exists

        return cls._of(Exists(predicate))

    @classmethod
    def for_all(cls, predicate: Callable[[T], object]) -> Sink[T, StreamFuture[bool]]:
        """Find out whether `predicate` is true for every element; the first other element cancels the stream.

        Materializes: a future of True or False.            Fails when: `predicate` raises.
        Marks: done when the answer is known.               Supervision: resume and restart drop the element.

        Example:
            a -1-2-3|
            a.run_with(Sink.for_all(lambda x: x < 2))
        """
        from streamactors.stages.sinks.deciding import ForAll

        return cls._of(ForAll(predicate))

    @classmethod
    def none(cls, predicate: Callable[[T], object]) -> Sink[T, StreamFuture[bool]]:
        """Find out whether `predicate` is true for no element; the first for which it is cancels the stream.

        Materializes: a future of True or False.            Fails when: `predicate` raises.
        Marks: done when the answer is known.               Supervision: resume and restart drop the element.

        Example:
            a -1-2-3|
            a.run_with(Sink.none(lambda x: x > 3))
        """
        from streamactors.stages.sinks.deciding import NoneMatches

        return cls._of(NoneMatches(predicate))


def _folding_async(zero: Any, fn: Callable[[Any, Any], Any]) -> Module:
    from streamactors.stages.asynchronous.scan_async import ScanAsync
    from streamactors.stages.sinks.values import Last

    folding = StageModule(ScanAsync(zero, fn), Attributes(name="fold_async"))
    return Joined(folding, StageModule(Last()), keep_right)


def _folding_while(zero: Any, predicate: Callable[[Any], object], fn: Callable[[Any, Any], Any]) -> Module:
    from streamactors.stages.fold.fold_while import FoldWhile
    from streamactors.stages.sinks.values import Head

    return Joined(StageModule(FoldWhile(zero, predicate, fn)), StageModule(Head()), keep_right)
