"""The requests of a producer of transaction.version 2 (KIP-890) over a real socket: nobody adds partitions, and every end bumps the epoch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.apis.transaction_client import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    E,
    Producer,
    describe,
    latest,
    read,
    settled,
)
from tests.broker.wire import WireClient

BROKER_CONFIG = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 20,
    "transaction.max.timeout.ms": 100_000,
}
COORDINATORS = (1, 0)
PRODUCE, END = 12, 5


def test_a_batch_adds_its_partition_and_the_end_answers_the_next_epoch(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx)
    identity = (producer.producer_id, producer.epoch)
    assert producer.produce(topic, "a", "b", version=PRODUCE) == E.NONE
    assert [(t.topic, list(t.partitions)) for t in describe(client, tx).topics] == [(topic, [0])]
    assert read(client, topic, READ_COMMITTED) == []
    assert producer.end(True, END) == E.NONE
    assert (producer.producer_id, producer.epoch) == (identity[0], identity[1] + 1)
    # without a wait: the broker adds the partition when the markers of the transaction before are written
    assert producer.produce(topic, "c", version=PRODUCE) == E.NONE
    assert producer.end(False, END) == E.NONE
    assert producer.produce(topic, "d", version=PRODUCE) == E.NONE
    assert producer.end(True, END) == E.NONE
    assert settled(client, tx) == "CompleteCommit"
    assert read(client, topic, READ_COMMITTED) == ["a", "b", "d"]
    assert read(client, topic, READ_UNCOMMITTED) == ["a", "b", "c", "d"]
    assert describe(client, tx).producer_epoch == producer.epoch == identity[1] + 3


def test_a_late_batch_is_not_part_of_the_next_transaction(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx)
    late = Producer.__new__(Producer)
    producer.produce(topic, "a", version=PRODUCE)
    late.__dict__.update(producer.__dict__, sequences=dict(producer.sequences))
    producer.end(True, END)
    settled(client, tx)
    assert late.produce(topic, "late", version=PRODUCE) == E.INVALID_PRODUCER_EPOCH
    late.sequences = {}
    assert late.produce(topic, "elsewhere", partition=1, version=PRODUCE) == E.INVALID_PRODUCER_EPOCH
    assert read(client, topic, READ_UNCOMMITTED) == ["a"]
    assert latest(client, topic, READ_COMMITTED) == 2


def test_the_first_batch_of_a_transaction_has_sequence_0(client: WireClient, topic: str, tx: str) -> None:
    producer = Producer(client, tx)
    producer.sequences[topic, 0] = 3
    assert producer.produce(topic, "a", version=PRODUCE) == E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert latest(client, topic, READ_UNCOMMITTED) == 0


def test_a_producer_that_timed_out_is_fenced_by_its_epoch_and_goes_on_after_an_abort(
    client: WireClient, topic: str, tx: str
) -> None:
    producer = Producer(client, tx, timeout_ms=1)
    producer.produce(topic, "a", version=PRODUCE)
    assert settled(client, tx) == "CompleteAbort"
    assert producer.produce(topic, "b", version=PRODUCE) == E.INVALID_PRODUCER_EPOCH
    assert producer.end(False, END) == E.NONE
    assert producer.produce(topic, "c", version=PRODUCE) == E.NONE


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("committed", [True, False])
def test_offsets_add_themselves_to_the_transaction(
    client: WireClient, topic: str, tx: str, version: int, committed: bool
) -> None:
    producer, group = Producer(client, tx), f"g-{tx}"
    client.call(10, 3, {"key": group, "key_type": 0})
    named: Any = topic
    if version == 6:
        named = client.call(3, 12, {"topics": [{"name": topic}]}).topics[0].topic_id
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}], "require_stable": True}
    while (error := producer.commit_offset(group, named, 7, version)) in (
        E.NOT_COORDINATOR,
        E.COORDINATOR_LOAD_IN_PROGRESS,
    ):
        pass
    assert error == E.NONE
    assert client.call(9, 7, asked).topics[0].partitions[0].error_code == E.UNSTABLE_OFFSET_COMMIT
    assert producer.end(committed, END) == E.NONE
    settled(client, tx)
    assert client.call(9, 7, asked).topics[0].partitions[0].committed_offset == (7 if committed else -1)
    late = Producer(client, tx)
    late.epoch -= 1
    assert late.commit_offset(group, named, 9, version) == E.INVALID_PRODUCER_EPOCH
    assert client.call(9, 7, asked).topics[0].partitions[0].committed_offset == (7 if committed else -1)


def test_a_producer_that_follows_takes_over_from_one_of_the_other_protocol(
    client: WireClient, topic: str, tx: str
) -> None:
    old = Producer(client, tx)
    old.add(topic, 0)
    old.produce(topic, "a")
    old.end(True)
    new = Producer(client, tx)
    assert new.produce(topic, "b", version=PRODUCE) == E.NONE
    assert new.end(True, END) == E.NONE
    again = Producer(client, tx)
    assert new.produce(topic, "zombie", version=PRODUCE) == E.INVALID_PRODUCER_EPOCH
    again.add(topic, 0)
    assert again.produce(topic, "c") == E.NONE
    assert again.end(True) == E.NONE
    settled(client, tx)
    assert read(client, topic, READ_COMMITTED) == ["a", "b", "c"]


def test_batches_of_several_producers_in_one_transaction_are_refused(client: WireClient, topic: str, tx: str) -> None:
    from streamactors.broker.records.builder import build_batch
    from streamactors.broker.records.record import NewRecord

    one, other = Producer(client, tx), Producer(client, f"{tx}-2")
    data = [
        {
            "index": index,
            "records": bytes(
                build_batch([NewRecord(None, b"v", 1)], base_sequence=0, transactional=True, **each.identity)
            ),
        }
        for index, each in enumerate((one, other))
    ]
    body = {
        "transactional_id": tx,
        "acks": -1,
        "timeout_ms": 5_000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }
    answer = client.call(0, PRODUCE, body).responses[0].partition_responses
    assert [each.error_code for each in answer] == [E.INVALID_PRODUCER_ID_MAPPING] * 2
