"""Operators that call a function for several elements at a time."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, overload

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.durations import Duration

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Sink
    from streamactors.stages.asynchronous.circuit_breaker import CircuitBreaker
    from streamactors.stages.asynchronous.map_async import MapAsync
    from streamactors.stages.errors.failed_element import FailedElement
    from streamactors.stages.restart_settings import RestartSettings


class AsyncOps(Ops[Out, Mat]):
    """Operators that call coroutines, threads or processes, inherited by Source, Flow and sub-flows."""

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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
    ) -> Ops[U, Mat]: ...
    def map_async(
        self,
        parallelism: int,
        fn: Callable[[Out], Any],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
    ) -> Ops[Any, Mat]:
        """Call `fn` with up to `parallelism` elements at a time; emit the results in the elements' order.

        A coroutine function runs on the system's asyncio loop, or on `loop`, your own running loop, so that it can use clients and locks that were
        made there. A plain function runs on the system's threads and may block; it may also return a future or an awaitable. None is a result
        like any other.

        `retry`: a failed call is made again after the back-off of the settings, `max_restarts` times, for errors that `restart_on` chooses. The
        element keeps its place and other calls run meanwhile. `breaker`: a circuit breaker around the calls. While it is open, an element
        whose call it refuses waits for the next trial, if there is a `retry`, and uses up no attempt; without `retry` the call fails with CircuitOpen.

        `timeout` (seconds, a timedelta or a string) of each attempt: a coroutine that lasts longer is cancelled, and has failed with CallTimeout. A
        blocking function cannot be stopped: its late result is emitted, and a warning is logged.

        `dead_letters`: a sink of FailedElement(element, error, attempts) for elements whose last attempt has failed, and for those whose error
        `restart_on` does not choose, such as `Producer.dead_letter_sink(settings, topic)`. The stream continues, and with a Kafka source the offset
        is committed when the dead letter is stored. CircuitOpen is no fault of the element, and fails the stage.
        Emits when: the oldest call has ended.        Backpressures when: `parallelism` calls run, wait for an attempt or wait to be emitted.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: a call fails, is not made again and there are no dead letters, at once, without waiting for older calls.
        Supervision: resume and restart drop the element.
        Marks: in the queue of calls.

        Example:
            a 4-1---2|
            a.map_async(2, wait)
        """
        from streamactors.stages.asynchronous.map_async import MapAsync

        gives_up = dead_letters is not None
        stage = MapAsync[Any, Any](parallelism, fn, loop, retry, breaker, timeout, gives_up=gives_up)
        return self._calling(stage, dead_letters)

    @overload
    def map_async_unordered(
        self,
        parallelism: int,
        fn: Callable[[Out], Awaitable[U]],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
    ) -> Ops[U, Mat]: ...
    def map_async_unordered(
        self,
        parallelism: int,
        fn: Callable[[Out], Any],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
    ) -> Ops[Any, Mat]:
        """Call `fn` as `map_async` does, also with `retry`, `breaker`, `timeout` and `dead_letters`; emit each result as soon as its call has ended.

        Emits when: a call has ended.                 Backpressures when: `parallelism` calls run or wait to be emitted.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: a call fails, at once.            Supervision: resume and restart drop the element.
        Marks: when all elements before them have left.

        Example:
            a 4-1---2|
            a.map_async_unordered(2, wait)
        """
        from streamactors.stages.asynchronous.map_async import MapAsyncUnordered

        gives_up = dead_letters is not None
        stage = MapAsyncUnordered[Any, Any](parallelism, fn, loop, retry, breaker, timeout, gives_up=gives_up)
        return self._calling(stage, dead_letters)

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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
    ) -> Ops[Any, Mat]:
        """Call `fn` as `map_async` does, but for at most `per_partition` elements of one key at a time, begun in their order.

        Elements whose key is busy wait, and count towards `parallelism`. `key(element)` runs on the stream's thread: it should be quick.
        `retry`, `breaker`, `timeout` and `dead_letters` as in `map_async`; a key stays busy while its call waits for the next attempt. With
        `dead_letters` an element for which `key` raises is a dead letter, too.
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

        gives_up = dead_letters is not None
        stage = MapAsyncPartitioned[Any, Any](
            parallelism, key, fn, per_partition, loop, retry, breaker, timeout, gives_up=gives_up
        )
        return self._calling(stage, dead_letters)

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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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
        timeout: Duration | None = None,
        dead_letters: Sink[FailedElement, Any] | None = None,
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

        gives_up = dead_letters is not None
        stage = MapAsyncPartitionedUnordered[Any, Any](
            parallelism, key, fn, per_partition, loop, retry, breaker, timeout, gives_up=gives_up
        )
        return self._calling(stage, dead_letters)

    def _calling(self, stage: MapAsync[Any, Any], dead_letters: Any) -> Ops[Any, Mat]:
        """Return this part with `stage`, whose elements that were given up go to the sink `dead_letters`."""
        if dead_letters is None:
            return self._via(stage)
        from streamactors.stages.errors.failed_element import has_failed
        from streamactors.stages.junctions.sides_first import DivertTo
        from streamactors.stages.transform.validating import dead_letters_or_error

        sink = dead_letters_or_error(stage.label, dead_letters)
        return self._via(stage)._fan_out(DivertTo(has_failed), sink)
