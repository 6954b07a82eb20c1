"""Streams as Python iterators, plain and async: back-pressure, the end, errors, leaving early, marks."""

from __future__ import annotations

import asyncio
import gc
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import Flow, Source
from streamactors.actors.waits import WouldBlock
from streamactors.errors import AbruptTermination, BuildError
from streamactors.testing import TestSource, assert_all_stages_stopped


@given(st.lists(st.one_of(st.none(), st.integers())), st.sampled_from([None, 1, 2, 100]))
def test_all_elements_come_in_order(elements, buffer):
    assert list(Source.from_iterable(elements).run_iter(buffer=buffer)) == elements
    assert list(Source.from_iterable(elements).async_boundary(3).run_iter(buffer=buffer)) == elements


def test_each_loop_is_a_run_of_its_own(actor_system):
    source = Source.range(1000).map(lambda x: x + 1)
    assert sum(source.run_iter(actor_system)) == sum(source.run_iter(actor_system)) == 500500


def test_leaving_the_loop_cancels_the_stream(actor_system):
    made, closed = [], []

    def numbers():
        try:
            for i in itertools.count():
                made.append(i)
                yield i
        finally:
            closed.append(True)

    with assert_all_stages_stopped(actor_system):
        for x in Source.from_iterable(numbers()).run_iter(actor_system, buffer=4):
            if x == 10:
                break
        gc.collect()
    assert closed == [True]
    assert len(made) <= 11 + 4


def test_an_iterator_that_is_never_used_starts_nothing(actor_system):
    with assert_all_stages_stopped(actor_system, timeout=0):
        iterator = Source.never().run_iter(actor_system)
        del iterator
        Source.never().run_async_iter(actor_system)


def test_the_reader_gets_no_more_than_the_buffer_ahead(actor_system):
    taken = []
    probe = []
    source = TestSource.probe().map_materialized_value(probe.append)
    iterator = source.run_iter(actor_system, buffer=2)
    with assert_all_stages_stopped(actor_system):
        import threading

        reader = threading.Thread(target=lambda: taken.extend(itertools.islice(iterator, 3)))
        reader.start()
        while not probe:
            pass
        assert probe[0].expect_request() == 2
        probe[0].send_next("a", "b").send_next("c")
        reader.join(5)
        assert taken == ["a", "b", "c"]
        iterator.close()
        probe[0].expect_cancellation()


def test_an_error_is_raised_behind_the_elements(actor_system):
    got = []
    with pytest.raises(ZeroDivisionError), assert_all_stages_stopped(actor_system):
        for x in Source.range(5).map(lambda x: 10 // (3 - x)).run_iter(actor_system):
            got += [x]
    assert got == [3, 5, 10]


def test_a_stop_iteration_of_user_code_does_not_end_the_loop_silently(actor_system):
    def stop(x):
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(Source.range(5).map(stop).run_iter(actor_system))


def test_what_cannot_run_is_an_error_at_the_call(actor_system):
    with pytest.raises(BuildError, match="buffer must be at least 1"):
        Source.range(5).run_iter(buffer=0)
    with pytest.raises(BuildError, match="buffer must be at least 1"):
        Source.range(5).run_async_iter(buffer=0)


def test_reading_inside_a_stream_would_wait_for_itself(actor_system):
    inner = Source.tick("1h", "1h", 0)
    flow = Flow.map(lambda _: next(inner.run_iter(actor_system)))
    with pytest.raises(WouldBlock, match="would wait for itself"):
        list(Source.single(1).via(flow).run_iter(actor_system))


def test_the_end_of_the_system_is_an_error_in_the_loop():
    from streamactors import ActorSystem

    with ActorSystem() as system:
        iterator = Source.range(1).concat(Source.never()).run_iter(system)
        assert next(iterator) == 0
    with pytest.raises(AbruptTermination):
        next(iterator)


def test_K_10_a_mark_is_done_when_the_element_behind_it_is_asked_for(actor_system):
    positions = []
    source = Source.range(6).with_replay(marks_at=range(7), on_done=positions.append)
    iterator = source.run_iter(actor_system)
    for n in range(6):
        assert next(iterator) == n
        assert positions == list(range(1, n + 1))
    assert next(iterator, "end") == "end"
    assert positions == [1, 2, 3, 4, 5, 6]


def test_K_10_what_was_read_last_before_leaving_is_not_done(actor_system):
    positions = []
    with assert_all_stages_stopped(actor_system):
        for x in Source.range(9).with_replay(marks_at=range(10), on_done=positions.append).run_iter(actor_system):
            if x == 4:
                break
    assert positions == [1, 2, 3, 4]


# ── async ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 10))


def test_async_for_gets_everything(actor_system):
    async def main(n, buffer):
        return [x async for x in Source.range(n).run_async_iter(actor_system, buffer=buffer)]

    for n, buffer in ((0, None), (5, 1), (5000, None)):
        assert run(main(n, buffer)) == list(range(n))


def test_leaving_async_for_cancels_the_stream(actor_system):
    async def main():
        async for x in Source.repeat(1).run_async_iter(actor_system):
            if x:
                break
        gc.collect()
        async with Source.repeat(1).run_async_iter(actor_system) as elements:
            assert await anext(elements) == 1
        closed = Source.repeat(1).run_async_iter(actor_system)
        assert await anext(closed) == 1
        await closed.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(closed)
        unused = Source.repeat(1).run_async_iter(actor_system)
        await unused.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(unused)

    with assert_all_stages_stopped(actor_system):
        run(main())


def test_an_error_is_raised_in_async_for(actor_system):
    async def main():
        got = []
        with pytest.raises(ZeroDivisionError):
            async for x in Source.range(5).map(lambda x: 10 // (3 - x)).run_async_iter(actor_system):
                got += [x]
        return got

    assert run(main()) == [3, 5, 10]


def test_a_fast_stream_leaves_the_loop_to_others(actor_system):
    async def main():
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        async for _ in Source.range(20_000).run_async_iter(actor_system):
            pass
        task.cancel()
        return turns

    assert run(main()) > 3


def test_waiting_for_an_element_can_be_cancelled_and_goes_on(actor_system):
    async def main():
        elements = Source.tick("30ms", "1h", "tick").run_async_iter(actor_system)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(elements), 0.001)
        return await anext(elements)

    assert run(main()) == "tick"
