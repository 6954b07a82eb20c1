"""Queues that feed a stream, and queues that drain one."""

from __future__ import annotations

import asyncio
import threading

import pytest

from streamactors import Flow, Keep, OverflowStrategy, Sink, Source
from streamactors.errors import AbruptTermination, BufferOverflow, NoSuchElement
from streamactors.stages.sources.queue_results import (
    DROPPED,
    ENQUEUED,
    QUEUE_CLOSED,
    Dropped,
    Enqueued,
    Failure,
    QueueClosed,
)
from streamactors.testing import TestSink, TestSource, assert_all_stages_stopped

pytestmark = pytest.mark.usefixtures("virtual_clock")  # silence costs no time, and means that all is at rest


def bounded(system, size):
    return Source.queue(size).to_mat(TestSink.probe(), Keep.both).run(system)


def backpressured(system, size, offers=1):
    return Source.queue_with_backpressure(size, offers).to_mat(TestSink.probe(), Keep.both).run(system)


def test_39_a_bounded_queue_enqueues_then_drops_then_is_closed(actor_system):
    queue, sink = bounded(actor_system, 2)
    sink.ensure_subscription()
    assert [queue.offer(x) for x in "abc"] == [ENQUEUED, ENQUEUED, DROPPED]
    assert queue.size() == len(queue) == 2
    queue.complete()
    assert queue.offer("d") is QUEUE_CLOSED
    sink.request(5).expect_next("a", "b").expect_complete()
    assert queue.offer("e") is QUEUE_CLOSED
    assert queue.watch_completion().result(30) is None


@pytest.mark.parametrize(
    ("overflow", "answer", "kept"),
    [
        ("drop_head", ENQUEUED, "bc"),
        ("drop_tail", ENQUEUED, "ac"),
        ("drop_buffer", ENQUEUED, "c"),
        ("drop_new", DROPPED, "ab"),
        (OverflowStrategy.drop_head, ENQUEUED, "bc"),
    ],
)
def test_a_full_queue_drops_what_its_strategy_says(actor_system, overflow, answer, kept):
    queue, sink = Source.queue(2, overflow).to_mat(TestSink.probe(), Keep.both).run(actor_system)
    assert [queue.offer(x) for x in "abc"] == [ENQUEUED, ENQUEUED, answer]
    queue.complete()
    sink.request(5).expect_next_n(list(kept))
    sink.expect_complete()


def test_a_full_queue_may_fail_its_stream(actor_system):
    queue, sink = Source.queue(2, "fail").to_mat(TestSink.probe(), Keep.both).run(actor_system)
    sink.ensure_subscription()
    *_, refused = [queue.offer(x) for x in "abc"]
    error = sink.expect_error(BufferOverflow)
    assert refused == queue.offer("d") == Failure(error)
    assert "2 elements are kept" in str(error)


def test_an_offers_result_is_true_only_when_the_element_is_in(actor_system):
    queue, sink = bounded(actor_system, 1)
    assert queue.offer("a")
    assert not queue.offer("b")
    assert [Enqueued() == ENQUEUED, Dropped() == DROPPED, QueueClosed() == DROPPED] == [True, True, False]
    assert repr(queue.offer("c")) == "Dropped()"
    queue.complete()
    assert not queue.offer("d")
    sink.cancel()


def test_room_comes_back_as_elements_are_taken(actor_system, virtual_clock):
    queue, sink = bounded(actor_system, 2)
    assert [queue.offer(x) for x in range(3)] == [ENQUEUED, ENQUEUED, DROPPED]
    sink.request(1).expect_next(0)
    assert [queue.offer(x) for x in range(3, 5)] == [ENQUEUED, DROPPED]
    sink.request(5).expect_next(1, 3)
    queue.complete()
    sink.expect_complete()


def test_failing_a_queue_overtakes_what_it_holds(actor_system):
    queue, sink = bounded(actor_system, 5)
    queue.offer(1)
    error = ValueError("broken")
    queue.fail(error)
    assert sink.expect_subscription_and_error(signal_demand=False) is error
    assert queue.offer(2) == Failure(error)
    assert queue.is_completed
    with pytest.raises(ValueError, match="broken"):
        queue.watch_completion().result(30)


def test_after_a_cancellation_offers_are_refused(actor_system):
    with assert_all_stages_stopped(actor_system):
        queue, sink = bounded(actor_system, 5)
        sink.ensure_subscription().cancel()
    assert queue.offer(1) is QUEUE_CLOSED
    queue.complete()
    queue.fail(ValueError())
    assert queue.watch_completion().result(30) is None


def test_many_threads_lose_and_repeat_nothing(actor_system):
    queue, result = Source.queue(64).to_mat(Sink.to_list(), Keep.both).run(actor_system)

    def offer_all(first):
        for x in range(first, first + 500):
            while queue.offer(x) is DROPPED:
                pass

    threads = [threading.Thread(target=offer_all, args=(i * 500,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.complete()
    got = result.result(10)
    assert sorted(got) == list(range(2000))
    for i in range(4):
        own = [x for x in got if i * 500 <= x < (i + 1) * 500]
        assert own == sorted(own)


def test_an_offer_that_is_cancelled_while_it_waits_is_withdrawn(actor_system):
    # 1,000 offers whose requests had timed out were all written
    queue, sink = backpressured(actor_system, 1, offers=2)
    sink.ensure_subscription()
    assert queue.offer("a").result(30) is ENQUEUED
    given_up, kept = queue.offer("b"), queue.offer("c")
    assert given_up.cancel()
    assert given_up.cancelled()
    last = queue.offer("d")  # the place of the one that was given up
    sink.request(3).expect_next("a", "c", "d")
    assert (kept.result(30), last.result(30)) == (ENQUEUED, ENQUEUED)
    assert not kept.cancel()
    queue.complete()
    sink.expect_complete()


def test_a_timeout_around_an_offer_withdraws_it_and_an_offer_with_room_is_never_lost(actor_system):
    async def run() -> None:
        queue, sink = backpressured(actor_system, 1, offers=1_000)

        async def offer(x: int) -> bool:
            try:
                async with asyncio.timeout(0.01):
                    await queue.offer(x)
            except TimeoutError:
                return False
            return True

        accepted = await asyncio.gather(*(offer(x) for x in range(200)))
        assert accepted == [True] + [False] * 199
        queue.complete()
        sink.request(200).expect_next(0).expect_complete()

    asyncio.run(run())


def test_a_cancelled_task_whose_offer_has_room_has_offered(actor_system):
    async def run() -> None:
        queue, sink = backpressured(actor_system, 1)
        done = []

        async def offer() -> None:
            done.append(await queue.offer("a"))  # does not suspend, as asyncio.Queue.put does not

        task = asyncio.create_task(offer())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert done == [ENQUEUED]
        queue.complete()
        sink.request(1).expect_next("a").expect_complete()

    asyncio.run(run())


def test_an_offer_waits_for_room(actor_system):
    queue, sink = backpressured(actor_system, 1, offers=1)
    sink.ensure_subscription()
    assert queue.offer("a").result(30) is ENQUEUED
    waiting = queue.offer("b")
    assert not waiting.done()
    with pytest.raises(BufferOverflow, match="raise max_concurrent_offers"):
        queue.offer("c").result(30)
    sink.request(1).expect_next("a")
    assert waiting.result(30) is ENQUEUED
    queue.complete()
    sink.request(2).expect_next("b").expect_complete()


def test_concurrent_offers_wait_in_their_order_unless_the_user_bounds_them(actor_system):
    # A web server that awaits an offer per request failed the second request that came meanwhile
    for make in (lambda: Source.queue_with_backpressure(4), lambda: Source.queue(4, "backpressure")):

        async def requests(make=make):
            queue, sink = make().to_mat(TestSink.probe(), Keep.both).run(actor_system)

            async def post(n):
                return await queue.offer(n)

            posts = [asyncio.ensure_future(post(n)) for n in range(60)]
            await asyncio.sleep(0)
            sink.request(60)
            assert await asyncio.gather(*posts) == [ENQUEUED] * 60
            queue.complete()
            sink.expect_next_n(list(range(60)))
            sink.expect_complete()

        asyncio.run(requests())


def test_offers_that_wait_are_bounded_though_the_user_sets_no_bound(actor_system):
    queue, sink = Source.queue_with_backpressure(2).to_mat(TestSink.probe(), Keep.both).run(actor_system)
    sink.ensure_subscription()
    offers = [queue.offer(n) for n in range(2 + 1_024 + 1)]
    assert [offer.done() for offer in offers].count(False) == 1_024
    with pytest.raises(BufferOverflow, match="1024 offers wait for room in the queue already; await an offer"):
        offers[-1].result(30)
    sink.cancel()
    assert [offer.result(30) for offer in offers[2:-1]] == [QUEUE_CLOSED] * 1_024


def test_completion_lets_the_waiting_offers_in_and_failure_refuses_them(actor_system):
    queue, sink = backpressured(actor_system, 1, offers=3)
    futures = [queue.offer(x) for x in "abc"]
    queue.complete()
    assert queue.offer("d").result(30) is QUEUE_CLOSED
    sink.request(5).expect_next(*"abc").expect_complete()
    assert [future.result(30) for future in futures] == [ENQUEUED] * 3

    queue, sink = backpressured(actor_system, 1, offers=3)
    futures = [queue.offer(x) for x in "ab"]
    error = ValueError("x")
    queue.fail(error)
    sink.expect_subscription_and_error(ValueError)
    assert [future.result(30) for future in futures] == [ENQUEUED, Failure(error)]

    queue, sink = backpressured(actor_system, 1, offers=3)
    futures = [queue.offer(x) for x in "ab"]
    sink.ensure_subscription().cancel()
    assert [future.result(30) for future in futures] == [ENQUEUED, QUEUE_CLOSED]


def test_the_end_of_the_system_fails_the_queue():
    from streamactors import ActorSystem

    with ActorSystem() as system:
        queue, sink = bounded(system, 2)
        sink.ensure_subscription()
    sink.expect_error(AbruptTermination)
    assert isinstance(queue.offer(1), Failure)


# ── to_queue ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pulls_are_answered_in_order_and_the_end_is_an_error_or_a_default(actor_system):
    queue = Source.from_iterable([1, None, 3]).run_with(Sink.to_queue(), actor_system)
    pulls = [queue.pull() for _ in range(4)]
    assert [pull.result(30) for pull in pulls[:3]] == [1, None, 3]
    with pytest.raises(NoSuchElement, match="the stream has ended"):
        pulls[3].result(30)
    assert queue.pull("nothing").result(30) == "nothing"
    assert queue.pull(default=None).result(30) is None


def test_a_queue_pulls_no_further_than_its_buffer(actor_system):
    source, queue = TestSource.probe().to_mat(Sink.to_queue(4), Keep.both).run(actor_system)
    assert source.expect_request() == 4
    source.send_next(0, 1, 2, 3).expect_no_message("20ms")
    first = queue.pull()
    assert first.result(30) == 0
    source.expect_no_message("20ms")
    assert [queue.pull().result(30) for _ in range(3)] == [1, 2, 3]
    waiting = queue.pull()
    assert source.expect_request() == 4
    source.send_next(4)
    assert waiting.result(30) == 4
    queue.cancel()
    source.expect_cancellation()


def test_the_streams_error_reaches_every_pull(actor_system):
    source, queue = TestSource.probe().to_mat(Sink.to_queue(), Keep.both).run(actor_system)
    pulls = [queue.pull(), queue.pull()]
    source.send_next("x").send_error(ValueError("broken"))
    assert pulls[0].result(30) == "x"
    with pytest.raises(ValueError, match="broken"):
        pulls[1].result(30)
    with pytest.raises(ValueError, match="broken"):
        queue.pull("default").result(30)


def test_cancelling_ends_open_pulls(actor_system):
    with assert_all_stages_stopped(actor_system):
        source, queue = TestSource.probe().to_mat(Sink.to_queue(), Keep.both).run(actor_system)
        pull = queue.pull(default="over")
        queue.cancel()
        source.expect_cancellation()
    assert pull.result(30) == "over"


def test_pulling_from_inside_a_stream_goes_on_without_waiting(actor_system):
    inner = Source.range(100).run_with(Sink.to_queue(), actor_system)
    flow = Flow.flat_map_concat(lambda _: Source.future(inner.pull()))
    assert Source.range(50).via(flow).run_with(Sink.to_list(), actor_system).result(30) == list(range(50))
    inner.cancel()
