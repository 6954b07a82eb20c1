"""Constructors of Source for elements made while the stream runs: unfold, ticks, futures, sources that are known later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.futures import StreamFuture
from streamactors.clock import Duration
from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import M2, S, T
from streamactors.engine.stage import NotUsed
from streamactors.stages.checks import function, plain_function
from streamactors.stages.sources.deferred import (
    FromFuture,
    FromMaterializerSource,
    FutureSource,
    LazySource,
    Maybe,
    MaybeHandle,
)
from streamactors.stages.sources.resource_async import UnfoldResourceAsync
from streamactors.stages.sources.simple import Single
from streamactors.stages.sources.tick import Cancellable, Tick
from streamactors.stages.sources.unfold import Unfold, UnfoldAsync, UnfoldResource

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.kinds import Source
    from streamactors.engine.blueprint.attributes import Attributes

_NOTHING: Final[Any] = object()


class ComputedSources(Constructors):
    """See the module."""

    __slots__ = ()

    @classmethod
    def unfold(cls, seed: S, fn: Callable[[S], tuple[S, T] | None]) -> Source[T, NotUsed]:
        return cls._of(Unfold(seed, fn))

    @classmethod
    def unfold_async(cls, seed: S, fn: Callable[[S], Awaitable[tuple[S, T] | None]]) -> Source[T, NotUsed]:
        return cls._of(UnfoldAsync(seed, fn))

    @classmethod
    def unfold_resource(
        cls, open: Callable[[], S], read: Callable[[S], T | None], close: Callable[[S], object]
    ) -> Source[T, NotUsed]:
        return cls._of(UnfoldResource(open, read, close))

    @classmethod
    def unfold_resource_async(
        cls,
        open: Callable[[], Awaitable[S]],
        read: Callable[[S], Awaitable[T | None]],
        close: Callable[[S], Awaitable[object]],
    ) -> Source[T, NotUsed]:
        return cls._of(UnfoldResourceAsync(open, read, close))

    @classmethod
    def iterate(cls, seed: T, fn: Callable[[T], T], while_: Callable[[T], object] | None = None) -> Source[T, NotUsed]:
        """Emit `seed`, `fn(seed)`, `fn(fn(seed))` and so on; with `while_`, as long as `while_(element)` is true.

        `fn` is called only for an element that is asked for.
        Emits when: there is demand.                  Completes when: `while_` is false for the next element.
        Fails when: a function raises.
        """
        plain_function("iterate", fn)
        if while_ is not None:
            plain_function("iterate", while_)

        def step(before: Any) -> tuple[T, T] | None:
            element = seed if before is _NOTHING else fn(before)
            return (element, element) if while_ is None or while_(element) else None

        return cls._of(Unfold(_NOTHING, step))

    @classmethod
    def tick(cls, initial_delay: Duration, interval: Duration, element: T) -> Source[T, Cancellable]:
        return cls._of(Tick(initial_delay, interval, element))

    @classmethod
    def future(cls, future: Future[T] | Awaitable[T]) -> Source[T, NotUsed]:
        return cls._of(FromFuture(future))

    @classmethod
    def future_source(cls, future: Future[Source[T, M2]] | Awaitable[Source[T, M2]]) -> Source[T, StreamFuture[M2]]:
        return cls._of(FutureSource(future))

    @classmethod
    def lazy_source(cls, make: Callable[[], Source[T, M2]]) -> Source[T, StreamFuture[M2]]:
        return cls._of(LazySource(make))

    @classmethod
    def from_materializer(cls, make: Callable[[ActorSystem, Attributes], Source[T, M2]]) -> Source[T, StreamFuture[M2]]:
        return cls._of(FromMaterializerSource(make))

    @classmethod
    def lazy_single(cls, make: Callable[[], T]) -> Source[T, StreamFuture[NotUsed]]:
        """Emit `make()`, which is called at the first demand.

        Emits when: there is demand.   Completes when: it has emitted.   Fails when: `make` raises.
        """
        plain_function("lazy_single", make)
        return cls._of(LazySource(lambda: cls._of(Single(make()))))

    @classmethod
    def lazy_future(cls, make: Callable[[], Future[T] | Awaitable[T]]) -> Source[T, StreamFuture[NotUsed]]:
        """Emit the result of the future that `make()` returns; `make` is called at the first demand.

        Emits when: the future is done.   Completes when: it has emitted.   Fails when: `make` or the future fails.
        """
        function("lazy_future", make)
        return cls._of(LazySource(lambda: cls._of(FromFuture(make()))))

    @classmethod
    def lazy_future_source(
        cls, make: Callable[[], Future[Source[T, M2]] | Awaitable[Source[T, M2]]]
    ) -> Source[T, StreamFuture[StreamFuture[M2]]]:
        """Emit the elements of the source that is the result of `make()`'s future; `make` is called at the first demand.

        Emits when: that source does.   Completes when: that source does.   Fails when: `make`, the future or the source fails.
        """
        function("lazy_future_source", make)
        return cls._of(LazySource(lambda: cls._of(FutureSource(make()))))

    @classmethod
    def maybe(cls) -> Source[T, MaybeHandle[T]]:
        return cls._of(Maybe())
