"""A future that a stage awaits may be cancelled by anybody, on any thread: the stage fails with CancelledError, and no traceback is logged."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import ActorSystem, Flow, Keep, Sink, Source
from tests.actors.eventually import eventually

Call = Callable[..., Any]

AWAITING: dict[str, Callable[[Call], Source[Any, Any]]] = {
    "map_async": lambda call: Source.single(1).map_async(1, call),
    "map_async_unordered": lambda call: Source.single(1).map_async_unordered(1, call),
    "map_async_partitioned": lambda call: Source.single(1).map_async_partitioned(1, lambda x: x, call),
    "map_async_partitioned_unordered": lambda call: Source.single(1).map_async_partitioned_unordered(
        1, lambda x: x, call
    ),
    "map_async_with_context": lambda call: Source.single(1).with_context(lambda x: x).map_async(1, call).as_source(),
    "fold_async": lambda call: Source.single(1).fold_async(0, call),
    "scan_async": lambda call: Source.single(1).scan_async(0, call).drop(1),
    "future": lambda call: Source.single(1).flat_map_concat(lambda x: Source.future(call(x))),
    "future_source": lambda call: Source.single(1).flat_map_concat(lambda x: Source.future_source(call(x))),
    "lazy_future": lambda call: Source.lazy_future(call),
    "lazy_future_source": lambda call: Source.lazy_future_source(call),
    "unfold_async": lambda call: Source.unfold_async(0, call),
    "unfold_resource_async": lambda call: Source.unfold_resource_async(call, call, call),
    "lazy_future_flow": lambda call: Source.single(1).via(Flow.lazy_future_flow(call)),
    "foreach_async": lambda call: Source.single(1).also_to(Sink.foreach_async(1, call)),
}


def failure_of(make: Callable[[Call], Source[Any, Any]], system: ActorSystem, awaited: Any, cancel: Any) -> Any:
    """Run a stage that awaits `awaited()`; cancel that on a thread of the pool; return the error of the stage's stream."""
    asked: list[Any] = []

    def call(*_: Any) -> Any:
        asked.append(awaited())
        return asked[-1]

    done = make(call).run_with(Sink.to_list(), system)
    eventually(lambda: asked)
    Source.single(1).run_with(Sink.foreach(lambda _: cancel(asked[0])), system).result(10)
    return done.exception(10)


@pytest.mark.parametrize("operator", AWAITING)
def test_a_stream_that_a_stage_awaits_is_cancelled_on_a_thread_of_the_pool(
    actor_system: ActorSystem, operator: str, caplog: pytest.LogCaptureFixture
) -> None:
    # exception() of the cancelled future raised WouldBlock on a pool thread, inside the callback that was to wake the stage
    error = failure_of(
        AWAITING[operator],
        actor_system,
        lambda: Source.never().run_with(Sink.ignore(), actor_system),
        lambda future: future.cancel(),
    )
    assert isinstance(error, concurrent.futures.CancelledError)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("operator", AWAITING)
def test_a_future_of_threads_that_a_stage_awaits_is_cancelled(
    actor_system: ActorSystem, operator: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = failure_of(AWAITING[operator], actor_system, concurrent.futures.Future, lambda future: future.cancel())
    assert isinstance(error, concurrent.futures.CancelledError)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_asyncio_future_that_a_stage_awaits_is_cancelled(actor_system: ActorSystem) -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        done = Source.future(future).run_with(Sink.to_list(), actor_system)
        future.cancel()
        with pytest.raises((asyncio.CancelledError, concurrent.futures.CancelledError)):
            await done

    asyncio.run(main())


def test_streams_of_streams_log_no_traceback_when_one_of_them_fails(
    actor_system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    # The others are cancelled by the stage, on the island's thread: each of them logged a traceback.
    started: list[Any] = []

    def partition(n: int) -> Any:
        source = Source.never() if n else Source.maybe()
        switch, future = source.to_mat(Sink.ignore(), Keep.both).run(actor_system)
        started.append(future)
        if n == 0:
            started.append(switch)
        return future

    done = Source.range(0, 8).map_async(64, partition).run_with(Sink.ignore(), actor_system)
    eventually(lambda: len(started) == 9)
    (promise,) = (each for each in started if not isinstance(each, concurrent.futures.Future))
    promise.fail(ValueError("partition 0 is broken"))
    assert repr(done.exception(10)) == "ValueError('partition 0 is broken')"
    futures = [each for each in started if isinstance(each, concurrent.futures.Future)]
    eventually(lambda: all(future.done() for future in futures))
    assert sorted(future.cancelled() for future in futures) == [False] + [True] * 7
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_what_a_future_says_of_its_cancellation_is_the_same_on_a_pool_thread(actor_system: ActorSystem) -> None:
    seen: list[Any] = []
    future = Source.never().run_with(Sink.ignore(), actor_system)

    def look(cancelled: Any) -> None:
        for ask in (cancelled.result, cancelled.exception):
            try:
                ask()
            except BaseException as error:
                seen.append(type(error))

    future.add_done_callback(look)
    Source.single(1).run_with(Sink.foreach(lambda _: future.cancel()), actor_system).result(10)
    assert seen == [concurrent.futures.CancelledError] * 2
