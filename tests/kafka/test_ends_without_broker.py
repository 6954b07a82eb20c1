"""A consumer whose commits nobody answers: its end has the declared limits, says what is not committed, and holds up nobody meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from streamactors import Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.controls import control as controls
from streamactors.kafka.errors import CommitTimeout
from streamactors.kafka.reading.offset_tracker import OffsetTracker


@pytest.fixture
def unanswered(monkeypatch):
    """Let no commit be answered; return the list of those that were sent."""
    sent = []
    monkeypatch.setattr(StreamConsumer, "commit", lambda self, offsets, texts, heard: sent.append(dict(offsets)))
    return sent


def started(kind, settings, topic, seen, system):
    subscription = Subscriptions.topics(topic)
    if kind == "source":
        source = Consumer.source(settings, subscription).map(lambda record: seen.append(record) or record)
        return source.to_mat(Sink.ignore(), Keep.both).run(system)
    source = Consumer.committable_source(settings, subscription).map(lambda message: seen.append(message) or message)
    return source.map(lambda message: message.offset).to_mat(Committer.sink(CommitterSettings()), Keep.both).run(system)


@pytest.mark.parametrize("how", ["drain", "shutdown", "stop"])
@pytest.mark.parametrize("kind", ["source", "committable_source"])
def test_an_end_without_an_answer_is_a_commit_timeout(settings, system, topic_with, unanswered, wait_for, kind, how):
    # The commit held the actor's thread for as long as librdkafka looked for a coordinator, 45 s; committable_source then reported success.
    topic = topic_with(f"unanswered-{kind}-{how}", [b"x"] * 5)
    seen = []
    limited = replace(settings, commit_interval_ms=60_000, commit_timeout_ms=100, close_timeout_ms=100)
    control, done = started(kind, limited, topic, seen, system)
    wait_for(lambda: len(seen) == 5)
    if how == "drain":
        with pytest.raises(CommitTimeout) as raised:
            control.drain_and_shutdown(done, timeout=30)
        assert f"{topic}-0@5" in str(raised.value)
    elif how == "shutdown":
        assert isinstance(control.shutdown().exception(30), CommitTimeout)
    else:
        control.stop()
        assert isinstance(control.is_shutdown.exception(30), CommitTimeout)
    if kind == "committable_source":
        assert isinstance(done.exception(30), CommitTimeout), "nothing was committed"
    assert unanswered[-1] == {(topic, 0): 5}


def test_a_commit_that_nobody_answers_fails_in_its_time_and_the_next_one_is_sent(settings, system, topic_with, commits):
    topic = topic_with("silent", [b"x"] * 5)
    limited = replace(settings, commit_timeout_ms=100, close_timeout_ms=100)
    messages, enough = [], threading.Event()

    def keep(message):
        messages.append(message)
        if len(messages) == 5:
            enough.set()

    source = Consumer.committable_source(limited, Subscriptions.topics(topic))
    control = source.to_mat(Sink.foreach(keep), Keep.left).run(system)
    assert enough.wait(30)
    commits.answers.append(None)
    error = messages[0].offset.commit().exception(30)
    assert isinstance(error, CommitTimeout)
    assert f"{topic}-0@1" in str(error)
    assert "100 ms" in str(error)
    control.shutdown().exception(30)


def test_a_consumer_answers_while_its_commit_is_in_flight(settings, system, topic_with, unanswered, wait_for):
    topic = topic_with("in-flight", [b"x"] * 5)
    control, _ = started("source", replace(settings, commit_interval_ms=10, close_timeout_ms=100), topic, [], system)
    wait_for(lambda: unanswered)
    assert control.snapshot()["partitions"][f"{topic}-0"]["done"] == 5
    assert control.metrics()["delivered"] == 5
    control.pause((topic, 0))
    assert control.snapshot()["partitions"][f"{topic}-0"]["paused_by"] == "user", "the consumer itself has answered"
    control.shutdown().exception(30)


def test_a_consumer_that_waits_in_a_rebalance_is_looked_at(settings, system, topic_with, monkeypatch):
    # a snapshot, and with it every metric, was answered when the rebalance was over
    monkeypatch.setattr(controls, "ANSWERS_S", 0.05)
    topic = topic_with("waits", [b"x"] * 4, 2)
    in_rebalance, reached, go_on = threading.Event(), threading.Event(), threading.Event()
    genuine = OffsetTracker.drain

    def drain(self, *arguments):
        in_rebalance.set()
        return genuine(self, *arguments)

    monkeypatch.setattr(OffsetTracker, "drain", drain)
    slow = replace(settings, revoke_timeout_ms=30_000)
    source = Consumer.source(slow, Subscriptions.topics(topic))
    first = source.to_mat(Sink.foreach(lambda _: (reached.set(), go_on.wait(30))), Keep.left).run(system)
    assert reached.wait(30)
    second = source.to_mat(Sink.ignore(), Keep.left).run(system)
    assert in_rebalance.wait(30)
    assert first.snapshot(timeout=30)["delivered"] > 0
    assert not go_on.is_set()
    go_on.set()
    for control in (first, second):
        control.shutdown().exception(30)


@pytest.mark.parametrize("kind", ["source", "committable_source"])
def test_a_drain_while_the_broker_is_away_says_what_is_not_committed(system, wait_for, kind):
    broker = Cluster().start()
    broker.create_topic("t")
    records = Source.range(5).map(lambda n: ProducerRecord("t", str(n)))
    records.run_with(Producer.plain_sink(ProducerSettings(broker.bootstrap_servers)), system).result(30)
    settings = ConsumerSettings(
        broker.bootstrap_servers,
        "g",
        "earliest",
        commit_interval_ms=60_000,
        commit_timeout_ms=300,
        close_timeout_ms=200,
        properties={"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300},
    )
    seen = []
    control, done = started(kind, settings, "t", seen, system)
    wait_for(lambda: len(seen) == 5)
    broker.close()
    with pytest.raises(CommitTimeout, match="t-0@5"):
        control.drain_and_shutdown(done, timeout=60)
