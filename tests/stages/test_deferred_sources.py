"""Sources whose elements, or which themselves, come later: ticks, futures, sources made at the first demand."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest

from streamactors import Keep, Sink, Source
from streamactors.errors import AbruptTermination
from streamactors.stages.sources.tick import Cancellable
from streamactors.testing import TestSink, assert_all_stages_stopped

pytestmark = pytest.mark.usefixtures("virtual_clock")  # silence costs no time, and means that all is at rest


def elements(system, source):
    return source.run_with(Sink.to_list(), system).result(10)


def probe(system, source):
    value, sink = source.to_mat(TestSink.probe(), Keep.both).run(system)
    return value, sink


def test_ticks_come_at_a_fixed_rate_and_are_skipped_without_demand(actor_system, virtual_clock):
    handle, sink = probe(actor_system, Source.tick("1s", "10s", "tick"))
    assert isinstance(handle, Cancellable)
    sink.request(2).expect_no_message("999ms")
    virtual_clock.advance("1ms")
    sink.expect_next("tick").expect_no_message("9999ms")
    virtual_clock.advance("1ms")
    sink.expect_next("tick")
    sink.expect_no_message("1h")  # 360 ticks without demand
    sink.request(1).expect_no_message("9s")
    virtual_clock.advance("1s")
    sink.expect_next("tick")
    assert handle.cancel() is True
    assert handle.cancel() is False
    assert handle.is_cancelled
    sink.expect_complete()


def test_a_future_of_any_kind(actor_system):
    future = concurrent.futures.Future()
    _, sink = probe(actor_system, Source.future(future))
    sink.request(1).expect_no_message("10ms")
    future.set_result("came")
    sink.expect_next("came").expect_complete()
    done = concurrent.futures.Future()
    done.set_result(None)
    assert elements(actor_system, Source.future(done)) == [None]

    async def answer():
        return 42

    assert elements(actor_system, Source.future(answer())) == [42]
    failed = concurrent.futures.Future()
    failed.set_exception(KeyError("k"))
    Source.future(failed).run_with(TestSink.probe(), actor_system).expect_subscription_and_error(KeyError)
    cancelled = concurrent.futures.Future()
    cancelled.cancel()
    Source.future(cancelled).run_with(TestSink.probe(), actor_system).expect_subscription_and_error()


def test_an_asyncio_future_is_watched_on_its_own_loop(actor_system):
    async def main():
        future = asyncio.get_running_loop().create_future()
        result = Source.future(future).run_with(Sink.head(), actor_system)
        await asyncio.sleep(0)
        future.set_result("from here")
        return await result

    assert asyncio.run(main()) == "from here"


def test_future_source_emits_the_source_that_comes(actor_system):
    future = concurrent.futures.Future()
    inner = Source.range(5).map_materialized_value(lambda _: "inner")
    value, sink = probe(actor_system, Source.future_source(future))
    sink.request(3).expect_no_message("10ms")
    assert not value.done()
    future.set_result(inner)
    assert value.result(30) == "inner"
    sink.expect_next_n([0, 1, 2])
    sink.request(9).expect_next_n([3, 4])
    sink.expect_complete()


def test_future_source_fails_with_its_future_or_with_what_is_no_source(actor_system):
    failed = concurrent.futures.Future()
    failed.set_exception(KeyError("k"))
    value, sink = probe(actor_system, Source.future_source(failed))
    sink.expect_subscription_and_error(KeyError)
    with pytest.raises(KeyError):
        value.result(30)
    wrong = concurrent.futures.Future()
    wrong.set_result([1, 2])
    _, sink = probe(actor_system, Source.future_source(wrong))
    assert "to return a Source, got list" in str(sink.expect_subscription_and_error())


def test_a_source_that_never_comes_leaves_its_value_failed_when_cancelled(actor_system):
    value, sink = probe(actor_system, Source.future_source(concurrent.futures.Future()))
    sink.ensure_subscription().cancel()
    with pytest.raises(AbruptTermination, match="before its inner source was known"):
        value.result(30)


def test_lazy_source_is_made_at_the_first_demand_and_once(actor_system):
    made = []

    def make():
        made.append(1)
        return Source.range(3).map_materialized_value(lambda _: "mat")

    value, sink = probe(actor_system, Source.lazy_source(make))
    sink.ensure_subscription().expect_no_message("10ms")
    assert not made
    sink.request(2).expect_next_n([0, 1])
    assert value.result(30) == "mat"
    sink.request(5).expect_next(2)
    sink.expect_complete()
    assert made == [1]
    value, sink = probe(actor_system, Source.lazy_source(make))
    sink.ensure_subscription().cancel()
    with pytest.raises(AbruptTermination):
        value.result(30)
    assert made == [1]


def test_cancelling_reaches_the_inner_source(actor_system):
    closed = threading.Event()

    def generator():
        try:
            yield from range(100)
        finally:
            closed.set()

    with assert_all_stages_stopped(actor_system):
        _, sink = probe(actor_system, Source.lazy_source(lambda: Source.from_iterable(generator())))
        sink.request(1).expect_next(0)
        sink.cancel()
    assert closed.wait(30)


def test_maybe_is_decided_once(actor_system):
    handle, sink = probe(actor_system, Source.maybe())
    assert handle.succeed("yes") is True
    assert handle.complete() is False
    assert handle.fail(ValueError()) is False
    sink.ensure_subscription().expect_no_message("10ms")
    sink.request(1).expect_next("yes").expect_complete()

    handle, sink = probe(actor_system, Source.maybe())
    handle.complete()
    sink.expect_subscription_and_complete(signal_demand=False)

    handle, sink = probe(actor_system, Source.maybe())
    handle.fail(KeyError("no"))
    sink.expect_subscription_and_error(KeyError, signal_demand=False)

    with assert_all_stages_stopped(actor_system):
        handle, sink = probe(actor_system, Source.maybe())
        sink.ensure_subscription().cancel()
    assert handle.decided
    assert handle.succeed("late") is False
