"""Constructors of Source for elements made while the stream runs: unfold, ticks, futures, sources that are known later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import M2, S, T
from streamactors.durations import Duration
from streamactors.engine.stage import NotUsed
from streamactors.stages.checks import function, plain_function

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.kinds import Source
    from streamactors.engine.attributes import Attributes
    from streamactors.stages.sources.deferred import MaybeHandle
    from streamactors.stages.sources.tick import Cancellable

_NOTHING: Final[Any] = object()


class ComputedSources(Constructors):
    """Constructors of sources that compute their elements, or the source itself, while they run."""

    __slots__ = ()

    @classmethod
    def unfold(cls, seed: S, fn: Callable[[S], tuple[S, T] | None]) -> Source[T, NotUsed]:
        """Emit elements made from a state: `fn(state)` returns (next state, element), or None to complete.

        Emits when: there is demand and `fn` has returned.   Completes when: `fn` returns None.
        Fails when: `fn` raises.

        Example:
            Source.unfold(3, lambda n: (n - 1, n) if n else None)
        """
        from streamactors.stages.sources.unfold import Unfold

        return cls._of(Unfold(seed, fn))

    @classmethod
    def unfold_async(cls, seed: S, fn: Callable[[S], Awaitable[tuple[S, T] | None]]) -> Source[T, NotUsed]:
        """As `unfold`, with a coroutine function or one that returns a future; one call at a time.

        Emits when: there is demand and the result has come.   Completes when: the result is None.
        Fails when: `fn` raises or its future fails.   Cancels when: downstream does; the call is cancelled.

        Example:
            async def down(n):
                await wait(2)
                return (n - 1, n) if n else None

            Source.unfold_async(3, down)
        """
        from streamactors.stages.sources.unfold import UnfoldAsync

        return cls._of(UnfoldAsync(seed, fn))

    @classmethod
    def unfold_resource(
        cls, open: Callable[[], S], read: Callable[[S], T | None], close: Callable[[S], object]
    ) -> Source[T, NotUsed]:
        """Emit the results of `read(resource)` until it returns None; `close(resource)` is called however the stream ends.

        Emits when: there is demand and `read` has returned.   Completes when: `read` returns None.
        Fails when: one of the three raises. Supervision of `read`: resume reads again, restart closes and opens the resource first.

        Example:
            Source.unfold_resource(lambda: iter('abc'), lambda letters: next(letters, None), lambda letters: None)
        """
        from streamactors.stages.sources.unfold import UnfoldResource

        return cls._of(UnfoldResource(open, read, close))

    @classmethod
    def unfold_resource_async(
        cls,
        open: Callable[[], Awaitable[S]],
        read: Callable[[S], Awaitable[T | None]],
        close: Callable[[S], Awaitable[object]],
    ) -> Source[T, NotUsed]:
        """Emit what `read(resource)` returns until it returns None; `close(resource)` runs however the stream ends.

        The functions are coroutine functions or return futures; one call runs at a time. `open()` gives the resource.
        Emits when: there is demand and the result of `read` has come.   Completes when: `read` gives None and `close` has ended.
        Fails when: one of the three fails.           Cancels when: downstream does; `close` runs after the call in flight.

        Example:
            async def begin():
                return [3, 2, 1]

            async def read(left):
                return await wait(left.pop()) if left else None

            async def end(left):
                seen.append('end')

            Source.unfold_resource_async(begin, read, end)
        """
        from streamactors.stages.sources.resource_async import UnfoldResourceAsync

        return cls._of(UnfoldResourceAsync(open, read, close))

    @classmethod
    def iterate(cls, seed: T, fn: Callable[[T], T], while_: Callable[[T], object] | None = None) -> Source[T, NotUsed]:
        """Emit `seed`, `fn(seed)`, `fn(fn(seed))` and so on; with `while_`, as long as `while_(element)` is true.

        `fn` is called only for an element that is asked for.
        Emits when: there is demand.                  Completes when: `while_` is false for the next element.
        Fails when: a function raises.

        Example:
            Source.iterate(1, lambda x: x * 2, while_=lambda x: x < 9)
        """
        from streamactors.stages.sources.unfold import Unfold

        plain_function("iterate", fn)
        if while_ is not None:
            plain_function("iterate", while_)

        def step(before: Any) -> tuple[T, T] | None:
            element = seed if before is _NOTHING else fn(before)
            return (element, element) if while_ is None or while_(element) else None

        return cls._of(Unfold(_NOTHING, step))

    @classmethod
    def tick(cls, initial_delay: Duration, interval: Duration, element: T) -> Source[T, Cancellable]:
        """Emit `element` after `initial_delay` (0: at the first demand) and then every `interval` (seconds, a timedelta, or a string such as "1s").

        Materializes: a Cancellable that completes it.
        Emits when: a tick is due and there is demand; without demand the tick is skipped.
        Completes when: the Cancellable is cancelled.

        Example:
            Source.tick('20ms', '30ms', 't').take(3)
        """
        from streamactors.stages.sources.tick import Tick

        return cls._of(Tick(initial_delay, interval, element))

    @classmethod
    def future(cls, future: Future[T] | Awaitable[T]) -> Source[T, NotUsed]:
        """Emit the result of a future (of threads or asyncio) or of another awaitable.

        Emits when: the result has come and there is demand.   Completes when: it has emitted.
        Fails when: the future fails.

        Example:
            a -1-2|
            Source.future(a.run_with(Sink.count()))
        """
        from streamactors.stages.sources.deferred import FromFuture

        return cls._of(FromFuture(future))

    @classmethod
    def future_source(cls, future: Future[Source[T, M2]] | Awaitable[Source[T, M2]]) -> Source[T, StreamFuture[M2]]:
        """Emit the elements of the source that is a future's result.

        Materializes: a future of that source's materialized value.
        Emits when: that source does.                 Completes when: that source does.
        Fails when: the future or that source fails.

        Example:
            a --3|
            Source.future_source(a.map(lambda x: Source.range(x)).run_with(Sink.head()))
        """
        from streamactors.stages.sources.deferred import FutureSource

        return cls._of(FutureSource(future))

    @classmethod
    def lazy_source(cls, make: Callable[[], Source[T, M2]]) -> Source[T, StreamFuture[M2]]:
        """Call `make` for the source when there is demand for its first element, and emit its elements.

        Materializes: a future of that source's materialized value; it fails if there never was demand.
        Emits when: that source does.                 Completes when: that source does.
        Fails when: `make` raises or that source fails.

        Example:
            a -1-2|
            Source.lazy_source(lambda: a)
        """
        from streamactors.stages.sources.deferred import LazySource

        return cls._of(LazySource(make))

    @classmethod
    def from_materializer(cls, make: Callable[[ActorSystem, Attributes], Source[T, M2]]) -> Source[T, StreamFuture[M2]]:
        """Make the source when the run starts: `make(system, attributes)` returns it.

        Materializes: a future of that source's materialized value.
        Emits when: that source does.                 Completes when: that source does.
        Fails when: `make` raises or that source fails.

        Example:
            Source.from_materializer(lambda system, attributes: Source.single(system.name))
        """
        from streamactors.stages.sources.deferred import FromMaterializerSource

        return cls._of(FromMaterializerSource(make))

    @classmethod
    def lazy_single(cls, make: Callable[[], T]) -> Source[T, StreamFuture[NotUsed]]:
        """Emit `make()`, which is called at the first demand.

        Emits when: there is demand.   Completes when: it has emitted.   Fails when: `make` raises.

        Example:
            Source.lazy_single(lambda: 7)
        """
        from streamactors.stages.sources.deferred import LazySource
        from streamactors.stages.sources.simple import Single

        plain_function("lazy_single", make)
        return cls._of(LazySource(lambda: cls._of(Single(make()))))

    @classmethod
    def lazy_future(cls, make: Callable[[], Future[T] | Awaitable[T]]) -> Source[T, StreamFuture[NotUsed]]:
        """Emit the result of the future that `make()` returns; `make` is called at the first demand.

        Emits when: the future is done.   Completes when: it has emitted.   Fails when: `make` or the future fails.

        Example:
            Source.lazy_future(lambda: wait(3))
        """
        from streamactors.stages.sources.deferred import FromFuture, LazySource

        function("lazy_future", make)
        return cls._of(LazySource(lambda: cls._of(FromFuture(make()))))

    @classmethod
    def lazy_future_source(
        cls, make: Callable[[], Future[Source[T, M2]] | Awaitable[Source[T, M2]]]
    ) -> Source[T, StreamFuture[StreamFuture[M2]]]:
        """Emit the elements of the source that is the result of `make()`'s future; `make` is called at the first demand.

        Emits when: that source does.   Completes when: that source does.   Fails when: `make`, the future or the source fails.

        Example:
            a --3|
            Source.lazy_future_source(lambda: a.map(lambda x: Source.range(x)).run_with(Sink.head()))
        """
        from streamactors.stages.sources.deferred import FutureSource, LazySource

        function("lazy_future_source", make)
        return cls._of(LazySource(lambda: cls._of(FutureSource(make()))))

    @classmethod
    def maybe(cls) -> Source[T, MaybeHandle[T]]:
        """Emit one element or none; the materialized handle decides: `succeed(element)`, `complete()` or `fail(error)`.

        Emits when: `succeed` was called and there is demand.   Completes when: it has emitted, or `complete` was called.
        Fails when: `fail` was called.

        Example:
            a --7|
            handle, element = Source.maybe().pre_materialize(system)
            a.run_with(Sink.foreach(handle.succeed))
            element
        """
        from streamactors.stages.sources.deferred import Maybe

        return cls._of(Maybe())
