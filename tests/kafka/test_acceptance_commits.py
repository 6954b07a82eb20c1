"""Acceptance cases 47 to 50: commits, their retries and failures, and what a control promises.

Where they come from: the specifications of Alpakka Kafka and Pekko Connectors Kafka, behaviour only."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Keep, Sink
from streamactors.engine.supervision import resuming
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    DrainingControl,
    Subscriptions,
)
from streamactors.kafka.errors import CommitFailed, CommitTimeout
from streamactors.testing import TestSink
from tests.kafka._members import with_properties


def numbers(n):
    return [b"%d" % i for i in range(n)]


def held(settings, topic, system, n):
    """Run a committable source until n messages are there; return (control, messages, the stream's end). It goes on running."""
    messages, enough = [], threading.Event()

    def keep(message):
        messages.append(message)
        if len(messages) == n:
            enough.set()

    source = Consumer.committable_source(settings, Subscriptions.topics(topic))
    control, done = source.to_mat(Sink.foreach(keep), Keep.both).run(system)
    assert enough.wait(30)
    return control, messages, done


def test_47_a_hundred_commits_at_once_are_few_requests(settings, system, topic_with, committed, commits):
    topic = topic_with("hundred", numbers(100))
    control, messages, _ = held(settings, topic, system, 100)
    commits.sent.clear()
    for future in [message.offset.commit() for message in messages]:
        assert future.exception(30) is None
    assert 0 < len(commits.sent) < 10
    assert committed(topic) == {0: 100}
    control.shutdown().result(30)


def test_48_a_batch_waits_for_its_size_its_interval_or_the_end(settings, system, topic_with, committed, wait_for):
    topic = topic_with("batch", numbers(3))
    flow = Committer.flow(CommitterSettings(max_batch=2, max_interval_ms=60_000))
    source = Consumer.committable_source(settings, Subscriptions.topics(topic)).map(lambda m: m.offset)
    control, probe = source.via(flow).map(lambda batch: batch.size).to_mat(TestSink.probe("30s"), Keep.both).run(system)
    probe.request(5)
    probe.expect_next(2)
    assert committed(topic) == {0: 2}, "the third waits for a fourth"
    control.stop()
    probe.expect_next(1)
    probe.expect_complete()
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 3}


def test_48_a_batch_that_does_not_fill_is_committed_after_its_interval(settings, system, topic_with, committed):
    topic = topic_with("interval", numbers(1))
    flow = Committer.flow(CommitterSettings(max_batch=1_000, max_interval_ms=20))
    source = Consumer.committable_source(settings, Subscriptions.topics(topic)).map(lambda m: m.offset)
    control, probe = source.via(flow).map(lambda batch: batch.size).to_mat(TestSink.probe("30s"), Keep.both).run(system)
    probe.request(1)
    probe.expect_next(1)
    assert committed(topic) == {0: 1}
    control.shutdown()
    probe.expect_complete()


def test_49_a_commit_that_may_be_tried_again_is(settings, system, topic_with, committed, commits):
    topic = topic_with("again", numbers(5))
    control, messages, _ = held(settings, topic, system, 5)
    commits.answers += [False] * 4
    assert messages[-1].offset.commit().exception(30) is None
    assert [sent[topic, 0] for sent in commits.sent] == [5] * 5
    assert committed(topic) == {0: 5}
    control.shutdown().result(30)


def test_49_a_commit_that_never_succeeds_names_partition_position_and_assignment(settings, system, topic_with, commits):
    topic = topic_with("never", numbers(5))
    control, messages, _ = held(replace(settings, commit_timeout_ms=200, close_timeout_ms=500), topic, system, 5)
    commits.answers += [False] * 10_000
    error = messages[-1].offset.commit().exception(30)
    assert isinstance(error, CommitTimeout)
    assert f"{topic}-0@5 (epoch {messages[0].offset.epoch})" in str(error)
    assert "200 ms" in str(error)
    end = control.shutdown().exception(30)
    assert isinstance(end, CommitTimeout), "what is not committed at the end is not passed over in silence"
    assert f"{topic}-0@5" in str(end)


@pytest.mark.parametrize("max_retries", [2, 3])
def test_49_a_committer_tries_as_often_as_it_is_told(
    settings, system, topic_with, committed, commits, wait_for, max_retries
):
    topic = topic_with(f"tries-{max_retries}", numbers(5))
    commits.answers += [False] * 3
    source = Consumer.committable_source(settings, Subscriptions.topics(topic)).map(lambda m: m.offset)
    sink = Committer.sink(CommitterSettings(max_batch=5, max_retries=max_retries))
    control, done = source.to_mat(sink, Keep.both).run(system)
    if max_retries == 2:
        error = done.exception(30)
        assert isinstance(error, CommitTimeout)
        assert f"{topic}-0@5 not committed in 3 tries" in str(error)
    else:
        wait_for(lambda: committed(topic) == {0: 5})
        control.stop()
        assert done.exception(30) is None
    control.is_shutdown.exception(30)


def test_K_12_offsets_above_a_gap_are_bounded_and_go_on_when_it_is_closed(
    settings, system, topic_with, wait_for, committed
):
    topic = topic_with("gap", numbers(6_000), 2)
    source = Consumer.committable_source(replace(settings, max_in_flight=20), Subscriptions.topics(topic))
    slow, others = Future(), set()

    def work(message):
        if (message.record.partition, message.record.offset) == (0, 0):
            return slow
        others.add((message.record.partition, message.record.offset))
        done = Future()
        done.set_result(message.offset)
        return done

    sink = Committer.sink(CommitterSettings(max_batch=20, max_interval_ms=10))
    first = []
    noted = source.map(lambda m: first.append(m.offset) or m if m.record.partition == 0 and not first else m)
    control = noted.map_async_unordered(1_000, work).to_mat(sink, DrainingControl.create).run(system)
    wait_for(lambda: {(1, offset) for offset in range(3_000)} <= others, 60)
    wait_for(lambda: control.snapshot()["partitions"][f"{topic}-0"]["paused_by"] == "max_in_flight", 60)
    # the limit is looked at before each delivery, and one delivery has at most as many records as the stages ask for
    assert 20 <= sum(1 for partition, _ in others if partition == 0) < 20 + 1_000
    slow.set_result(first[0])
    wait_for(lambda: len(others) == 5_999, 60)
    control.drain_and_shutdown(timeout=60)
    assert committed(topic, 2) == {0: 3_000, 1: 3_000}


def test_49_a_commit_that_fails_for_good_fails_its_future(settings, system, topic_with, committed, commits):
    topic = topic_with("fatal", numbers(10))
    control, messages, _ = held(settings, topic, system, 10)
    commits.answers.append(CommitFailed("no"))
    assert isinstance(messages[0].offset.commit().exception(30), CommitFailed)
    assert messages[-1].offset.commit().exception(30) is None
    control.shutdown().result(30)


def test_49_a_stream_that_resumes_goes_on_behind_a_commit_that_failed(
    settings, system, topic_with, committed, commits, wait_for
):
    topic = topic_with("resumed", numbers(5))
    commits.answers.append(CommitFailed("no"))
    flow = Committer.flow(CommitterSettings(max_batch=5)).with_attributes(decider=resuming)
    source = Consumer.committable_source(settings, Subscriptions.topics(topic)).map(lambda m: m.offset)
    control, probe = source.via(flow).map(lambda batch: batch.size).to_mat(TestSink.probe("30s"), Keep.both).run(system)
    probe.request(5)
    producer = BareProducer({"bootstrap.servers": settings.bootstrap_servers})
    wait_for(lambda: commits.sent)
    for value in numbers(5):
        producer.produce(topic, value)
    producer.flush(10)
    probe.expect_next(5)
    assert committed(topic) == {0: 10}
    control.shutdown()
    probe.expect_complete()


def test_49_an_offset_of_a_partition_that_is_gone_is_acknowledged_and_not_sent(
    settings, system, topic_with, wait_for, commits
):
    topic = topic_with("gone", numbers(20), 2)
    quick = with_properties(settings, {"heartbeat.interval.ms": 100})
    quick = replace(quick, revoke_timeout_ms=200)
    one, messages, _ = held(quick, topic, system, 20)
    source = Consumer.committable_source(quick, Subscriptions.topics(topic))
    two = source.to_mat(Sink.ignore(), Keep.left).run(system)
    wait_for(lambda: len(one.snapshot()["partitions"]) == len(two.snapshot()["partitions"]) == 1)
    (kept,) = [int(name.rsplit("-")[-1]) for name in one.snapshot()["partitions"]]
    commits.sent.clear()
    old = [m for m in messages if m.offset.partition != kept][-1]
    assert old.offset.commit().exception(30) is None
    assert commits.sent == []
    for control in (one, two):
        control.shutdown().exception(30)


def test_50_after_stop_the_stream_completes_and_commits_still_work_until_the_run_is_over(
    settings, system, topic_with, committed
):
    topic = topic_with("stop", numbers(10))
    reached, go = threading.Event(), threading.Event()
    results = []

    def store(message):
        if message.record.offset == 9:
            reached.set()
            go.wait(30)
            results.append(message.offset.commit())

    source = Consumer.committable_source(settings, Subscriptions.topics(topic))
    control, done = source.to_mat(Sink.foreach(store), Keep.both).run(system)
    assert reached.wait(30)
    control.stop()
    control.stop()
    assert not control.is_shutdown.done()
    go.set()
    done.result(30)
    control.is_shutdown.result(30)
    control.stop()
    assert results[0].exception(30) is None
    assert committed(topic) == {0: 10}


def test_50_a_commit_after_the_consumer_is_closed_fails_and_says_why(settings, system, topic_with):
    topic = topic_with("closed", numbers(10))
    control, messages, _ = held(replace(settings, close_timeout_ms=200), topic, system, 10)
    control.shutdown().exception(30)
    error = messages[-1].offset.commit().exception(30)
    assert isinstance(error, CommitFailed)
    assert "closed" in str(error)


def test_50_draining_returns_the_streams_result_and_its_error(settings, system, topic_with):
    topic = topic_with("drained", numbers(10))
    source = Consumer.source(settings, Subscriptions.topics(topic))
    ten = threading.Event()
    counted = Sink.fold(0, lambda n, record: (ten.set() if n == 9 else None) or n + 1)
    control = source.to_mat(counted, DrainingControl.create).run(system)
    assert ten.wait(30)
    assert control.drain_and_shutdown(timeout=30) == 10
    broken = source.map(lambda record: 1 / 0).to_mat(Sink.ignore(), DrainingControl.create).run(system)
    topic_more = BareProducer({"bootstrap.servers": settings.bootstrap_servers})
    topic_more.produce(topic, b"x")
    topic_more.flush(10)
    broken.stream_completion.exception(30)
    with pytest.raises(ZeroDivisionError):
        broken.drain_and_shutdown(timeout=30)
    assert broken.is_shutdown.done()
