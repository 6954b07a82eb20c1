"""Operators that call a function for several elements at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, overload

from streamactors.actors.messages import ActorAddress
from streamactors.clock import Duration
from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.async_ import Ask, MapAsync, MapAsyncPartitioned, MapAsyncUnordered


class AsyncOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    @overload
    def map_async(self, parallelism: int, fn: Callable[[Out], Awaitable[U]]) -> Ops[U, Mat]: ...
    @overload
    def map_async(self, parallelism: int, fn: Callable[[Out], Future[U]]) -> Ops[U, Mat]: ...
    @overload
    def map_async(self, parallelism: int, fn: Callable[[Out], U]) -> Ops[U, Mat]: ...
    def map_async(self, parallelism: int, fn: Callable[[Out], Any]) -> Ops[Any, Mat]:
        """Call `fn` with up to `parallelism` elements at a time; emit the results in the elements' order.

        A coroutine function runs on the system's asyncio loop. A plain function runs on the system's threads and may block; it may
        also return a future or an awaitable. None is a result like any other.
        Emits when: the oldest call has ended.        Backpressures when: `parallelism` calls run or wait to be emitted.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: a call fails, at once, whatever older calls still do.
        Supervision: resume and restart drop the element.
        """
        return self._via(MapAsync(parallelism, fn))

    @overload
    def map_async_unordered(self, parallelism: int, fn: Callable[[Out], Awaitable[U]]) -> Ops[U, Mat]: ...
    @overload
    def map_async_unordered(self, parallelism: int, fn: Callable[[Out], Future[U]]) -> Ops[U, Mat]: ...
    @overload
    def map_async_unordered(self, parallelism: int, fn: Callable[[Out], U]) -> Ops[U, Mat]: ...
    def map_async_unordered(self, parallelism: int, fn: Callable[[Out], Any]) -> Ops[Any, Mat]:
        """Call `fn` as `map_async` does; emit the results as they come.

        Emits when: a call has ended.                 Backpressures when: `parallelism` calls run or wait to be emitted.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: a call fails, at once.            Supervision: resume and restart drop the element.
        """
        return self._via(MapAsyncUnordered(parallelism, fn))

    @overload
    def map_async_partitioned(
        self, parallelism: int, key: Callable[[Out], Any], fn: Callable[[Out], Awaitable[U]], per_partition: int = 1
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async_partitioned(
        self, parallelism: int, key: Callable[[Out], Any], fn: Callable[[Out], Future[U]], per_partition: int = 1
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async_partitioned(
        self, parallelism: int, key: Callable[[Out], Any], fn: Callable[[Out], U], per_partition: int = 1
    ) -> Ops[U, Mat]: ...
    def map_async_partitioned(
        self, parallelism: int, key: Callable[[Out], Any], fn: Callable[[Out], Any], per_partition: int = 1
    ) -> Ops[Any, Mat]:
        """Call `fn` as `map_async` does, but for at most `per_partition` elements of one key at a time, begun in their order.

        Elements whose key is busy wait, and count among the `parallelism`. `key(element)` runs in the stream: it should be quick.
        Emits when: the oldest call has ended.
        Backpressures when: `parallelism` elements are called for, wait to be, or wait to be emitted.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: a call fails, at once.            Supervision: resume and restart drop the element.
        """
        return self._via(MapAsyncPartitioned(parallelism, key, fn, per_partition))

    @overload
    def ask(self, actor: ActorAddress, timeout: Duration = "5s", parallelism: int = 2) -> Ops[Any, Mat]: ...

    @overload
    def ask(self, parallelism: int, actor: ActorAddress, timeout: Duration = "5s", /) -> Ops[Any, Mat]: ...

    def ask(self, actor: Any, timeout: Any = None, parallelism: Any = None) -> Ops[Any, Mat]:
        """Send each element to an actor and emit its answers, in the elements' order, up to `parallelism` at a time: by default 2,
        with a `timeout` of 5 s. The order of Akka, `ask(parallelism, actor, timeout)`, is understood as well.

        Emits when: the oldest question has been answered.   Backpressures when: `parallelism` questions are open.
        Completes when: upstream completes and all answers have been emitted.   Cancels when: downstream cancels.
        Fails when: an answer does not come within `timeout` (AskTimeout), or the actor has stopped (ActorError).
        Supervision: resume and restart drop the element.
        """
        if isinstance(actor, int):
            parallelism, actor, timeout = actor, timeout, parallelism
        return self._via(Ask(actor, "5s" if timeout is None else timeout, 2 if parallelism is None else parallelism))
