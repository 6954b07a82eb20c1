"""Batches of an idempotent producer while the leader moves: one is refused by the old leader, and the next one arrives at the new leader first.

Apache Kafka 4.4.0 answers OUT_OF_ORDER_SEQUENCE_NUMBER in this history, or appends the later batch if the log does not know the producer, and then refuses
the earlier one for good. After the error librdkafka begins a new epoch in all partitions, and sends again what others have written: two of 44 runs with
a moving leader had records twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.producers.refused_batches import may_follow_refused
from streamactors.broker.records.header import MAX_SEQUENCE
from streamactors.broker.replication import hosted_partition
from tests.broker.live_broker import batch
from tests.broker.replication.two_brokers import TOPIC, Pair

PRODUCER = 7
OLD, NEW = 1, 2
REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def send(pair: Pair, broker: int, sequence: int, epoch: int = 0) -> ErrorCode:
    records = batch(b"%d" % sequence, producer=(PRODUCER, epoch), sequence=sequence)
    topic = {"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}
    with pair.brokers[broker].client() as client:
        answer = client.call(0, 9, {"acks": -1, "timeout_ms": 30_000, "topic_data": [topic]})
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def move(pair: Pair, leader: int) -> None:
    pair.elect(leader, (1, 2))
    pair.until(lambda: pair.partition(leader).is_leader and not pair.partition(3 - leader).is_leader)


@pytest.mark.parametrize("written", [0, 2])
def test_a_batch_waits_for_the_one_that_the_old_leader_has_refused(written: int, tmp_path: Path) -> None:
    with Pair(tmp_path, leader=OLD) as pair:
        for sequence in range(written):
            assert send(pair, OLD, sequence) is ErrorCode.NONE
        move(pair, NEW)
        assert send(pair, OLD, written) is REFUSED
        for later in (written + 1, written + 2):
            assert send(pair, NEW, later) is REFUSED
        for sequence in range(written, written + 3):
            assert send(pair, NEW, sequence) is ErrorCode.NONE
        assert send(pair, NEW, written) is ErrorCode.NONE, "it is there already"
        assert pair.partition(NEW).log_end_offset == written + 3
        assert send(pair, NEW, written + 3) is ErrorCode.NONE


def test_a_new_epoch_of_the_producer_begins_with_its_first_batch(tmp_path: Path) -> None:
    with Pair(tmp_path, leader=OLD) as pair:
        assert send(pair, OLD, 0) is ErrorCode.NONE
        move(pair, NEW)
        assert send(pair, OLD, 0, epoch=1) is REFUSED
        assert send(pair, NEW, 1, epoch=1) is REFUSED
        assert send(pair, NEW, 0, epoch=1) is ErrorCode.NONE
        assert send(pair, NEW, 1, epoch=1) is ErrorCode.NONE


def test_a_gap_that_stays_is_one_when_the_leader_is_no_longer_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pair(tmp_path, leader=OLD) as pair:
        assert send(pair, OLD, 0) is ErrorCode.NONE
        move(pair, NEW)
        assert send(pair, NEW, 5) is REFUSED
        monkeypatch.setattr(hosted_partition, "REMEMBERED_MS", 0)
        assert send(pair, NEW, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    ("sequence", "expected", "waits"),
    [
        (5, 5, False),
        (6, 5, True),
        (4, 5, False),
        (1, MAX_SEQUENCE, True),
        (MAX_SEQUENCE, 0, False),
        (0, None, False),
        (1, None, True),
    ],
)
def test_only_a_batch_after_a_gap_may_follow_a_refused_one(sequence: int, expected: int | None, waits: bool) -> None:
    records = memoryview(bytearray(batch(b"v", producer=(PRODUCER, 3), sequence=sequence)))
    asked = []

    def next_sequence(*producer: int) -> int | None:
        asked.append(producer)
        return expected

    assert may_follow_refused(records, next_sequence) is waits
    assert asked == [(PRODUCER, 3)]
    assert not may_follow_refused(memoryview(bytearray(batch(b"v"))), next_sequence), "it has no producer id"
