"""Operators that call a function for several elements at a time."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, overload

from streamactors.actors.messages import ActorAddress
from streamactors.clock import Timeout
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.asynchronous.asking import Ask, AskWithStatus
from streamactors.stages.asynchronous.map_async import MapAsync, MapAsyncUnordered
from streamactors.stages.asynchronous.map_parallel import MapParallel
from streamactors.stages.asynchronous.partitioned import MapAsyncPartitioned, MapAsyncPartitionedUnordered
from streamactors.stages.asynchronous.scan_async import ScanAsync
from streamactors.stages.fold.fold import Reduce


class AsyncOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    @overload
    def map_async(
        self, parallelism: int, fn: Callable[[Out], Awaitable[U]], *, loop: AbstractEventLoop | None = None
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async(
        self, parallelism: int, fn: Callable[[Out], Future[U]], *, loop: AbstractEventLoop | None = None
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async(
        self, parallelism: int, fn: Callable[[Out], U], *, loop: AbstractEventLoop | None = None
    ) -> Ops[U, Mat]: ...
    def map_async(
        self, parallelism: int, fn: Callable[[Out], Any], *, loop: AbstractEventLoop | None = None
    ) -> Ops[Any, Mat]:
        return self._via(MapAsync(parallelism, fn, loop))

    @overload
    def map_async_unordered(
        self, parallelism: int, fn: Callable[[Out], Awaitable[U]], *, loop: AbstractEventLoop | None = None
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async_unordered(
        self, parallelism: int, fn: Callable[[Out], Future[U]], *, loop: AbstractEventLoop | None = None
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async_unordered(
        self, parallelism: int, fn: Callable[[Out], U], *, loop: AbstractEventLoop | None = None
    ) -> Ops[U, Mat]: ...
    def map_async_unordered(
        self, parallelism: int, fn: Callable[[Out], Any], *, loop: AbstractEventLoop | None = None
    ) -> Ops[Any, Mat]:
        return self._via(MapAsyncUnordered(parallelism, fn, loop))

    @overload
    def map_async_partitioned(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], Awaitable[U]],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async_partitioned(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], Future[U]],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async_partitioned(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], U],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
    ) -> Ops[U, Mat]: ...
    def map_async_partitioned(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], Any],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
    ) -> Ops[Any, Mat]:
        return self._via(MapAsyncPartitioned(parallelism, key, fn, per_partition, loop))

    def map_parallel(
        self, fn: Callable[[Out], U], processes: int | None = None, *, ordered: bool = True
    ) -> Ops[U, Mat]:
        return self._via(MapParallel(fn, processes, ordered))

    @overload
    def map_async_partitioned_unordered(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], Awaitable[U]],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async_partitioned_unordered(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], Future[U]],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async_partitioned_unordered(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], U],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
    ) -> Ops[U, Mat]: ...
    def map_async_partitioned_unordered(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], Any],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
    ) -> Ops[Any, Mat]:
        return self._via(MapAsyncPartitionedUnordered(parallelism, key, fn, per_partition, loop))

    @overload
    def ask(self, actor: ActorAddress, timeout: Timeout = "5s", parallelism: int = 2) -> Ops[Any, Mat]: ...

    @overload
    def ask(self, parallelism: int, actor: ActorAddress, timeout: Timeout = "5s", /) -> Ops[Any, Mat]: ...

    def ask(self, actor: Any, timeout: Any = None, parallelism: Any = None) -> Ops[Any, Mat]:
        if isinstance(actor, int):
            parallelism, actor, timeout = actor, timeout, parallelism
        return self._via(Ask(actor, "5s" if timeout is None else timeout, 2 if parallelism is None else parallelism))

    def ask_with_status(self, actor: ActorAddress, timeout: Timeout = "5s", parallelism: int = 2) -> Ops[Any, Mat]:
        return self._via(AskWithStatus(actor, timeout, parallelism))

    def scan_async(self, zero: U, fn: Callable[[U, Out], Any]) -> Ops[U, Mat]:
        return self._via(ScanAsync(zero, fn))

    def fold_async(self, zero: U, fn: Callable[[U, Out], Any]) -> Ops[U, Mat]:
        """Combine all elements by the asynchronous `fn(value, element)`, beginning with `zero`; emit the result at the end.

        Emits when: upstream completes and the last call has ended.   Backpressures when: a call runs.
        Completes when: the result has been emitted.                  Cancels when: downstream cancels.
        Fails when: a call fails.   Supervision: resume drops the element, restart also goes back to `zero`.
        Marks: behind the result.
        """
        return self._via_as("fold_async", ScanAsync(zero, fn), Reduce(lambda _, value: value))
