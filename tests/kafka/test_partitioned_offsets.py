"""A source per partition whose offsets are kept elsewhere: looked up before the first record, told of what is taken away."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace

from streamactors import Sink
from streamactors.kafka import (
    Consumer,
    DrainingControl,
    Subscriptions,
    TopicPartition,
)
from streamactors.kafka.errors import ConsumerFailed
from tests.kafka._members import with_assignor
from tests.kafka._partitioned import merged


def test_43_manual_offsets_are_sought_before_the_first_record(settings, topic_with, system):
    topic = topic_with("manual", [b"%d" % i for i in range(300)], 3)

    def look_up(partitions):
        assert partitions == {TopicPartition(topic, number) for number in range(3)}
        return {(topic, 0): 95, TopicPartition(topic, 1): 100}

    source = Consumer.plain_partitioned_manual_offset_source(
        settings, Subscriptions.topics(topic), look_up, until="end"
    )
    rows = merged(source).map(lambda r: (r.partition, r.offset)).run_with(Sink.to_list(), system).result(60)
    assert [offset for partition, offset in rows if partition == 0] == [95, 96, 97, 98, 99]
    assert [offset for partition, offset in rows if partition == 1] == []
    assert [offset for partition, offset in rows if partition == 2] == list(range(100)), (
        "what is not named begins as ever"
    )


def test_43_while_offsets_are_looked_up_nothing_is_delivered(settings, topic_with, system, wait_for):
    topic = topic_with("lookup", [bytes(1_000)] * 600, 2)
    tight = replace(settings, high_bytes=100_000, low_bytes=50_000, pause_dwell_ms=0)
    answer, seen, revoked = Future(), [], []
    source = Consumer.plain_partitioned_manual_offset_source(
        tight, Subscriptions.topics(topic), lambda _: answer, revoked.append
    )
    control = merged(source).to_mat(Sink.foreach(lambda r: seen.append(r.offset)), DrainingControl.create).run(system)
    wait_for(lambda: [p["paused"] for p in control.snapshot()["partitions"].values()] == [True, True], 60)
    assert seen == []
    answer.set_result({(topic, 0): 290, (topic, 1): 299})
    wait_for(lambda: len(seen) == 11, 60)
    assert sorted(seen) == [290, 291, 292, 293, 294, 295, 296, 297, 298, 299, 299]
    control.drain_and_shutdown(timeout=60)


async def _coroutine(partitions):
    return dict.fromkeys(partitions, 8)


def test_43_a_coroutine_may_look_up_the_offsets(settings, topic_with, system):
    topic = topic_with("coroutine", [b"x"] * 20, 2)
    source = Consumer.plain_partitioned_manual_offset_source(
        settings, Subscriptions.topics(topic), _coroutine, until="end"
    )
    rows = merged(source).map(lambda r: r.offset).run_with(Sink.to_list(), system).result(60)
    assert sorted(rows) == [8, 8, 9, 9]


def test_43_a_failed_or_foolish_look_up_fails_the_stream(settings, topic_with, system):
    topic = topic_with("foolish", [b"x"], 1)

    def run(look_up):
        source = Consumer.plain_partitioned_manual_offset_source(settings, Subscriptions.topics(topic), look_up)
        return merged(source).run_with(Sink.ignore(), system).exception(60)

    lost = LookupError("the table is gone")

    def raises(_):
        raise lost

    assert run(raises) is lost
    failed = Future()
    failed.set_exception(lost)
    assert run(lambda _: failed) is lost
    for answer in (None, {(topic, 0): -3}, {(topic, 0): "5"}, {topic: 5}):
        error = run(lambda _, answer=answer: answer)
        assert isinstance(error, ConsumerFailed)
        assert "get_offsets_on_assign" in str(error)


def test_43_on_revoke_hears_of_the_partitions_taken_away(settings, topic_with, system, wait_for):
    topic = topic_with("hook", [b"x"] * 20, 2)
    quick = with_assignor(replace(settings, wait_close_partition_ms=0), "cooperative-sticky")
    revoked = []
    source = Consumer.plain_partitioned_manual_offset_source(
        quick, Subscriptions.topics(topic), lambda _: {}, revoked.append
    )
    control = merged(source).to_mat(Sink.ignore(), DrainingControl.create).run(system)
    wait_for(lambda: len(control.snapshot()["partitions"]) == 2, 60)
    other = (
        Consumer.source(quick, Subscriptions.topics(topic)).to_mat(Sink.ignore(), DrainingControl.create).run(system)
    )
    wait_for(lambda: revoked, 60)
    left = {TopicPartition(*key.rsplit("-", 1)[:1], int(key[-1])) for key in control.snapshot()["partitions"]}
    assert revoked == [{TopicPartition(topic, number) for number in (0, 1)} - left]
    other.drain_and_shutdown(timeout=60)
    control.drain_and_shutdown(timeout=60)


def test_what_lies_ready_for_a_slow_sub_source_is_bounded_by_bytes(settings, topic_with, system, wait_for):
    # a share of flat_map_merge's demand is small, and records are asked ahead of it: 2,048 of them, whatever their size
    topic = topic_with("large", [bytes(100_000)] * 200)
    tight = replace(settings, high_bytes=500_000, low_bytes=250_000, max_buffered_bytes=1_000_000, pause_dwell_ms=0)
    go, taken = threading.Event(), []

    def hold(record):
        taken.append(record.offset)
        go.wait(60)

    source = Consumer.plain_partitioned_source(tight, Subscriptions.topics(topic))
    control = merged(source).max_chunk(1).to_mat(Sink.foreach(hold), DrainingControl.create).run(system)
    name = f"{topic}-0"
    wait_for(lambda: control.snapshot()["partitions"].get(name, {}).get("paused_by") == "back-pressure", 60)
    assert control.snapshot()["partitions"][name]["position"] < 100
    go.set()
    wait_for(lambda: len(taken) == 200, 60)
    assert taken == list(range(200))
    control.drain_and_shutdown(timeout=60)
