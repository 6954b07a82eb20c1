"""Sources from async iterables: demand, ends, errors, the loop they run on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from streamactors import Sink, Source
from streamactors.testing import TestSink, assert_all_stages_stopped
from tests.stages.test_sources import elements


async def counting(n, log=None):
    try:
        for i in range(n):
            if log is not None:
                log.append(i)
            yield i
            if i % 7 == 0:
                await asyncio.sleep(0)
    finally:
        if log is not None:
            log.append("closed")


@pytest.mark.parametrize("n", [0, 1, 100, 5000])
def test_an_async_generator_gives_its_elements(actor_system, n):
    assert elements(actor_system, Source.from_async_iterable(counting(n))) == list(range(n))


def test_an_async_generator_is_read_on_demand_and_closed(actor_system):
    log = []
    sink = Source.from_async_iterable(counting(1000, log)).run_with(TestSink.probe(), actor_system)
    sink.request(2).expect_next_n([0, 1])
    sink.expect_no_message("20ms")
    assert log == [0, 1]
    with assert_all_stages_stopped(actor_system):
        sink.request(1).expect_next(2)
        sink.cancel()
    for _ in range(1000):
        if log[-1] == "closed":
            break
        threading.Event().wait(0.005)
    assert log == [0, 1, 2, "closed"]


def test_what_an_async_iterable_gave_before_it_raised_goes_out_first(actor_system):
    async def broken():
        yield 1
        yield 2
        raise OSError("network")

    sink = Source.from_async_iterable(broken()).run_with(TestSink.probe(), actor_system)
    sink.request(10).expect_next_n([1, 2])
    sink.expect_error(OSError)


def test_an_async_iterable_that_gives_no_iterator_is_the_only_error_that_is_told(actor_system, caplog):
    # the stage had no iterator to close: the log had an AttributeError of `on_stop` beside the error of the user
    class Broken:
        def __aiter__(self):
            raise OSError("no session")

    sink = Source.from_async_iterable(Broken()).run_with(TestSink.probe(), actor_system)
    sink.expect_subscription_and_error(OSError)
    actor_system.shutdown()
    assert not any("on_stop" in record.getMessage() for record in caplog.records)


def test_an_async_iterable_may_run_on_the_loop_it_belongs_to(actor_system):
    async def main():
        queue = asyncio.Queue()
        loop = asyncio.get_running_loop()

        async def drain():
            while (item := await queue.get()) is not None:
                assert asyncio.get_running_loop() is loop
                yield item

        result = Source.from_async_iterable(drain(), loop=loop).run_with(Sink.to_list(), actor_system)
        for item in ("a", "b", None):
            await queue.put(item)
            await asyncio.sleep(0)
        return await result

    assert asyncio.run(main()) == ["a", "b"]


def test_virtual_time_passes_in_coroutines_too(actor_system, virtual_clock):
    async def slowly():
        for i in range(3):
            await asyncio.sleep(3600)
            yield i

    sink = Source.from_async_iterable(slowly()).run_with(TestSink.probe(), actor_system)
    sink.request(9).expect_no_message("59m")
    virtual_clock.advance("1m")
    sink.expect_next(0)
    virtual_clock.advance("2h")
    sink.expect_next(1, 2).expect_complete()
