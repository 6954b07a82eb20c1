"""Partitioned sources on the real broker: a source per assigned partition."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Flow, Keep, Sink
from streamactors.errors import BuildError
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    DrainingControl,
    Subscriptions,
    TopicPartition,
)
from tests.kafka._members import with_assignor
from tests.kafka._partitioned import merged


def test_each_partition_has_a_source_of_its_records_in_order(settings, topic_with, system, committed):
    topic = topic_with("each", [b"%d" % i for i in range(4_000)], 4)
    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic), until="end")

    def tagged(pair):
        partition, records = pair
        return records.map(lambda record: (partition, record.partition, record.offset))

    control, done = source.flat_map_merge(4, tagged).to_mat(Sink.to_list(), Keep.both).run(system)
    rows = done.result(60)
    assert len(rows) == 4_000
    for number in range(4):
        mine = [row for row in rows if row[0] == TopicPartition(topic, number)]
        assert [offset for _, _, offset in mine] == list(range(1_000))
        assert {partition for _, partition, _ in mine} == {number}
    control.is_shutdown.result(60)
    assert committed(topic, 4) == dict.fromkeys(range(4), 1_000)


def test_a_plain_partitioned_source_commits_nothing(settings, topic_with, system, committed):
    topic = topic_with("plain", [b"x"] * 10, 2)
    source = Consumer.plain_partitioned_source(settings, Subscriptions.topics(topic), until="end")
    assert len(merged(source).run_with(Sink.to_list(), system).result(60)) == 10
    assert committed(topic, 2) == {0: -1001, 1: -1001}


def test_a_bounded_read_with_fewer_places_than_partitions_ends(settings, topic_with, system):
    topic = topic_with("breadth", [b"x"] * 70, 7)
    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic), until="end")
    assert len(merged(source, breadth=2).run_with(Sink.to_list(), system).result(60)) == 70


def test_an_empty_topic_ends_with_a_source_for_each_partition(settings, topic_with, system):
    topic = topic_with("nothing", [], 3)
    keys = []
    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic), until="end")
    done = source.flat_map_merge(3, lambda p: keys.append(p[0]) or p[1]).run_with(Sink.to_list(), system)
    assert done.result(60) == []
    assert sorted(keys) == [TopicPartition(topic, number) for number in range(3)]


def test_K_7_a_partition_whose_sink_is_behind_does_not_hold_the_commits_of_another(
    settings, topic_with, system, committed, wait_for
):
    topic = topic_with("behind", [b"%d" % i for i in range(40)], 2)
    go = threading.Event()

    def work(record):
        if record.partition == 0:
            go.wait(60)
        return record

    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic))
    part = Flow.map_async(4, lambda record: _in_thread(work, record))
    control = merged(source, through=part).to_mat(Sink.ignore(), DrainingControl.create).run(system)
    wait_for(lambda: committed(topic, 2)[1] == 20, 60)
    assert committed(topic, 2)[0] <= 0
    go.set()
    wait_for(lambda: committed(topic, 2)[0] == 20, 60)
    control.drain_and_shutdown(timeout=60)


def _in_thread(work, argument):
    future = Future()

    def run():
        future.set_result(work(argument))

    threading.Thread(target=run, daemon=True).start()
    return future


def test_a_sink_inside_a_partitions_flow_counts_for_that_partition_alone(
    settings, topic_with, system, committed, wait_for
):
    topic = topic_with("inner", [b"%d" % i for i in range(40)], 2)
    go = threading.Event()
    seen = []

    def audit(record):
        if record.partition == 1:
            go.wait(60)
        seen.append(record.partition)

    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic))
    graph = source.flat_map_merge(
        2, lambda pair: pair[1].also_to(Flow.identity().async_boundary().to(Sink.foreach(audit)))
    )
    control = graph.to_mat(Sink.ignore(), DrainingControl.create).run(system)
    wait_for(lambda: committed(topic, 2)[0] == 20, 60)
    assert committed(topic, 2)[1] <= 0
    go.set()
    wait_for(lambda: committed(topic, 2)[1] == 20, 60)
    control.drain_and_shutdown(timeout=60)
    assert sorted(seen) == [0] * 20 + [1] * 20


def test_K_11_a_source_that_is_run_apart_answers_to_the_sinks_of_that_run(
    settings, topic_with, system, committed, wait_for
):
    topic = topic_with("apart", [b"%d" % i for i in range(60)], 3)
    reached, go = threading.Semaphore(0), threading.Event()

    def store(record):
        if record.offset == 10:
            reached.release()
            go.wait(60)

    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic))
    control = (
        source.map_async(3, lambda pair: pair[1].run_with(Sink.foreach(store), system))
        .to_mat(Sink.ignore(), DrainingControl.create)
        .run(system)
    )
    for _ in range(3):
        assert reached.acquire(timeout=60)
    assert all(offset <= 10 for offset in committed(topic, 3).values()), "what is not done is not committed"
    go.set()
    wait_for(lambda: committed(topic, 3) == dict.fromkeys(range(3), 20), 60)
    control.drain_and_shutdown(timeout=60)


def test_committable_sources_of_partitions_commit_through_a_committer(
    settings, topic_with, system, committed, wait_for
):
    topic = topic_with("hand", [b"%d" % i for i in range(300)], 3)
    source = Consumer.committable_partitioned_source(settings, Subscriptions.topics(topic), until="end")
    committer = Committer.sink(CommitterSettings(max_interval_ms=50), offset=lambda message: message.offset)
    control, done = (
        merged(source, through=Flow.filter(lambda message: message.record.offset % 3))
        .to_mat(committer, Keep.both)
        .run(system)
    )
    done.result(60)
    control.is_shutdown.result(60)
    assert committed(topic, 3) == dict.fromkeys(range(3), 100), "filtered records are done, too"


def test_40_partitions_without_demand_are_paused_and_resumed_by_it(settings, topic_with, system, wait_for):
    topic = topic_with("demand", [bytes(500)] * 10_000, 2)
    tight = replace(settings, high_bytes=300_000, low_bytes=100_000, max_buffered_bytes=2_000_000, pause_dwell_ms=0)
    go = threading.Event()

    def hold(record):
        if record.partition == 0:
            go.wait(60)
        return record

    source = Consumer.plain_partitioned_source(tight, Subscriptions.topics(topic), until="end")
    control, done = (
        source.flat_map_merge(2, lambda pair: pair[1].async_boundary().map(hold).async_boundary())
        .to_mat(Sink.to_list(), Keep.both)
        .run(system)
    )
    wait_for(lambda: control.snapshot()["partitions"].get(f"{topic}-0", {}).get("paused"), 60)
    wait_for(lambda: control.snapshot()["partitions"][f"{topic}-1"]["position"] == 5_000, 60)
    go.set()
    assert len(done.result(60)) == 10_000
    assert control.is_shutdown.result(60) is None


def test_41_a_revoked_partitions_source_completes_and_the_others_go_on(settings, topic_with, system, wait_for):
    topic = topic_with("revoked", [b"%d" % i for i in range(200)], 2)
    eager = with_assignor(settings, "cooperative-sticky")
    ended, began = [], []

    def part(pair):
        key, records = pair
        began.append(key.partition)
        return records.watch_termination(
            lambda value, done: done.add_done_callback(lambda _: ended.append(key.partition))
        )

    source = Consumer.partitioned_source(eager, Subscriptions.topics(topic)).flat_map_merge(8, part)
    first = source.to_mat(Sink.ignore(), DrainingControl.create).run(system)
    wait_for(lambda: len(began) == 2, 60)
    other = (
        Consumer.source(eager, Subscriptions.topics(topic)).to_mat(Sink.ignore(), DrainingControl.create).run(system)
    )
    wait_for(lambda: len(ended) == 1, 60)
    gone = ended[0]
    assert len(first.snapshot()["partitions"]) == 1
    other.drain_and_shutdown(timeout=60)
    wait_for(lambda: began.count(gone) == 2, 60)
    assert ended == [gone], "the other partition's source has gone on"
    first.drain_and_shutdown(timeout=60)
    assert sorted(ended) == sorted([gone, 0, 1])


def test_41_a_partition_given_back_within_the_window_keeps_its_source(settings, topic_with, system, wait_for):
    topic = topic_with("eager", [b"%d" % i for i in range(400)], 4)
    eager = with_assignor(replace(settings, wait_close_partition_ms=20_000), "range")
    lock, began, seen = threading.Lock(), [], set()

    def part(pair):
        began.append(pair[0].partition)
        return pair[1]

    def note(record):
        with lock:
            seen.add((record.partition, record.value))

    graph = Consumer.partitioned_source(eager, Subscriptions.topics(topic)).flat_map_merge(8, part)
    first = graph.to_mat(Sink.foreach(note), DrainingControl.create).run(system)
    wait_for(lambda: len(seen) == 400, 60)
    other = (
        Consumer.source(eager, Subscriptions.topics(topic))
        .to_mat(Sink.foreach(note), DrainingControl.create)
        .run(system)
    )
    wait_for(lambda: len(other.snapshot()["partitions"]) == 2 and len(first.snapshot()["partitions"]) == 2, 60)
    assert sorted(began) == [0, 1, 2, 3], "all were revoked, and two of them given back at once"
    producer = BareProducer({"bootstrap.servers": settings.bootstrap_servers})
    for i in range(400, 408):
        producer.produce(topic, b"%d" % i, partition=i % 4)
    producer.flush(10)
    wait_for(lambda: len(seen) == 408, 60)
    other.drain_and_shutdown(timeout=60)
    first.drain_and_shutdown(timeout=60)


def test_42_take_on_sub_sources_again_and_again_leaves_no_gap(settings, topic_with, system, committed):
    topic = topic_with("take", [b"%d" % i for i in range(500)], 2)
    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic))
    control, done = (
        source.flat_map_merge(2, lambda pair: pair[1].take(10))
        .take(500)
        .map(lambda record: (record.partition, record.offset))
        .to_mat(Sink.to_list(), Keep.both)
        .run(system)
    )
    rows = done.result(60)
    for partition in (0, 1):
        assert [offset for number, offset in rows if number == partition] == list(range(250))
    control.is_shutdown.result(60)
    assert all(offset <= 250 for offset in committed(topic, 2).values())


def test_stopping_completes_every_partitions_source_and_commits(settings, topic_with, system, committed, wait_for):
    topic = topic_with("stopping", [b"%d" % i for i in range(2_000)], 2)
    seen = []
    control = (
        merged(Consumer.partitioned_source(settings, Subscriptions.topics(topic)))
        .to_mat(Sink.foreach(lambda r: seen.append((r.partition, r.offset))), DrainingControl.create)
        .run(system)
    )
    wait_for(lambda: {number for number, _ in list(seen)} == {0, 1}, 60)
    control.drain_and_shutdown(timeout=60)
    for partition in (0, 1):
        assert committed(topic, 2)[partition] == 1 + max(offset for number, offset in seen if number == partition)


def test_a_partitions_source_can_be_run_once(settings, topic_with, system):
    topic = topic_with("once", [b"x"], 1)
    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic), until="end")
    twice = source.flat_map_merge(4, lambda pair: pair[1].merge(pair[1]))
    error = twice.run_with(Sink.ignore(), system).exception(60)
    assert isinstance(error, BuildError)
    assert "once-0" in str(error)


def test_K_13_a_flow_inside_that_hides_its_elements_is_an_error_that_names_it(settings, topic_with, system):
    import reactivex.operators as rx

    topic = topic_with("hidden", [b"x"], 1)
    source = Consumer.partitioned_source(settings, Subscriptions.topics(topic))
    error = merged(source, through=Flow.rx(rx.group_by(len))).run_with(Sink.ignore(), system).exception(60)
    assert isinstance(error, BuildError)
    assert "holds=False" in str(error)


def test_K_13_sources_sent_several_ways_before_they_are_opened_are_refused(settings):
    source = Consumer.partitioned_source(settings, Subscriptions.topics("x"))
    split = source.divert_to(Sink.ignore(), lambda pair: pair[0].partition > 3)
    with pytest.raises(BuildError, match=r"'divert_to' splits these sources.*after flat_map_merge"):
        merged(split).run_with(Sink.ignore())
    tapped = source.wire_tap(Sink.ignore())
    assert merged(tapped).to(Sink.ignore()).to_mermaid(), "a tap is no way for marks"


def test_what_is_asked_wrongly_is_told_at_once(settings):
    topics = Subscriptions.topics("x")
    with pytest.raises(BuildError, match="needs a group_id"):
        Consumer.partitioned_source(settings.with_group_id(None), topics)
    with pytest.raises(BuildError, match="get_offsets_on_assign expects a function"):
        Consumer.plain_partitioned_manual_offset_source(settings, topics, {("x", 0): 1})
    with pytest.raises(BuildError, match="on_revoke expects"):
        Consumer.plain_partitioned_manual_offset_source(settings, topics, lambda _: {}, 5)
