"""Consumer.source and Consumer.plain_source on the real broker."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import reactivex
import reactivex.operators as rx
from confluent_kafka import Producer

from streamactors import Flow, Keep, Sink
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, ConsumerSettings, DrainingControl, Subscriptions
from streamactors.kafka.errors import ConsumerFailed, NoBroker, TopicNotFound


def test_a_bounded_read_gives_every_record_once_and_commits_the_end(settings, system, topic_with, committed):
    topic = topic_with("bounded", [b"%d" % i for i in range(3_000)], 3)
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    control, done = source.map(lambda record: int(record.value)).to_mat(Sink.to_list(), Keep.both).run(system)
    assert sorted(done.result(30)) == list(range(3_000))
    control.is_shutdown.result(30)
    assert committed(topic, 3) == {0: 1_000, 1: 1_000, 2: 1_000}


def test_an_empty_topic_ends_at_once(settings, system, topic_with):
    topic = topic_with("empty", [], 2)
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    assert source.run_with(Sink.to_list(), system).result(30) == []


def test_what_a_slow_sink_has_not_done_is_not_committed_and_comes_again(settings, system, topic_with, committed):
    topic = topic_with("slow", [b"%d" % i for i in range(100)])
    reached, go = threading.Event(), threading.Event()
    seen = []

    def store(record):
        if record.offset == 40:
            reached.set()
            go.wait(30)
            raise KeyError("the store is gone")
        seen.append(record.offset)

    control, done = (
        Consumer.source(settings, Subscriptions.topics(topic)).to_mat(Sink.foreach(store), Keep.both).run(system)
    )
    assert reached.wait(30)
    go.set()
    assert isinstance(done.exception(30), KeyError)
    control.is_shutdown.exception(30)
    assert committed(topic)[0] <= 40
    again = Consumer.source(settings, Subscriptions.topics(topic), until="end").map(lambda record: record.offset)
    rest = again.run_with(Sink.to_list(), system).result(30)
    assert set(seen) | set(rest) == set(range(100)), "nothing is lost"


def test_filtered_records_are_done_too(settings, system, topic_with, committed):
    topic = topic_with("filtered", [b"%d" % i for i in range(500)])
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    control, done = source.filter(lambda record: False).to_mat(Sink.ignore(), Keep.both).run(system)
    done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 500}


def test_an_rx_pipeline_that_holds_nothing_is_followed(settings, system, topic_with, committed):
    topic = topic_with("rx", [b"%d" % i for i in range(200)])
    pipeline = Flow.rx(rx.map(lambda record: int(record.value)), rx.filter(lambda x: x % 2))
    control, done = (
        Consumer.source(settings, Subscriptions.topics(topic), until="end")
        .via(pipeline)
        .to_mat(Sink.to_list(), Keep.both)
        .run(system)
    )
    assert done.result(30) == list(range(1, 200, 2))
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 200}


def test_a_pipeline_that_may_hold_records_is_refused_with_the_way_out(settings):
    held = Consumer.source(settings, Subscriptions.topics("x")).via(Flow.rx(rx.group_by(len)))
    with pytest.raises(BuildError, match=r"stage 'rx': rx\.group_by cannot be followed.*holds=False"):
        held.run_with(Sink.ignore())


HOLDING = {
    "debounce": rx.debounce(0.05),
    "sample": rx.sample(0.05),
    "buffer": rx.buffer_with_time_or_count(0.05, 30),
    "flat_map": rx.flat_map(lambda record: reactivex.timer(0.01).pipe(rx.map(lambda _: record))),
    "switch_latest": reactivex.compose(rx.map(reactivex.just), rx.switch_latest()),
}


@pytest.mark.parametrize("name", HOLDING)
def test_an_rx_pipeline_that_holds_records_commits_what_has_left_it(settings, system, topic_with, committed, name):
    topic = topic_with(f"rx-{name}", [b"%d" % i for i in range(200)])
    control, done = (
        Consumer.source(settings, Subscriptions.topics(topic), until="end")
        .via(Flow.rx(HOLDING[name]))
        .to_mat(Sink.to_list(), Keep.both)
        .run(system)
    )
    assert done.result(30)
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 200}


def test_draining_finishes_what_is_in_flight_and_commits_it(settings, system, topic_with, committed):
    topic = topic_with("drain", [b"%d" % i for i in range(1_000)], 2)
    enough = threading.Event()
    seen = []

    def note(record):
        seen.append((record.partition, record.offset))
        if len(seen) == 300:
            enough.set()

    control = (
        Consumer.source(settings, Subscriptions.topics(topic))
        .to_mat(Sink.foreach(note), DrainingControl.create)
        .run(system)
    )
    assert enough.wait(30)
    control.drain_and_shutdown(timeout=30)
    ends = committed(topic, 2)
    for partition in (0, 1):
        offsets = [offset for p, offset in seen if p == partition]
        assert ends[partition] == (max(offsets) + 1 if offsets else -1001)


def test_a_user_pause_keeps_a_partition_silent_until_resume(cluster, settings, system, topic_with):
    topic = topic_with("paused", [], 2)
    got, first, second = [], threading.Event(), threading.Event()

    def note(record):
        got.append(record.partition)
        (first if record.partition == 0 else second).set()

    control = Consumer.source(settings, Subscriptions.topics(topic)).to(Sink.foreach(note)).run(system)
    control.pause((topic, 1))
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for partition in (1, 0):
        producer.produce(topic, b"x", partition=partition)
        producer.flush(10)
    assert first.wait(30)
    assert not second.is_set()
    assert control.snapshot()["partitions"][f"{topic}-1"]["paused_by_user"]
    control.resume((topic, 1))
    assert second.wait(30)
    control.shutdown().result(30)


def test_downstream_demand_pauses_and_resumes_partitions(settings, system, topic_with, committed, wait_for):
    topic = topic_with("demand", [bytes(2_000)] * 4_000, 2)
    release, n = threading.Semaphore(0), [0]
    tight = replace(settings, high_bytes=100_000, low_bytes=50_000, max_buffered_bytes=600_000, pause_dwell_ms=0)

    def slow(_):
        n[0] += 1
        if n[0] in (200, 2_000):
            release.acquire(timeout=30)

    control, done = (
        Consumer.source(tight, Subscriptions.topics(topic), until="end")
        .to_mat(Sink.foreach(slow), Keep.both)
        .run(system)
    )
    wait_for(lambda: control.snapshot().get("pauses", 0) > 0)
    held = control.snapshot()
    assert sum(p["buffered_bytes"] for p in held["partitions"].values()) < 3_000_000
    release.release(2)
    done.result(30)
    assert n[0] == 4_000
    control.is_shutdown.result(30)
    assert sum(committed(topic, 2).values()) == 4_000


def test_a_partition_moves_to_a_second_member_without_loss(settings, system, topic_with, committed, wait_for):
    topic = topic_with("moves", [b"%d" % i for i in range(2_000)], 4)
    lock, seen = threading.Lock(), []

    def note(record):
        with lock:
            seen.append((record.partition, record.offset))

    graph = Consumer.source(settings, Subscriptions.topics(topic)).to_mat(Sink.foreach(note), DrainingControl.create)
    first = graph.run(system)
    wait_for(lambda: len(seen) > 100)
    second = graph.run(system)
    wait_for(lambda: len(second.snapshot()["partitions"]) == 2)
    wait_for(lambda: len(set(seen)) == 2_000)
    first.drain_and_shutdown(timeout=30)
    second.drain_and_shutdown(timeout=30)
    assert sum(committed(topic, 4).values()) == 2_000


def test_assigned_partitions_start_where_they_are_told(settings, system, topic_with, committed):
    topic = topic_with("told", [b"%d" % i for i in range(10)])
    source = Consumer.plain_source(settings, Subscriptions.assignment_with_offset({(topic, 0): 7}), until="end")
    assert source.map(lambda r: r.offset).run_with(Sink.to_list(), system).result(30) == [7, 8, 9]
    assert committed(topic) == {0: -1001}, "a plain source commits nothing"


def test_records_carry_key_timestamp_and_headers(cluster, settings, system):
    cluster.create_topic("whole", partitions=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("whole", b"v", b"k", headers=[("h", b"1"), ("h", None)], timestamp=1_700_000_000_000)
    producer.produce("whole", None, b"k")
    producer.flush(10)
    source = Consumer.plain_source(settings, Subscriptions.topics("whole"), until="end")
    first, second = source.run_with(Sink.to_list(), system).result(30)
    assert (first.topic, first.partition, first.offset, first.key, first.value) == ("whole", 0, 0, b"k", b"v")
    assert first.timestamp == 1_700_000_000_000
    assert first.headers == (("h", b"1"), ("h", None))
    assert second.value is None


def test_what_cannot_work_is_told_in_one_sentence(settings, system):
    nobody = replace(settings.with_bootstrap_servers("localhost:1"), preflight_timeout_ms=300)
    error = Consumer.source(nobody, Subscriptions.topics("x")).run_with(Sink.ignore(), system).exception(30)
    assert isinstance(error, NoBroker)
    assert "no broker at localhost:1" in str(error)
    assert "\n" not in str(error)
    error = Consumer.source(settings, Subscriptions.topics("nowhere")).run_with(Sink.ignore(), system).exception(30)
    assert isinstance(error, TopicNotFound)
    assert "streamactors topics create nowhere" in str(error)
    with pytest.raises(BuildError, match="needs a group_id"):
        Consumer.source(ConsumerSettings("localhost:1"), Subscriptions.topics("x"))
    with pytest.raises(BuildError, match="until must be"):
        Consumer.source(settings, Subscriptions.topics("x"), until="tomorrow")
    typo = settings.with_property("fetch.min.bites", 1)
    error = Consumer.source(typo, Subscriptions.topics("x")).run_with(Sink.ignore(), system).exception(30)
    assert "fetch.min.bites" in str(error)


def test_an_offset_out_of_range_fails_the_stream_when_the_reset_says_error(settings, system, topic_with):
    topic = topic_with("range", [b"x"])
    strict = settings.with_auto_offset_reset("error")
    source = Consumer.plain_source(strict, Subscriptions.assignment_with_offset({(topic, 0): 99}))
    error = source.run_with(Sink.ignore(), system).exception(30)
    assert isinstance(error, ConsumerFailed)
    assert f"{topic}-0: " in str(error)
    assert "'earliest' or 'latest' would begin elsewhere" in str(error)
    assert f"streamactors topics offsets {topic}" in str(error)


def test_a_stream_that_takes_some_commits_no_more_than_it_took(settings, system, topic_with, committed):
    topic = topic_with("some", [b"%d" % i for i in range(100)])
    control, done = (
        Consumer.source(settings, Subscriptions.topics(topic))
        .map(lambda record: record.offset)
        .take(10)
        .to_mat(Sink.to_list(), Keep.both)
        .run(system)
    )
    assert done.result(30) == list(range(10))
    control.is_shutdown.result(30)
    assert committed(topic)[0] in (-1001, *range(11))
