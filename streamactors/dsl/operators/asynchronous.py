"""Operators that call a function for several elements at a time."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, overload

from streamactors.actors.messages import ActorAddress
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.durations import Duration

if TYPE_CHECKING:
    from streamactors.stages.asynchronous.circuit_breaker import CircuitBreaker
    from streamactors.stages.restart_settings import RestartSettings


class AsyncOps(Ops[Out, Mat]):
    """Operators that call coroutines, processes or actors, inherited by Source, Flow and sub-flows."""

    __slots__ = ()

    @overload
    def map_async(
        self,
        parallelism: int,
        fn: Callable[[Out], Awaitable[U]],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async(
        self,
        parallelism: int,
        fn: Callable[[Out], Future[U]],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async(
        self,
        parallelism: int,
        fn: Callable[[Out], U],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[U, Mat]: ...
    def map_async(
        self,
        parallelism: int,
        fn: Callable[[Out], Any],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[Any, Mat]:
        """Call `fn` with up to `parallelism` elements at a time; emit the results in the elements' order.

        A coroutine function runs on the system's asyncio loop, or on `loop`, your own running loop, so that it can use clients and locks that were
        made there. A plain function runs on the system's threads and may block; it may also return a future or an awaitable. None is a result
        like any other.

        `retry`: a failed call is made again after the back-off of the settings, `max_restarts` times, for errors that `restart_on` chooses. The
        element keeps its place and other calls run meanwhile. `breaker`: a circuit breaker around the calls. While it is open, an element
        whose call it refuses waits for the next trial, if there is a `retry`, and uses up no attempt; without `retry` the call fails with CircuitOpen.
        Emits when: the oldest call has ended.        Backpressures when: `parallelism` calls run, wait for an attempt or wait to be emitted.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: a call fails and is not made again, at once, without waiting for older calls.
        Supervision: resume and restart drop the element.
        Marks: in the queue of calls.

        Example:
            a 4-1---2|
            a.map_async(2, wait)
        """
        from streamactors.stages.asynchronous.map_async import MapAsync

        return self._via(MapAsync(parallelism, fn, loop, retry, breaker))

    @overload
    def map_async_unordered(
        self,
        parallelism: int,
        fn: Callable[[Out], Awaitable[U]],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async_unordered(
        self,
        parallelism: int,
        fn: Callable[[Out], Future[U]],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[U, Mat]: ...
    @overload
    def map_async_unordered(
        self,
        parallelism: int,
        fn: Callable[[Out], U],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[U, Mat]: ...
    def map_async_unordered(
        self,
        parallelism: int,
        fn: Callable[[Out], Any],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[Any, Mat]:
        """Call `fn` as `map_async` does, also with `retry` and `breaker`; emit each result as soon as its call has ended.

        Emits when: a call has ended.                 Backpressures when: `parallelism` calls run or wait to be emitted.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: a call fails, at once.            Supervision: resume and restart drop the element.
        Marks: when all elements before them have left.

        Example:
            a 4-1---2|
            a.map_async_unordered(2, wait)
        """
        from streamactors.stages.asynchronous.map_async import MapAsyncUnordered

        return self._via(MapAsyncUnordered(parallelism, fn, loop, retry, breaker))

    @overload
    def map_async_partitioned(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], Awaitable[U]],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
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
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
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
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[U, Mat]: ...
    def map_async_partitioned(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], Any],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[Any, Mat]:
        """Call `fn` as `map_async` does, but for at most `per_partition` elements of one key at a time, begun in their order.

        Elements whose key is busy wait, and count towards `parallelism`. `key(element)` runs on the stream's thread: it should be quick.
        `retry` and `breaker` as in `map_async`; a key stays busy while its call waits for the next attempt.
        Emits when: the oldest call has ended.
        Backpressures when: `parallelism` elements wait for their call, are being called for, or wait to be emitted.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: a call fails, at once.            Supervision: resume and restart drop the element.
        Marks: in the queue of calls.

        Example:
            a 3-1-2|
            a.map_async_partitioned(3, lambda x: x % 2, wait)
        """
        from streamactors.stages.asynchronous.partitioned import MapAsyncPartitioned

        return self._via(MapAsyncPartitioned(parallelism, key, fn, per_partition, loop, retry, breaker))

    def map_parallel(
        self, fn: Callable[[Out], U], processes: int | None = None, *, ordered: bool = True
    ) -> Ops[U, Mat]:
        """Call `fn` with each element in one of several worker processes; emit the results in the elements' order.

        For functions that compute for a while in Python: about 50 µs and more. `processes`: by default the number of cores that this process may
        use. With `ordered=False` results are emitted as they come. Elements and results must be of the types that can cross a process boundary, and
        `fn` goes by import name or with cloudpickle (docs/cores.md). Elements travel in tasks of about 5 ms.
        Emits when: the oldest task has ended.        Backpressures when: each process has two tasks, or results wait to be emitted.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: a call fails, after the results before it; a process dies and the run reads no marks (WorkerDied). In a run that reads
        marks another process repeats the task.
        Supervision: resume and restart drop the element; the decider is called in the worker process.
        Marks: in the queue of tasks.

        Example:
            from streamactors import Sink, Source

            def square(x):
                return x * x

            print(Source.range(4).map_parallel(square, processes=2).run_with(Sink.to_list()).result(timeout=60))
        """
        from streamactors.stages.asynchronous.map_parallel import MapParallel

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
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
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
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
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
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[U, Mat]: ...
    def map_async_partitioned_unordered(
        self,
        parallelism: int,
        key: Callable[[Out], Any],
        fn: Callable[[Out], Any],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Ops[Any, Mat]:
        """Call `fn` as `map_async_partitioned` does; emit each result as soon as its call has ended.

        The results of one key come in their order if `per_partition` is 1.
        Emits when: a call has ended.
        Backpressures when: `parallelism` elements wait for their call, are being called for, or wait to be emitted.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: a call fails, at once.            Supervision: resume and restart drop the element.
        Marks: when all elements before them have left.

        Example:
            a 3-1-2|
            a.map_async_partitioned_unordered(3, lambda x: x % 2, wait)
        """
        from streamactors.stages.asynchronous.partitioned import MapAsyncPartitionedUnordered

        return self._via(MapAsyncPartitionedUnordered(parallelism, key, fn, per_partition, loop, retry, breaker))

    def ask(self, actor: ActorAddress, timeout: Duration = "5s", parallelism: int = 2) -> Ops[Any, Mat]:
        """Send each element to an actor and emit its answers, in the elements' order, up to `parallelism` at a time.
        A number as `timeout` is seconds.

        Emits when: the oldest question has been answered.   Backpressures when: `parallelism` questions are open.
        Completes when: upstream completes and all answers have been emitted.   Cancels when: downstream cancels.
        Fails when: an answer does not come within `timeout` (AskTimeout), or the actor has stopped (ActorError).
        Supervision: resume and restart drop the element.
        Marks: in the queue of questions.

        Example:
            a -1-2-3|
            a.ask(tens)
        """
        from streamactors.stages.asynchronous.asking import Ask

        return self._via(Ask(actor, timeout, parallelism))

    def ask_with_status(self, actor: ActorAddress, timeout: Duration = "5s", parallelism: int = 2) -> Ops[Any, Mat]:
        """As `ask`, for an actor that answers with `StatusReply.success(value)` or `StatusReply.error(...)`; emit the values.
        A number as `timeout` is seconds.

        Emits when: the oldest question has been answered.   Backpressures when: `parallelism` questions are open.
        Completes when: upstream completes and all answers have been emitted.   Cancels when: downstream cancels.
        Fails when: an answer is an error, does not come within `timeout` (AskTimeout), or is not a StatusReply; the actor has stopped.
        Supervision: resume and restart drop the element.
        Marks: in the queue of questions.

        Example:
            a -1-2-0-3|
            a.ask_with_status(checked)
        """
        from streamactors.stages.asynchronous.asking import AskWithStatus

        return self._via(AskWithStatus(actor, timeout, parallelism))

    def scan_async(self, zero: U, fn: Callable[[U, Out], Any]) -> Ops[U, Mat]:
        """Emit `zero`, then for each element the value so far combined with it by the asynchronous `fn(value, element)`.

        `fn` may be a coroutine function, or a plain function, which runs on the system's threads and may return a future.
        Each run starts with a copy of `zero`.
        Emits when: a call has ended.                 Backpressures when: downstream does, or a call runs.
        Completes when: upstream completes and the last call has ended.   Cancels when: downstream cancels.
        Fails when: a call fails.
        Supervision: resume drops the element; restart goes back to `zero` and emits it.
        Marks: in the queue of calls.

        Example:
            a -1----2|
            a.scan_async(0, add)
        """
        from streamactors.stages.asynchronous.scan_async import ScanAsync

        return self._via(ScanAsync(zero, fn))

    def fold_async(self, zero: U, fn: Callable[[U, Out], Any]) -> Ops[U, Mat]:
        """Combine all elements by the asynchronous `fn(value, element)`, beginning with `zero`; emit the result at the end.

        Emits when: upstream completes and the last call has ended.   Backpressures when: a call runs.
        Completes when: the result has been emitted.                  Cancels when: downstream cancels.
        Fails when: a call fails.   Supervision: resume drops the element, restart also goes back to `zero`.
        Marks: after the result.

        Example:
            a -1----2|
            a.fold_async(0, add)
        """
        from streamactors.stages.asynchronous.scan_async import ScanAsync
        from streamactors.stages.fold.fold import Reduce

        return self._via_as("fold_async", ScanAsync(zero, fn), Reduce(lambda _, value: value))
