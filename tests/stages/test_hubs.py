"""MergeHub, BroadcastHub, PartitionHub: streams that join and leave a running stream; nothing is lost, nothing comes twice."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, BroadcastHub, Keep, MergeHub, PartitionHub, Sink, Source, VirtualClock
from streamactors.engine.island.run import runs_of
from streamactors.errors import BuildError
from streamactors.stages.hubs.broadcast_hub import Exchange
from streamactors.testing import TestSink, TestSource
from tests.actors.eventually import eventually

LAW = settings(max_examples=25)


@pytest.fixture(scope="module")
def system():
    with ActorSystem("hubs", clock=VirtualClock()) as system:
        yield system


def probed(source, system):
    return source.run_with(TestSink.probe(), system)


# ── MergeHub ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=5), buffer=st.integers(1, 40))
@LAW
def test_a_merge_hub_emits_the_elements_of_all_producers_each_in_order(system, sizes, buffer):
    (sink, control), result = MergeHub.source_with_draining(buffer).to_mat(Sink.to_list(), Keep.both).run(system)
    ends = [
        Source.range(size).map(lambda i, name=name: (name, i)).run_with(sink, system) for name, size in enumerate(sizes)
    ]
    for end in ends:
        end.result(10)
    control.drain_and_complete()
    found = result.result(10)
    for name, size in enumerate(sizes):
        assert [i for who, i in found if who == name] == list(range(size))
    assert len(found) == sum(sizes)


def test_a_producer_waits_when_its_buffer_is_full_and_the_others_do_not(system):
    sink, out = MergeHub.source(2).to_mat(TestSink.probe(), Keep.both).run(system)
    first = TestSource.probe().to(sink).run(system)
    second = TestSource.probe().to(sink).run(system)
    first.send_next(1)
    first.send_next(2)
    system.clock.settle()
    assert first.pending == 0
    second.send_next(3)
    out.request(2)
    assert out.expect_next_n(2) == [1, 2]
    out.request(1)
    out.expect_next(3)
    out.cancel()
    first.expect_cancellation()
    second.expect_cancellation()


def test_a_failing_producer_does_not_fail_the_hub_and_its_own_future_fails(system):
    sink, out = MergeHub.source().to_mat(TestSink.probe(), Keep.both).run(system)
    failing = Source.failed(ValueError("mine")).run_with(sink, system)
    with pytest.raises(ValueError, match="mine"):
        failing.result(30)
    assert Source.single(1).run_with(sink, system).done() is False
    out.request(1)
    out.expect_next(1)
    out.cancel()


def test_a_stream_that_is_run_into_a_hub_that_has_ended_is_cancelled(system):
    sink, out = MergeHub.source().to_mat(TestSink.probe(), Keep.both).run(system)
    out.cancel()
    late = TestSource.probe().to(sink).run(system)
    late.expect_cancellation()


def test_the_future_of_a_producer_ends_when_the_hub_has_emitted_its_last_element(system):
    sink, out = MergeHub.source().to_mat(TestSink.probe(), Keep.both).run(system)
    ended = Source.range(3).run_with(sink, system)
    out.request(2)
    out.expect_next_n(2)
    assert not ended.done()
    out.request(1)
    out.expect_next(2)
    assert ended.result(30) is None
    out.cancel()


def test_a_hundred_producers_on_two_systems(system):
    with ActorSystem("other") as other:
        (sink, control), count = (
            MergeHub.source_with_draining(16).to_mat(Sink.fold(Counter(), _counted), Keep.both).run(system)
        )
        ends = [Source.range(50).run_with(sink, (system, other)[i % 2]) for i in range(100)]
        for end in ends:
            end.result(20)
        control.drain_and_complete()
        assert count.result(20) == dict.fromkeys(range(50), 100)


def _counted(counter, x):
    counter[x] += 1
    return counter


# ── BroadcastHub ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    n=st.integers(0, 400), consumers=st.integers(1, 5), buffer=st.integers(1, 40), chunk=st.sampled_from([None, 1, 7])
)
@LAW
def test_every_consumer_gets_every_element_in_order(system, n, consumers, buffer, chunk):
    start = Source.range(n) if chunk is None else Source.range(n).max_chunk(chunk)
    source = start.run_with(BroadcastHub.sink(buffer, start_after=consumers), system)
    results = [source.run_with(Sink.to_list(), system) for _ in range(consumers)]
    assert [result.result(10) for result in results] == [list(range(n))] * consumers


def test_the_slowest_consumer_sets_the_pace_and_the_others_speed_up_when_it_leaves(system):
    probe, source = TestSource.probe().to_mat(BroadcastHub.sink(4, start_after=2), Keep.both).run(system)
    quick, slow = probed(source, system), probed(source, system)
    quick.request(100)
    slow.request(1)
    for i in range(4):
        probe.send_next(i)
    assert quick.expect_next_n(4) == [0, 1, 2, 3]
    slow.expect_next(0)
    system.clock.settle()
    assert probe.pending == 0
    slow.cancel()
    for i in range(4, 20):
        probe.send_next(i)
    assert quick.expect_next_n(16) == list(range(4, 20))
    probe.send_complete()
    quick.expect_complete()


def test_a_late_consumer_sees_only_what_comes_after_it_has_joined(system):
    probe, source = TestSource.probe().to_mat(BroadcastHub.sink(8), Keep.both).run(system)
    first = probed(source, system)
    first.request(100)
    probe.send_next(1)
    first.expect_next(1)
    second = probed(source, system)
    second.request(100)
    system.clock.settle()
    probe.send_next(2)
    second.expect_next(2)
    first.expect_next(2)
    probe.send_complete()
    first.expect_complete()
    second.expect_complete()


def test_without_consumers_elements_wait(system):
    probe, source = TestSource.probe().to_mat(BroadcastHub.sink(4), Keep.both).run(system)
    system.clock.settle()
    assert probe.pending == 0
    first = probed(source, system)
    first.request(1)
    probe.send_next(1)
    first.expect_next(1)
    probe.send_next(2)
    first.cancel()
    second = probed(source, system)
    second.request(5)
    second.expect_next(2)
    probe.send_complete()
    second.expect_complete()


def test_after_the_end_consumers_complete_and_after_a_failure_they_fail(system):
    done = Source.empty().run_with(BroadcastHub.sink(), system)
    assert done.run_with(Sink.to_list(), system).result(30) == []
    probe, source = TestSource.probe().to_mat(BroadcastHub.sink(), Keep.both).run(system)
    early = probed(source, system)
    early.request(1)
    probe.expect_request()
    probe.send_error(ValueError("gone"))
    assert str(early.expect_error()) == "gone"
    with pytest.raises(ValueError, match="gone"):
        source.run_with(Sink.ignore(), system).result(30)


def test_a_hundred_consumers_that_come_and_go_get_runs_of_the_stream_without_gaps(system):
    source = Source.range(20_000).run_with(BroadcastHub.sink(64, start_after=100), system)
    results = [source.take(50 * i if i % 2 else 20_000).run_with(Sink.to_list(), system) for i in range(1, 101)]
    for i, result in enumerate(results, 1):
        assert result.result(60) == list(range(50 * i if i % 2 else 20_000))


def test_a_chunk_that_comes_while_a_consumer_takes_the_last_one_is_not_forgotten(system, monkeypatch):
    probe, source = TestSource.probe().to_mat(BroadcastHub.sink(8), Keep.both).run(system)
    out = probed(source, system)
    moved, put_chunk, put = Exchange.moved, Exchange.put, threading.Event()

    def put_and_tell(exchange, chunk):
        put_chunk(exchange, chunk)
        if chunk == [2]:
            put.set()

    def moved_late(exchange, consumer, n):  # between the consumer's look at the list and its waiting
        monkeypatch.setattr(Exchange, "moved", moved)
        probe.send_next(2)
        assert put.wait(10)
        moved(exchange, consumer, n)

    monkeypatch.setattr(Exchange, "moved", moved_late)
    monkeypatch.setattr(Exchange, "put", put_and_tell)
    out.request(5)
    probe.send_next(1)
    assert out.expect_next_n(2) == [1, 2]
    probe.send_complete()
    out.expect_complete()


# ── PartitionHub ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(n=st.integers(0, 400), consumers=st.integers(1, 5), buffer=st.integers(1, 40))
@LAW
def test_each_element_goes_to_the_consumer_of_its_index(system, n, consumers, buffer):
    hub = PartitionHub.sink(lambda size, x: x % size, start_after=consumers, buffer=buffer)
    source = Source.range(n).run_with(hub, system)
    results = [source.run_with(Sink.to_list(), system).result for _ in range(consumers)]
    found = sorted(result(10) for result in results)
    assert found == sorted([x for x in range(n) if x % consumers == i] for i in range(consumers))


def test_a_route_sees_queue_sizes_and_a_negative_number_drops(system):
    def make():
        def route(info, x):
            return -1 if x == 3 else min(info.consumer_ids, key=info.queue_size)

        return route

    hub = PartitionHub.stateful_sink(make, start_after=2)
    probe, source = TestSource.probe().to_mat(hub, Keep.both).run(system)
    slow, quick = probed(source, system), probed(source, system)
    for i in range(6):
        probe.send_next(i)
    probe.send_complete()
    for sink in (slow, quick):
        sink.request(10)
    got = [probe.to_strict() for probe in (slow, quick)]
    assert sorted(got[0] + got[1]) == [0, 1, 2, 4, 5]
    assert {len(got[0]), len(got[1])} == {2, 3}


def test_what_a_consumer_leaves_is_routed_again(system):
    hub = PartitionHub.sink(lambda size, x: 0, start_after=2)
    probe, source = TestSource.probe().to_mat(hub, Keep.both).run(system)
    first = probed(source, system)
    second = probed(source, system)
    for i in range(3):
        probe.send_next(i)
    first.request(1)
    got = first.expect_next()
    assert got == 0
    first.cancel()
    second.request(5)
    assert second.expect_next_n(2) == [1, 2]
    probe.send_complete()
    second.expect_complete()


def test_what_a_consumer_of_a_completed_hub_leaves_is_dropped_and_told(system, caplog):
    probe, source = TestSource.probe().to_mat(PartitionHub.sink(lambda size, x: 0), Keep.both).run(system)
    consumer = probed(source, system)
    consumer.request(1)
    probe.send_next(0)
    assert consumer.expect_next() == 0
    for i in (1, 2):
        probe.send_next(i)
    probe.send_complete()
    consumer.cancel()
    eventually(lambda: "a consumer of a completed PartitionHub has cancelled: 2 elements" in caplog.text)


def test_an_index_too_large_fails_all_and_names_the_element(system):
    source = Source.range(3).run_with(PartitionHub.sink(lambda size, x: size), system)
    with pytest.raises(IndexError, match="returned 1 for 1 consumers") as caught:
        source.run_with(Sink.ignore(), system).result(30)
    assert any("element 0" in note for note in caught.value.__notes__)


# ── in general ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_wrong_arguments_are_named_at_the_line(system):
    for make in (lambda: MergeHub.source(0), lambda: BroadcastHub.sink(0), lambda: PartitionHub.sink(3)):
        with pytest.raises(BuildError):
            make()


def test_a_run_that_reads_marks_refuses_a_hub(system):
    sink, out = MergeHub.source().to_mat(TestSink.probe(), Keep.both).run(system)
    with pytest.raises(BuildError, match="another run"):
        Source.range(3).with_replay(0, on_done=print).run_with(sink, system)
    out.cancel()


def test_hubs_leave_no_runs_behind():
    with ActorSystem("passing") as system:
        for _ in range(200):
            sink, out = MergeHub.source().take(3).to_mat(Sink.to_list(), Keep.both).run(system)
            Source.range(3).run_with(sink, system).result(30)
            assert out.result(30) == [0, 1, 2]
            source = Source.range(3).run_with(BroadcastHub.sink(), system)
            assert source.run_with(Sink.count(), system).result(30) == 3
        left = threading.Event()
        for _ in range(100):
            if not runs_of(system):
                break
            left.wait(0.01)
        assert not runs_of(system)
