"""Acceptance cases of consumers and committers on the real broker, by their numbers; 40 to 43 are in `test_partitioned.py`.

Where they come from: the specifications of Alpakka Kafka and Pekko Connectors Kafka, behaviour only."""

from __future__ import annotations

import random
import threading
from concurrent.futures import Future
from dataclasses import replace

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.engine.supervision import resuming
from streamactors.errors import BuildError
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    DrainingControl,
    Producer,
    ProducerMessage,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client_consumer import StreamConsumer
from streamactors.kafka.errors import CommitFailed, CommitTimeout, NoBroker, RecordError
from streamactors.testing import TestSink
from tests.kafka._random_pipelines import Pipeline


def numbers(n):
    return [b"%d" % i for i in range(n)]


@pytest.fixture
def commits(monkeypatch):
    """Watch what is sent to the broker; `answers` are taken instead of the broker's while there are any."""
    sent, answers = [], []
    genuine = StreamConsumer.commit

    def commit(self, offsets):
        sent.append(dict(offsets))
        if answers:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return genuine(self, offsets)

    monkeypatch.setattr(StreamConsumer, "commit", commit)
    commit.sent, commit.answers = sent, answers
    return commit


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


# ── 44, 45: buffers and rebalances ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_44_what_was_buffered_of_a_partition_that_moves_is_delivered_by_its_new_owner_alone(
    settings, system, topic_with, wait_for, strategy
):
    topic = topic_with(f"moves-{strategy}", numbers(200), 2)
    quick = settings.with_properties({"heartbeat.interval.ms": 100, "partition.assignment.strategy": strategy})
    source = Consumer.source(quick, Subscriptions.topics(topic))
    one, first = source.map(lambda r: (r.partition, r.offset)).to_mat(TestSink.probe("30s"), Keep.both).run(system)
    first.request(1)
    seen = [first.expect_next_where(lambda _: True)]
    wait_for(lambda: sum(p["buffered_records"] for p in one.snapshot()["partitions"].values()) > 150)
    other = []
    two, done = source.to_mat(Sink.foreach(lambda r: other.append((r.partition, r.offset))), Keep.both).run(system)
    wait_for(lambda: len(two.snapshot()["partitions"]) == 1 and len(one.snapshot()["partitions"]) == 1)
    (kept,) = one.snapshot()["partitions"]
    moved = 1 - int(kept.rsplit("-")[-1])
    wait_for(lambda: {offset for partition, offset in other if partition == moved} >= set(range(1, 100)))
    first.request(1_000)
    first.expect_next_n([(1 - moved, offset) for offset in range(100) if (1 - moved, offset) not in seen])
    assert not done.done()
    for control in (one, two):
        control.shutdown().result(30)


def test_45_a_partition_regained_delivers_what_is_buffered_when_a_third_member_takes_nothing(
    settings, system, topic_with, wait_for
):
    topic = topic_with("regained", numbers(300), 3)
    quick = settings.with_properties(
        {"heartbeat.interval.ms": 100, "partition.assignment.strategy": "cooperative-sticky"}
    )
    source = Consumer.source(quick, Subscriptions.topics(topic))
    one, first = source.map(lambda r: (r.partition, r.offset)).to_mat(TestSink.probe("30s"), Keep.both).run(system)
    wait_for(lambda: len(one.snapshot()["partitions"]) == 3)
    two, second = source.to_mat(TestSink.probe("30s"), Keep.both).run(system)
    wait_for(lambda: len(one.snapshot()["partitions"]) == 2 and len(two.snapshot()["partitions"]) == 1)
    two.shutdown()
    second.expect_subscription_and_complete()
    two.is_shutdown.result(30)
    wait_for(lambda: [p["buffered_records"] for p in one.snapshot()["partitions"].values()] == [100] * 3)
    others = []
    for i in range(3):  # as many members as partitions, and one that gets nothing
        others.append(source.to_mat(TestSink.probe("30s"), Keep.both).run(system)[0])
        wait_for(lambda i=i: len(one.snapshot()["partitions"]) == max(1, 2 - i))
    (kept,) = [int(name.rsplit("-")[-1]) for name in one.snapshot()["partitions"]]
    first.request(1_000)
    first.expect_next_n([(kept, offset) for offset in range(100)])
    for control in (one, *others):
        control.shutdown().result(30)


# ── 47 to 50: commits and controls ───────────────────────────────────────────────────────────────────────────────────────


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
    topic = topic_with("gap", numbers(2_000), 2)
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
    wait_for(lambda: {(1, offset) for offset in range(1_000)} <= others, 60)
    wait_for(lambda: control.snapshot()["partitions"][f"{topic}-0"]["paused_by"] == "max_in_flight", 60)
    assert 20 <= sum(1 for partition, _ in others if partition == 0) < 500
    slow.set_result(first[0])
    wait_for(lambda: len(others) == 1_999, 60)
    control.drain_and_shutdown(timeout=60)
    assert committed(topic, 2) == {0: 1_000, 1: 1_000}


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
    quick = settings.with_property("heartbeat.interval.ms", 100)
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


# ── 51 to 53: producers and errors ───────────────────────────────────────────────────────────────────────────────────────


def test_51_results_come_in_input_order_though_the_second_partition_answers_first(producer_settings, system, cluster):
    cluster.create_topic("reversed", partitions=2)
    # a batch of partition 0 is full and waits for the one before it; partition 1 has one record and is answered at once
    tight = producer_settings.with_properties({"max.in.flight.requests.per.connection": 1, "batch.size": 20_000})
    envelopes = [
        ProducerMessage.message(ProducerRecord("reversed", bytes(9_000), partition=0 if i < 50 else 1), i)
        for i in range(51)
    ]
    flow = Producer.flexi_flow(tight)
    results = Source.from_iterable(envelopes).via(flow).run_with(Sink.to_list(), system).result(30)
    assert [result.pass_through for result in results] == list(range(51))


def test_52_nothing_is_committed_behind_a_record_that_could_not_be_written(
    cluster, settings, producer_settings, system, topic_with, committed
):
    topic = topic_with("five", numbers(5))
    cluster.create_topic("five-out", partitions=1)

    def envelope(m):
        value = bytes(2_000_000) if m.record.offset == 3 else m.record.value
        return ProducerMessage.message(ProducerRecord("five-out", value), m.offset)

    sink = Producer.committable_sink(producer_settings, CommitterSettings(max_batch=20, max_interval_ms=10))
    source = Consumer.committable_source(settings, Subscriptions.topics(topic), until="end").map(envelope)
    control, done = source.to_mat(sink, Keep.both).run(system)
    assert isinstance(done.exception(30), RecordError)
    control.is_shutdown.exception(30)
    assert committed(topic)[0] in (-1001, 1, 2, 3)


def test_53_what_the_broker_refuses_reaches_the_stream_and_the_control(settings, system, topic_with):
    nobody = settings.with_bootstrap_servers("localhost:1")
    nobody = replace(nobody, preflight_timeout_ms=300)
    source = Consumer.source(nobody, Subscriptions.topics("x"))
    control, done = source.to_mat(Sink.ignore(), Keep.both).run(system)
    assert isinstance(done.exception(30), NoBroker)
    assert isinstance(control.is_shutdown.exception(30), NoBroker)
    with pytest.raises(BuildError, match="needs a group_id"):
        Consumer.committable_source(settings.with_group_id(None), Subscriptions.topics("x"))
    topic = topic_with("unreadable", [b"{"])
    records = Consumer.records(settings, Subscriptions.topics(topic), value="json", until="end")
    control, done = records.to_mat(Sink.ignore(), Keep.both).run(system)
    assert type(done.exception(30)).__name__ == "JSONDecodeError", "its own error, not that the consumer has ended"
    control.is_shutdown.result(30)


# ── 55: exactly once ─────────────────────────────────────────────────────────────────────────────────────────────────────


def copy_in_rounds(cluster, settings, topic, count, seed, read_all):
    """Copy through a random exact graph, ended at random and begun again, and compare what is there with what must be."""
    dice = random.Random(seed)
    pipeline = Pipeline.drawn(dice, exact=True, sides=False)
    name = f"{topic}-out-{seed}"
    cluster.create_topic(name, partitions=2)
    group = settings.with_group_id(f"{topic}-{seed}")
    group = replace(group, max_poll_records=dice.choice([7, 500]))
    producer = ProducerSettings(cluster.bootstrap_servers, transactional_id=name, commit_interval_ms=10)
    for number in range(8):
        end = dice.choice(["abrupt", "raises", "stop"]) if number < 7 else None
        left, reached = dice.randint(1, count), threading.Event()

        def write(element, end=end, reached=reached, counter=iter(range(left - 1, -(10**9), -1))):
            if next(counter) == 0:
                reached.set()
                if end == "raises":
                    raise ValueError("told to")
            (record,) = element
            return ProducerRecord(name, record.value, partition=record.partition)

        with ActorSystem("copy") as system:
            source = Transactional.source(group, Subscriptions.topics(topic), until="end").map(lambda record: (record,))
            written = pipeline.built(source, None).map(write).to_mat(Transactional.sink(producer), Keep.both)
            control, done = written.run(system)
            done.add_done_callback(lambda _, reached=reached: reached.set())
            assert reached.wait(60), f"seed {seed}: nothing moves in {pipeline.steps}"
            if end == "stop":
                control.stop()
            elif end == "abrupt":
                system.shutdown(10)
            error = done.exception(60)
            control.is_shutdown.exception(60)
        if end is None:
            assert error is None, f"seed {seed}: {pipeline.steps}: {error!r}"
    keeps = pipeline.keeps["main"]
    times = 2 ** sum(step[0] == "flat concat" for step in pipeline.steps)  # each of them emits every element twice
    expected = {
        partition: [o for o in range(count // 2) if keeps((topic, partition, o)) for _ in range(times)]
        for partition in (0, 1)
    }
    found = {0: [], 1: []}
    for message in read_all(name, 2):
        found[message.partition()].append(int(message.value()) // 2)
    assert found == expected, f"seed {seed}: {pipeline.steps}"


@pytest.mark.parametrize("seed", range(3))
def test_55_a_copy_that_is_ended_at_random_is_exact(cluster, settings, topic_with, read_all, seed):
    topic = topic_with(f"exact-{seed}", numbers(400), 2)
    copy_in_rounds(cluster, settings, topic, 400, seed, read_all)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_55_a_hundred_copies_that_are_ended_at_random_are_exact(cluster, settings, topic_with, read_all):
    topic = topic_with("exact", numbers(400), 2)
    for seed in range(100, 200):
        copy_in_rounds(cluster, settings, topic, 400, seed, read_all)
