"""Constructors of Source for elements that are made on the way: unfold, ticks, futures, sources that come later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from streamactors.actors.futures import StreamFuture
from streamactors.clock import Duration
from streamactors.dsl.sources_finite import source
from streamactors.dsl.typevars import M2, S, T
from streamactors.engine.stage import NotUsed
from streamactors.stages.lazy import FromFuture, FutureSource, LazySource, Maybe, MaybeHandle
from streamactors.stages.tick import Cancellable, Tick
from streamactors.stages.unfold import Unfold, UnfoldAsync, UnfoldResource

if TYPE_CHECKING:
    from streamactors.dsl.source import Source


class ComputedSources:
    """See the module."""

    __slots__ = ()

    @classmethod
    def unfold(cls, seed: S, fn: Callable[[S], tuple[S, T] | None]) -> Source[T, NotUsed]:
        """Emit what `fn` makes of a state: `fn(state)` returns (next state, element), or None to complete.

        Emits when: there is demand and `fn` has returned.   Completes when: `fn` returns None.
        Fails when: `fn` raises.
        """
        return source(Unfold(seed, fn))

    @classmethod
    def unfold_async(cls, seed: S, fn: Callable[[S], Awaitable[tuple[S, T] | None]]) -> Source[T, NotUsed]:
        """As `unfold`, with a coroutine function or one that returns a future; one call at a time.

        Emits when: there is demand and the result has come.   Completes when: the result is None.
        Fails when: `fn` raises or its future fails.   Cancels when: downstream does; the call is cancelled.
        """
        return source(UnfoldAsync(seed, fn))

    @classmethod
    def unfold_resource(
        cls, open: Callable[[], S], read: Callable[[S], T | None], close: Callable[[S], object]
    ) -> Source[T, NotUsed]:
        """Emit what `read(resource)` returns until it returns None; `close(resource)` runs however the stream ends.

        Emits when: there is demand and `read` has returned.   Completes when: `read` returns None.
        Fails when: one of the three raises. Supervision of `read`: resume reads on, restart closes and opens again.
        """
        return source(UnfoldResource(open, read, close))

    @classmethod
    def tick(cls, initial_delay: Duration, interval: Duration, element: T) -> Source[T, Cancellable]:
        """Emit `element` after `initial_delay` and then every `interval` (milliseconds, a timedelta, or a text such as "1s").

        Materializes: a Cancellable that completes it.
        Emits when: a tick is due and there is demand; without demand the tick is skipped.
        Completes when: the Cancellable is cancelled.
        """
        return source(Tick(initial_delay, interval, element))

    @classmethod
    def future(cls, future: Future[T] | Awaitable[T]) -> Source[T, NotUsed]:
        """Emit the result of a future (of threads or asyncio), or of something else that can be awaited.

        Emits when: the result is there and there is demand.   Completes when: it has emitted.
        Fails when: the future fails.
        """
        return source(FromFuture(future))

    @classmethod
    def future_source(cls, future: Future[Source[T, M2]] | Awaitable[Source[T, M2]]) -> Source[T, StreamFuture[M2]]:
        """Emit the elements of the source that a future gives.

        Materializes: a future of that source's materialized value.
        Emits when: that source does.                 Completes when: that source does.
        Fails when: the future or that source fails.
        """
        return source(FutureSource(future))

    @classmethod
    def lazy_source(cls, make: Callable[[], Source[T, M2]]) -> Source[T, StreamFuture[M2]]:
        """Call `make` for the source when there is demand for its first element, and emit its elements.

        Materializes: a future of that source's materialized value; it fails if there never was demand.
        Emits when: that source does.                 Completes when: that source does.
        Fails when: `make` raises or that source fails.
        """
        return source(LazySource(make))

    @classmethod
    def maybe(cls) -> Source[T, MaybeHandle[T]]:
        """Emit one element or none, as the materialized handle is told: `succeed(element)`, `complete()` or `fail(error)`.

        Emits when: `succeed` was called and there is demand.   Completes when: it has emitted, or `complete` was called.
        Fails when: `fail` was called.
        """
        return source(Maybe())
