"""The coordinators of a topic follow the metadata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors import log_limit
from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import CommitOffsets, NewOffset
from streamactors.broker.helpers import HelperOutcome, Helpers
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.metadata_record import PartitionChange
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC, TRANSACTION_TOPIC
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.transaction.transaction import TransactionState
from streamactors.broker.transaction.transaction_events import EndTransaction
from streamactors.broker.transaction.transaction_record import encode_transaction_key, encode_transaction_value
from tests.broker.apis.transaction_client import READ_COMMITTED, Producer, describe, read, settled
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import await_coordinator, wait_until


def test_a_new_leader_epoch_under_the_same_leader_begins_with_a_new_coordinator(tmp_path: Path) -> None:
    # A marker carries the epoch of its coordinator: one with the old epoch would be refused as fenced.
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        await_coordinator(client, "tx", 1)
        node = broker.node
        index = node.transactions._coordinators.index_of("tx")
        before = node.transactions._coordinators.coordinator_of("tx")
        image = node.metadata.image
        topic = image.topics[TRANSACTION_TOPIC]
        leader = topic.partitions[index].leader
        delta = apply_records(image, [PartitionChange(index, topic.topic_id, leader=leader)], image.offset + 1)
        broker.on_data_plane(lambda: node.metadata.publish(delta))
        after = node.transactions._coordinators.coordinator_of("tx")
        assert after is not None
        assert after is not before
        assert before is not None
        assert before.phase.name == "RESIGNED" or broker.on_data_plane(lambda: before.phase.name) == "RESIGNED"
        others = [each for each in image.topics[TRANSACTION_TOPIC].partitions if each.partition != index]
        assert len(list(node.transactions._coordinators.shards())) == len(others) + 1


def test_answers_are_gathered_in_order_and_one_that_comes_twice_counts_once() -> None:
    replies: list[Callable[..., object]] = []
    found: list[list[Any]] = []
    gather([replies.append, replies.append], found.append)
    replies[1]("b", 2)
    replies[1]("again")
    assert found == []
    replies[0]("a")
    replies[0]("again")
    assert found == [["a", ("b", 2)]]


def test_gathering_from_no_coordinator_answers_at_once() -> None:
    found: list[list[Any]] = []
    gather([], found.append)
    assert found == [[]]


def test_a_decision_is_delivered_when_it_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A new coordinator delivered a commit that only it had read. When it died, too, the next one could abort the same transaction: some
    # partitions kept its records, and others dropped them.
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        broker.create_topic("orders")
        await_coordinator(client, "tx", 1)
        producer = Producer(client, "tx")
        producer.add("orders", 0)
        producer.produce("orders", "a")
        node = broker.node
        coordinators = node.transactions._coordinators
        index = coordinators.index_of("tx")
        log = broker.partition(TRANSACTION_TOPIC, index)
        limit = [log.log_end_offset]
        known = HostedPartition.high_watermark.fget  # type: ignore[attr-defined]
        monkeypatch.setattr(
            HostedPartition,
            "high_watermark",
            property(lambda self: min(known(self), limit[0]) if self is log else known(self)),
        )

        def decide() -> None:
            (txn,) = (each.transactions["tx"] for each in coordinators.shards() if "tx" in each.transactions)
            value = encode_transaction_value(txn.moved_to(TransactionState.PREPARE_COMMIT))
            decision = build_batch([NewRecord(encode_transaction_key("tx"), value, 0)])
            node.partitions.append(TRANSACTION_TOPIC, index, bytearray(decision), lambda _: None)

        def elect_again() -> None:
            image = node.metadata.image
            topic = image.topics[TRANSACTION_TOPIC]
            node.metadata.publish(
                apply_records(image, [PartitionChange(index, topic.topic_id, leader=node.node_id)], image.offset + 1)
            )

        broker.on_data_plane(decide)
        broker.on_data_plane(elect_again)
        wait_until(lambda: describe(client, "tx").error_code == 0, "the new coordinator has read the decision")
        assert describe(client, "tx").transaction_state == "PrepareCommit"
        assert read(client, "orders", READ_COMMITTED) == []
        limit[0] = 1 << 62
        assert settled(client, "tx") == "CompleteCommit"
        assert read(client, "orders", READ_COMMITTED) == ["a"]


def test_an_older_reading_of_the_log_confirms_nothing_of_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A coordinator that restarted read a decision more than before. The high watermark reached the end of the first reading -> the decision
    # that it does not include was delivered.
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        await_coordinator(client, "tx", 1)
        Producer(client, "tx")
        node = broker.node
        coordinators = node.transactions._coordinators
        index = coordinators.index_of("tx")
        log = broker.partition(TRANSACTION_TOPIC, index)
        first = log.log_end_offset
        limit, looks, told = [0], [0], []
        known = HostedPartition.high_watermark.fget  # type: ignore[attr-defined]

        def high_watermark(self: HostedPartition) -> int:
            looks[0] += self is log
            return int(min(known(self), limit[0]) if self is log else known(self))

        monkeypatch.setattr(HostedPartition, "high_watermark", property(high_watermark))

        def load() -> None:
            cell: Any = SimpleNamespace(name="read", tell=lambda message: told.append(type(message).__name__))
            coordinators._load(index, cell)

        def looked() -> bool:
            return looks[0] >= 10

        broker.on_data_plane(load)
        wait_until(lambda: told == ["Loaded"], "the log was read")
        Producer(client, "tx")  # a new epoch: a record more
        assert log.log_end_offset > first
        broker.on_data_plane(load)
        wait_until(lambda: told == ["Loaded", "Loaded"], "the log was read again")
        limit[0], looks[0] = first, 0
        wait_until(looked, "both readings were compared with the high watermark")
        assert told == ["Loaded", "Loaded"]
        limit[0] = 1 << 62
        wait_until(lambda: len(told) > 2, "the newer reading is committed")
        assert told == ["Loaded", "Loaded", "Confirmed"]


def test_a_reading_of_the_log_counts_only_if_none_has_begun_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The older one made the coordinator active, the newer one failed: nobody confirmed what was read, and decisions were never delivered.
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        await_coordinator(client, "tx", 1)
        Producer(client, "tx")
        coordinators = broker.node.transactions._coordinators
        index = coordinators.index_of("tx")
        told: list[tuple[str, str]] = []
        ended: list[Callable[[HelperOutcome[object]], object]] = []
        monkeypatch.setattr(Helpers, "run", lambda self, work, then: ended.append(then))

        def load(name: str) -> None:
            cell: Any = SimpleNamespace(name=name, tell=lambda message: told.append((name, type(message).__name__)))
            broker.on_data_plane(lambda: coordinators._load(index, cell))

        load("older")
        load("newer")
        older, newer = ended
        broker.on_data_plane(lambda: older(HelperOutcome(value={})))
        assert told == []
        broker.on_data_plane(lambda: newer(HelperOutcome(error=OSError("the disk"))))
        assert told == [("newer", "LoadFailed")]


@pytest.mark.parametrize("at", ["in the mailbox", "in the buffer of the log"])
@pytest.mark.parametrize("what", ["commit of offsets", "commit of a transaction"])
def test_what_the_coordinator_of_an_epoch_acknowledges_is_read_by_that_of_the_next(
    tmp_path: Path, what: str, at: str
) -> None:
    # A replica was taken away from a partition, so its leader began a new epoch. The new coordinator noted where the log ended -> the old one, which
    # still had requests before it heard of its end, wrote behind that -> a transaction that its producer knew as committed was aborted.
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        broker.create_topic("orders")
        offsets = what == "commit of offsets"
        key, kind, name = ("readers", 0, OFFSETS_TOPIC) if offsets else ("tx", 1, TRANSACTION_TOPIC)
        await_coordinator(client, key, kind)
        node = broker.node
        answers: list[ErrorCode] = []
        request: CommitOffsets | EndTransaction
        if offsets:
            request = CommitOffsets(
                lambda errors: answers.extend(errors), key, "", None, -1, [NewOffset("orders", 0, 7, -1, "")]
            )
        else:
            producer = Producer(client, key)
            producer.add("orders", 0)
            producer.produce("orders", "a")
            request = EndTransaction(
                lambda answer: answers.append(answer.error), producer.producer_id, producer.epoch, True
            )
        index = (node.groups if offsets else node.transactions._coordinators).index_of(key)

        def elect_again() -> None:
            image = node.metadata.image
            again = PartitionChange(index, image.topics[name].topic_id, leader=node.node_id)
            node.metadata.publish(apply_records(image, [again], image.offset + 1))

        def ask() -> None:
            if isinstance(request, CommitOffsets):
                node.groups.tell(key, request)
            else:
                node.transactions.tell(key, request)
            if at == "in the mailbox":
                elect_again()
            else:
                node.data_plane.execute(elect_again)  # behind the turn of the coordinator, and before that which writes

        broker.on_data_plane(ask)
        wait_until(lambda: bool(answers), "the request is answered")
        if offsets:
            asked = {"group_id": key, "topics": [{"name": "orders", "partition_indexes": [0]}]}
            while (answer := client.call(9, 5, asked)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                pass
            (found,) = answer.topics[0].partitions
            assert (found.committed_offset, found.error_code) == (7 if answers == [ErrorCode.NONE] else -1, 0)
        else:
            wait_until(lambda: describe(client, key).error_code == 0, "the new coordinator has read the log")
            assert (describe(client, key).transaction_state == "Ongoing") == (answers != [ErrorCode.NONE])


def test_a_partition_that_is_not_here_leaves_the_others_their_coordinators(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its log could not be made, because the disk was full. The groups of all partitions behind it had no coordinator, either.
    monkeypatch.setattr(log_limit._of_process, "_now_s", lambda: 0.0)
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        await_coordinator(client, "readers", 0)
        node = broker.node
        coordinators = node.groups._coordinators
        image = node.metadata.image
        topic = image.topics[OFFSETS_TOPIC]
        again = [PartitionChange(each.partition, topic.topic_id, leader=node.node_id) for each in topic.partitions]
        delta = apply_records(image, again, image.offset + len(again))

        def elect_again() -> None:
            hosted = node.partitions._topics[OFFSETS_TOPIC]
            missing = {number: hosted.pop(number) for number in (1, 2)}
            try:
                node.metadata.publish(delta)
            finally:
                hosted.update(missing)

        broker.on_data_plane(elect_again)
        assert len(list(coordinators.shards())) == len(again) - 2
        (line,) = [line for line in caplog.messages if "is not on this broker" in line]
        assert line.startswith("__consumer_offsets-1 has no coordinator")
