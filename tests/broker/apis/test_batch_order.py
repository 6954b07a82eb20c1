"""Batches of an idempotent producer behind one that was refused for a moment: over a socket, and with librdkafka.

Seen in `make chaos`: two brokers of three were killed. The third one had too few replicas in sync until one of them was back, between the first and
the second batch of a producer. The second one was out of order. librdkafka began a new epoch in all partitions, and sent a batch of another
partition again, which was written but not acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.log.producers.refused_batches import REMEMBERED_MS, batch_of
from streamactors.broker.replication.hosted_partition import HostedPartition, NotEnoughReplicas
from streamactors.clock import VirtualClock
from tests.broker.live_broker import LiveBroker, batch, produce_body
from tests.broker.wire import WireClient

PRODUCER = 7


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path) as live:
        live.create_topic("orders", 2)
        yield live


def in_sync(broker: LiveBroker, enough: bool) -> None:
    """Let the partition have enough replicas in sync, or too few."""
    partition = broker.partition("orders")
    state = replace(partition.state, min_insync_replicas=1 if enough else 2)
    broker.on_data_plane(lambda: partition.become(state))


def send(client: WireClient, sequence: int, *, topic: str = "orders") -> int:
    records = batch(b"%d" % sequence, producer=(PRODUCER, 0), sequence=sequence)
    answer = client.call(0, 9, produce_body(records, topic)).responses[0].partition_responses[0]
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize("known", [True, False])
def test_a_later_batch_gets_the_error_of_the_refused_one_until_that_comes_again(
    broker: LiveBroker, known: bool
) -> None:
    client = broker.client()
    first = 0
    if known:
        assert send(client, 0) == ErrorCode.NONE
        first = 1
    in_sync(broker, False)
    assert send(client, first) == ErrorCode.NOT_ENOUGH_REPLICAS
    in_sync(broker, True)
    assert send(client, first + 1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert send(client, first + 2) == ErrorCode.NOT_ENOUGH_REPLICAS
    for sequence in range(first, first + 4):
        assert send(client, sequence) == ErrorCode.NONE
    assert broker.partition("orders").log_end_offset == first + 4
    assert not broker.node.refused_batches
    assert send(client, first + 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_leader_that_did_not_know_yet_that_it_leads(broker: LiveBroker) -> None:
    client = broker.client()
    partition = broker.partition("orders")
    leads = partition.state
    broker.on_data_plane(lambda: partition.become(replace(leads, leader=99)))
    assert send(client, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.on_data_plane(lambda: partition.become(leads))
    assert send(client, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [send(client, sequence) for sequence in (0, 1)] == [ErrorCode.NONE] * 2


def test_a_topic_that_the_broker_did_not_know_yet(broker: LiveBroker) -> None:
    client = broker.client()
    assert send(client, 0, topic="new") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create_topic("new")
    assert send(client, 1, topic="new") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [send(client, sequence, topic="new") for sequence in (0, 1)] == [ErrorCode.NONE] * 2


def test_a_batch_that_follows_the_log_is_taken_although_an_earlier_one_was_refused(broker: LiveBroker) -> None:
    client = broker.client()
    assert send(client, 0) == ErrorCode.NONE
    in_sync(broker, False)
    assert send(client, 0) == ErrorCode.NOT_ENOUGH_REPLICAS  # a repeat
    in_sync(broker, True)
    assert send(client, 1) == ErrorCode.NONE


def test_a_refusal_that_lasts_excuses_no_gap(tmp_path: Path) -> None:
    clock = VirtualClock()
    with LiveBroker(tmp_path, clock=clock) as broker:
        broker.create_topic("orders")
        client = broker.client()

        def answer_of(sequence: int) -> int:
            records = batch(b"", producer=(PRODUCER, 0), sequence=sequence, timestamp=clock.wall_ms())
            return client.call(0, 9, produce_body(records)).responses[0].partition_responses[0].error_code

        assert answer_of(0) == ErrorCode.NONE
        in_sync(broker, False)
        assert answer_of(1) == ErrorCode.NOT_ENOUGH_REPLICAS
        in_sync(broker, True)
        clock.advance(REMEMBERED_MS / 1_000)
        assert answer_of(2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Moment:
    """Refuses the batches of partition 0 until `over`, and then the first one that comes once more.

    By then librdkafka has all messages. It sends several batches before it reads the first answer."""

    def __init__(self, patch: pytest.MonkeyPatch, first_sequence: int) -> None:
        self.over = threading.Event()
        self.refused_last = False
        self.behind: list[int] = []
        self.unanswered = True
        take = HostedPartition.append_for

        def append_for(partition: HostedPartition, records: memoryview, now_ms: int, acks: int) -> Any:
            came = batch_of(records)
            if partition.topic != "orders" or came is None or came.epoch != 0:
                return take(partition, records, now_ms, acks)
            if partition.index == 0 and not self.refused_last:
                self.refused_last = self.over.is_set() and came.first_sequence == first_sequence
                raise NotEnoughReplicas
            if partition.index == 0 and came.first_sequence > first_sequence:
                self.behind.append(came.first_sequence)
            result = take(partition, records, now_ms, acks)
            if partition.index == 1 and self.unanswered:
                self.unanswered = False
                raise Refusal(ErrorCode.REQUEST_TIMED_OUT)  # it is written, but the producer cannot know that
            return result

        patch.setattr(HostedPartition, "append_for", append_for)


@pytest.mark.parametrize("known", [True, False])
def test_librdkafka_writes_each_record_once(broker: LiveBroker, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    # known: a new epoch began, and partition 1 had its record twice. Unknown: librdkafka counted 0 as written.
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "retry.backoff.ms": 500,
            "message.timeout.ms": 60_000,
        }
    )
    offsets: dict[str, int] = {}

    def written(error: Any, message: Any) -> None:
        assert error is None, error
        offsets[message.value().decode()] = message.offset()

    def produce(value: str, partition: int = 0) -> None:
        producer.produce("orders", value, partition=partition, on_delivery=written)

    first = 0
    if known:
        produce("0")
        assert producer.flush(30) == 0
        first = 1
    moment = Moment(monkeypatch, first)
    values = [str(n) for n in range(first, first + 5)]
    for value in values:
        produce(value)
    produce("other", 1)
    moment.over.set()
    assert producer.flush(60) == 0
    assert moment.refused_last
    assert moment.behind
    assert offsets == {"other": 0, **{str(n): n for n in range(first + 5)}}
    for index, wanted in ((0, [str(n) for n in range(first + 5)]), (1, ["other"])):
        log = broker.partition("orders", index).log
        batches = list(log.reader.replay(0, log.end_offset))
        assert [bytes(record.value or b"").decode() for each in batches for record in each.records()] == wanted
        assert {each.producer_epoch for each in batches} == {0}
