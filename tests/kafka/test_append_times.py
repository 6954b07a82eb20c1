"""The broker tells when a record was appended, though its topic keeps the producer's time."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Keep, LatencyMeter, Sink
from streamactors.broker.apis import api02_list_offsets
from streamactors.kafka import Consumer, Subscriptions
from streamactors.kafka.client.offsets import append_times
from streamactors.kafka.client.offsets.append_times import AppendTimes
from streamactors.kafka.sources.lane_stamps import APPENDED, BUFFER, CREATED, SENT
from streamactors.kafka.subscriptions import TopicPartition

LONG_AGO_MS = 1_356_998_400_000


def test_broker_and_client_agree_on_the_question():
    assert append_times.ASKS_APPEND_TIME == api02_list_offsets.ASKS_APPEND_TIME


@pytest.fixture
def asked(settings, monkeypatch):
    """Ask, and wait for the answer. An answer "not asked" means that no question went out."""
    monkeypatch.setattr(append_times, "EVERY_S", 0.0)
    times = AppendTimes(settings)

    def ask(offset, topic="t"):
        answered, answers = threading.Event(), []
        then = lambda answer: (answers.append(answer), answered.set())  # noqa: E731
        if not times.ask(TopicPartition(topic, 0), offset, then):
            return "not asked"
        assert answered.wait(30)
        return answers[0]

    yield ask
    thread = times._thread
    times.close()
    if thread is not None:
        thread.join(30)
        assert not thread.is_alive(), "its thread ends"


def test_the_answer_is_the_time_of_the_append_from_the_first_question_on(cluster, settings, asked):
    cluster.create_topic("t", partitions=1)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})

    def write():
        producer.produce("t", b"", timestamp=LONG_AGO_MS)
        producer.flush(30)
        return time.time() * 1_000

    write()
    assert asked(0) is None, "nobody had asked before"
    before_ms, after_ms = time.time() * 1_000, write()
    time.sleep(0.05)
    write()
    assert before_ms - 1 <= asked(1) <= after_ms
    assert after_ms < asked(2)
    assert asked(0) is None
    assert asked(3) is None, "there is no such record yet"


def test_a_broker_that_refuses_the_question_is_asked_once(cluster, asked, monkeypatch):
    cluster.create_topic("refused", partitions=1)
    monkeypatch.setattr(append_times, "ASKS_APPEND_TIME", -1_000)  # as Apache Kafka refuses all of them
    assert asked(0, "refused") is None
    assert asked(0, "refused") == "not asked"


@pytest.mark.parametrize(("timestamp", "first"), [(0, [SENT, APPENDED]), (LONG_AGO_MS, [APPENDED])])
def test_the_hop_before_the_poll_has_two_parts(cluster, settings, system, timestamp, first, monkeypatch):
    """Records wait in the producer for 300 ms. An event's time of long ago says nothing, so the journey begins at the append."""
    monkeypatch.setattr(append_times, "EVERY_S", 0.05)
    topic = f"parts-{timestamp}"
    cluster.create_topic(topic, partitions=1)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 300})
    with LatencyMeter(system, every=0) as meter:
        control, done = (
            Consumer.source(settings, Subscriptions.topics(topic))
            .to_mat(Sink.foreach(lambda _: None).named("store"), Keep.both)
            .run(system)
        )
        until, found = time.monotonic() + 60, []
        while time.monotonic() < until and len(found) < 3:
            producer.produce(topic, b"", **({"timestamp": timestamp} if timestamp else {}))
            producer.poll(0.4)  # so each batch has one record
            found = [
                journey
                for graph in meter.graphs()
                for journey in graph.journeys
                if APPENDED in [hop.label for hop in journey.hops]
            ]
        control.stop()
        done.result(30)
        control.is_shutdown.result(30)
        (run,) = meter.graphs()
    producer.flush(30)
    assert len(found) >= 3
    for journey in found:
        hops = {hop.label: hop.waited_ms + hop.worked_ms for hop in journey.hops}
        assert list(hops)[: len(first) + 1] == [*first, BUFFER]
        assert sum(hops.values()) == pytest.approx(journey.ended_ms - journey.began_ms)
        assert min(hops.values()) >= 0
        assert hops[APPENDED] < 60_000, "since the append, not since an event of long ago"
    if SENT in first:
        assert max({hop.label: hop.waited_ms for hop in each.hops}[SENT] for each in found) > 100, (
            "the producer's linger"
        )
    assert (CREATED in {hop.hop for hop in run.hops}) == (SENT in first)
    assert run.share == pytest.approx(1.0, abs=0.02)
