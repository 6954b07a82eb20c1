"""A broker that goes while streams run: one sentence when it has been gone for a while, one when it is back."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerMessage,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.kafka.client import connection as connection_module
from streamactors.kafka.client.connection import ClientConnection, ck
from streamactors.kafka.client.diagnosis import outage
from streamactors.kafka.client.diagnosis.outage import SAID_AFTER_S, Outage
from streamactors.kafka.errors import NoBroker


def test_an_outage_is_said_once_and_its_end_once():
    now = Outage("here:1")
    assert now.look(seen=False, now_s=0) is None, "nothing was complained about"
    now.complained("Connection refused", 1)
    now.complained("timed out", 3)
    assert now.look(seen=False, now_s=5.9) is None
    assert now.look(seen=False, now_s=6) == "no broker at here:1 for 5 s, waiting (timed out)"
    assert now.look(seen=False, now_s=60) is None
    assert now.look(seen=True, now_s=61) == "the broker at here:1 is back after 60 s"
    assert now.look(seen=True, now_s=62) is None


def test_a_connection_that_was_closed_and_opened_again_is_no_outage():
    now = Outage("here:1")
    now.complained("Disconnected", 1)
    assert now.look(seen=True, now_s=2) is None
    assert now.look(seen=False, now_s=50) is None


def test_several_clients_of_a_process_say_it_once(monkeypatch, caplog):
    # three members of a group in one process wrote the same line within 4 ms
    monkeypatch.setattr(outage, "SAID_AFTER_S", 0)
    settings = ProducerSettings("127.0.0.1:1")
    for connection in [ClientConnection(settings) for _ in range(3)]:
        connection._on_error(ck.KafkaError(ck.KafkaError._TRANSPORT, "refused"))
        connection.look_for_broker(seen=False)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "no broker at 127.0.0.1:1 for 0 s, waiting (refused)"
    ]


class _Client:
    """A producer's client: `waiting` records and callbacks in its queue, and a broker that answers or does not."""

    def __init__(self):
        self.waiting, self.answers = 0, False

    def __len__(self):
        return self.waiting

    def list_topics(self, timeout):
        if not self.answers:
            raise ck.KafkaException(ck.KafkaError(ck.KafkaError._TRANSPORT, "refused"))


def test_a_producers_broker_is_back_when_it_answers_and_not_when_librdkafkas_queue_is_shorter(monkeypatch, caplog):
    # "is back" and "no broker" took turns for minutes: the callbacks of errors wait in the queue that was counted
    monkeypatch.setattr(outage, "SAID_AFTER_S", 0)
    monkeypatch.setattr(connection_module, "ASKS_EVERY_S", 0)
    connection, client = ClientConnection(ProducerSettings("127.0.0.1:2")), _Client()

    def said():
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    for left in (5, 9, 4, 1, 7, 2, 0, 1):
        connection._on_error(ck.KafkaError(ck.KafkaError._TRANSPORT, "refused"))
        client.waiting = left
        connection.records_wait(client)
    assert said() == ["no broker at 127.0.0.1:2 for 0 s, waiting (refused)"]
    client.answers = True
    connection.records_wait(client)
    assert said()[1:] == ["the broker at 127.0.0.1:2 is back after 0 s"]


def test_a_broker_that_answers_late_is_not_said_to_be_gone(monkeypatch, caplog):
    monkeypatch.setattr(outage, "SAID_AFTER_S", 0)
    connection, client = ClientConnection(ProducerSettings("127.0.0.1:3")), _Client()
    client.waiting, client.answers = 3, True
    connection._on_error(ck.KafkaError(ck.KafkaError._TRANSPORT, "Disconnected"))
    connection.records_wait(client)
    assert not caplog.records


def test_an_idle_producer_whose_connection_was_closed_has_no_outage():
    now = Outage("here:1")
    now.complained("Disconnected", 1)
    now.nobody_waited()
    assert now.look(seen=False, now_s=60) is None
    now.complained("refused", 100)
    assert now.look(seen=False, now_s=106) is not None
    now.nobody_waited()
    assert now.look(seen=True, now_s=110) == "the broker at here:1 is back after 10 s"


def test_what_librdkafka_repeats_is_logged_once_a_second(caplog):
    # 890 lines in 20 s
    caplog.set_level(logging.INFO, "streamactors.kafka")
    connection = ClientConnection(ProducerSettings("127.0.0.1:4"))
    for n in range(200):
        text = f"Connect to ipv4#127.0.0.1:4 failed: Connection refused (after {n}ms in state CONNECT)"
        connection._on_error(ck.KafkaError(ck.KafkaError._TRANSPORT, text))
    assert 1 <= len(caplog.records) <= 3


@given(st.lists(st.tuples(st.sampled_from(["complaint", "seen", "not seen"]), st.integers(0, 9))))
def test_the_sentences_take_turns(events):
    now, at, told = Outage("here:1"), 0, []
    for kind, pause in events:
        at += pause
        if kind == "complaint":
            now.complained("refused", at)
        elif said := now.look(seen=kind == "seen", now_s=at):
            told.append("back" in said)
    assert told == [bool(n % 2) for n in range(len(told))]
    assert SAID_AFTER_S == 5


@pytest.mark.slow
@pytest.mark.parametrize("which", ["source", "sink"])
def test_a_running_source_and_a_running_sink_say_it(tmp_path, system, monkeypatch, caplog, wait_for, which):
    # neither said a word, however long the broker was gone
    monkeypatch.setattr(outage, "SAID_AFTER_S", 0.05)
    caplog.set_level(logging.WARNING, "streamactors.kafka")

    def said(text):
        return sum(record.name == "streamactors.kafka" and text in record.getMessage() for record in caplog.records)

    broker = Cluster(data=tmp_path).start()
    servers = broker.bootstrap_servers
    broker.create_topic("t")
    quick = {"reconnect.backoff.max.ms": 200, "statistics.interval.ms": 50}
    writing = Producer.flexi_flow(ProducerSettings(servers, properties=quick))
    passed = []
    queue, stored = Source.queue(100).via(writing).to_mat(Sink.foreach(passed.append), Keep.both).run(system)
    queue.offer(ProducerMessage.message(ProducerRecord("t", b"1")))
    wait_for(lambda: len(passed) == 1)
    if which == "source":
        queue.complete()
        stored.result(30)
        reading = ConsumerSettings(servers, None, "earliest", properties=quick)
        records = Consumer.plain_source(reading, Subscriptions.assignment(("t", 0)))
        control = records.to(Sink.foreach(passed.append)).run(system)
        wait_for(lambda: len(passed) == 2)
    broker.close()
    if which == "sink":
        queue.offer(ProducerMessage.message(ProducerRecord("t", b"2")))
    wait_for(lambda: said(f"no broker at {servers} for ") == 1)
    assert "waiting (" in caplog.text
    broker = Cluster(data=tmp_path, listen=servers).start()
    try:
        wait_for(lambda: said(f"the broker at {servers} is back after ") == 1)
        assert said("no broker at") == 1
        if which == "source":
            control.stop()
            control.is_shutdown.result(30)
        else:
            queue.complete()
            stored.result(30)
    finally:
        broker.close()


def test_a_source_with_a_limit_fails_when_its_brokers_are_gone_for_longer(system, wait_for):
    broker = Cluster().start()
    servers = broker.bootstrap_servers
    broker.create_topic("t")
    properties = {"reconnect.backoff.max.ms": 100, "statistics.interval.ms": 50}
    settings = ConsumerSettings(
        broker.bootstrap_servers, None, "earliest", outage_timeout_ms=200, close_timeout_ms=500, properties=properties
    )
    Source.single(ProducerRecord("t", b"1")).run_with(
        Producer.plain_sink(ProducerSettings(broker.bootstrap_servers)), system
    ).result(30)
    read = []
    source = Consumer.plain_source(settings, Subscriptions.assignment(("t", 0)))
    control, done = source.to_mat(Sink.foreach(read.append), Keep.both).run(system)
    wait_for(lambda: len(read) == 1)
    broker.close()
    with pytest.raises(NoBroker, match=rf"no broker at {servers} for \d+\.\d s, longer than outage_timeout_ms=200 \("):
        done.result(30)
    with pytest.raises(NoBroker):
        control.is_shutdown.result(30)


def test_how_long_a_broker_has_been_gone():
    now = Outage("here:1")
    assert now.gone_s(5) == 0
    now.complained("refused", 6)
    now.complained("refused", 8)
    assert now.gone_s(9) == 3
    now.look(seen=True, now_s=10)
    assert now.gone_s(11) == 0
