"""Before the first batch of a transaction, a leader asks the broker that coordinates the transaction, or has it add the partition (KIP-890).

A leader that was not the coordinator asked nobody. A batch that came late, after the abort of its transaction, became part of the next
transaction of its producer, and its records were committed although they had been written again meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode as E
from streamactors.broker.network.outgoing.channel import Channel
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer, ChannelBroken
from streamactors.broker.transaction.remote_verification import ADD_PARTITIONS_TO_TXN
from tests.broker.apis.transaction_client import READ_COMMITTED, Producer, describe, read, settled
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.live_broker import batch
from tests.broker.wire import WireClient, wait_until

LEADER = 2
TOPIC = "orders"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreeBrokers]:
    internal = {"transaction_state_log": 3, "offsets_topic": 1}
    settings: dict[str, Any] = {f"{name}_num_partitions": count for name, count in internal.items()}
    settings |= {f"{name}_replication_factor": 1 for name in internal}
    with ThreeBrokers(tmp_path, transaction_state_log_min_isr=1, **settings) as cluster:
        with cluster.brokers[1].client() as client:
            topic = {
                "name": TOPIC, "num_partitions": -1, "replication_factor": -1, "configs": [],
                "assignments": [{"partition_index": n, "broker_ids": [LEADER]} for n in range(2)],
            }  # fmt: skip
            assert client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000}).topics[0].error_code == 0
        cluster.await_partition(TOPIC, lambda each: each.leader == LEADER, "the leader knows the topic", LEADER)
        yield cluster


class Elsewhere(Producer):
    """A producer whose transactions another broker coordinates than the one with the topic."""

    def __init__(self, cluster: ThreeBrokers) -> None:
        name, at = self._found(cluster)
        self.coordinator = cluster.brokers[at].client()
        self.leader = cluster.brokers[LEADER].client()
        wait_until(lambda: TOPIC in cluster.brokers[at].node.metadata.image.topics, "the coordinator knows the topic")
        transactions = cluster.brokers[LEADER].node.transactions
        wait_until(lambda: transactions.is_elsewhere(name), "the leader knows the coordinator")
        super().__init__(self.coordinator, name)

    def init(self, timeout_ms: int = 60_000) -> Any:
        found: list[Any] = []

        def ready() -> bool:
            found[:] = [super(Elsewhere, self).init(timeout_ms)]
            return found[0].error_code not in (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR)

        wait_until(ready, "the coordinator has read its partition")
        return found[0]

    @staticmethod
    def _found(cluster: ThreeBrokers) -> tuple[str, int]:
        found: list[tuple[str, int]] = []

        def some() -> bool:
            for number in range(20):
                body = {"key_type": 1, "coordinator_keys": [f"tx-{number}"]}
                (answer,) = cluster.brokers[1].client().call(10, 4, body).coordinators
                if answer.error_code == 0 and answer.node_id != LEADER:
                    found.append((answer.key, answer.node_id))
                    return True
            return False

        wait_until(some, "another broker coordinates a transactional id")
        return found[0]

    def body(self, value: bytes, sequence: int, *, epoch: int | None = None, partition: int = 0) -> dict[str, Any]:
        records = batch(
            value,
            producer=(self.producer_id, self.epoch if epoch is None else epoch),
            sequence=sequence,
            transactional=True,
        )
        return {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout_ms": 5_000,
            "topic_data": [{"name": TOPIC, "partition_data": [{"index": partition, "records": records}]}],
        }

    def write(self, value: bytes, sequence: int, *, version: int = 11, partition: int = 0) -> int:
        """Produce at the leader; an error that clients retry is retried."""
        while (
            error := errors_of(self.leader.call(0, version, self.body(value, sequence, partition=partition)))[0]
        ) == (E.NOT_ENOUGH_REPLICAS):
            pass
        return error


def errors_of(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.responses for each in topic.partition_responses]


@pytest.fixture
def producer(cluster: ThreeBrokers) -> Elsewhere:
    return Elsewhere(cluster)


def test_a_batch_that_comes_after_the_end_of_its_transaction_is_refused(producer: Elsewhere) -> None:
    assert producer.add(TOPIC, 0) == [E.NONE]
    assert producer.write(b"first", 0) == E.NONE
    assert producer.end(False) == E.NONE
    assert settled(producer.coordinator, producer.transactional_id) == "CompleteAbort"
    assert producer.write(b"late", 1) == E.TRANSACTION_ABORTABLE
    assert producer.write(b"late", 1, version=9) == E.INVALID_TXN_STATE
    assert producer.add(TOPIC, 0) == [E.NONE]
    assert producer.write(b"second", 1) == E.NONE
    assert producer.end(True) == E.NONE
    assert settled(producer.coordinator, producer.transactional_id) == "CompleteCommit"
    assert read(producer.leader, TOPIC, READ_COMMITTED) == ["second"]


def test_each_partition_is_judged_by_itself(producer: Elsewhere) -> None:
    assert producer.add(TOPIC, 0) == [E.NONE]
    body = producer.body(b"in", 0)
    body["topic_data"][0]["partition_data"] += producer.body(b"out", 0, partition=1)["topic_data"][0]["partition_data"]
    assert errors_of(producer.leader.call(0, 11, body)) == [E.NONE, E.TRANSACTION_ABORTABLE]


def test_batches_that_follow_each_other_at_once_keep_their_order(producer: Elsewhere) -> None:
    assert producer.add(TOPIC, 0) == [E.NONE]
    for sequence in range(5):
        producer.leader.send(0, 11, producer.body(b"%d" % sequence, sequence))
    assert [errors_of(producer.leader.receive()[1]) for _ in range(5)] == [[E.NONE]] * 5
    assert producer.end(True) == E.NONE
    settled(producer.coordinator, producer.transactional_id)
    assert read(producer.leader, TOPIC, READ_COMMITTED) == ["0", "1", "2", "3", "4"]


def test_a_fenced_producer_is_refused(producer: Elsewhere) -> None:
    epoch = producer.epoch
    newer = producer.init().producer_epoch
    assert newer == epoch + 1
    assert errors_of(producer.leader.call(0, 11, producer.body(b"old", 0, epoch=epoch))) == [E.INVALID_PRODUCER_EPOCH]


def test_partitions_are_added_by_their_leader_one_transaction_after_the_other(producer: Elsewhere) -> None:
    first = producer.epoch
    for number in range(5):  # without a wait: the markers of the transaction before may be on their way
        for partition in range(2):
            assert producer.write(b"%d" % number, 0, version=12, partition=partition) == E.NONE
        assert producer.end(number % 2 == 0, 5) == E.NONE
    settled(producer.coordinator, producer.transactional_id)
    assert producer.epoch == first + 5
    for partition in range(2):
        assert read(producer.leader, TOPIC, READ_COMMITTED, partition) == ["0", "2", "4"]


class Held:
    """Answers to verifications wait until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[Any] = []
        genuine = Channel.request

        def request(channel: Channel, key: int, version: int, body: Any, then: Any, *more: Any) -> None:
            if (key, version) == ADD_PARTITIONS_TO_TXN:
                genuine(channel, key, version, body, lambda answer: self.answers.append((then, answer)), *more)
            else:
                genuine(channel, key, version, body, then, *more)

        monkeypatch.setattr(Channel, "request", request)

    def let_go(self, cluster: ThreeBrokers) -> None:
        for then, answer in self.answers:
            cluster.brokers[LEADER].on_data_plane(lambda then=then, answer=answer: then(answer))


def test_an_answer_that_is_older_than_the_marker_does_not_count(
    cluster: ThreeBrokers, producer: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert producer.add(TOPIC, 0) == [E.NONE]
    held = Held(monkeypatch)
    producer.leader.send(0, 11, producer.body(b"late", 0))
    wait_until(lambda: bool(held.answers), "the coordinator has answered")
    assert producer.end(False) == E.NONE
    assert settled(producer.coordinator, producer.transactional_id) == "CompleteAbort"
    held.let_go(cluster)
    assert errors_of(producer.leader.receive()[1]) == [E.INVALID_TXN_STATE]


def test_a_partition_that_was_added_to_a_transaction_that_ended_meanwhile_gets_no_batch(
    cluster: ThreeBrokers, producer: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    while True:
        producer.leader.send(0, 12, producer.body(b"late", 0))
        wait_until(lambda: len(held.answers) == 1, "the coordinator has answered")
        if describe(producer.coordinator, producer.transactional_id).transaction_state == "Ongoing":
            break
        held.let_go(
            cluster
        )  # an answer that clients retry: the coordinator could not be reached, on a machine that is busy
        assert errors_of(producer.leader.receive()[1]) == [E.NOT_ENOUGH_REPLICAS]
        held.answers.clear()
    producer.init()  # fences, and aborts the transaction
    assert settled(producer.coordinator, producer.transactional_id) == "Empty"
    held.let_go(cluster)
    wait_until(lambda: len(held.answers) == 2, "the leader asks again, because the marker has come")
    del held.answers[0]
    held.let_go(cluster)
    assert errors_of(producer.leader.receive()[1]) == [E.INVALID_PRODUCER_EPOCH]
    assert read(producer.leader, TOPIC, READ_COMMITTED) == []


def test_a_request_behind_one_that_waits_for_the_coordinator_waits_too(
    cluster: ThreeBrokers, producer: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    # {0: sequence 1, 1: sequence 0} waited, because 1 was new -> {0: sequence 2} was not asked for, came first, and was out of order
    assert producer.add(TOPIC, 0) == [E.NONE]
    assert producer.write(b"0", 0) == E.NONE
    while producer.add(TOPIC, 1) != [E.NONE]:
        pass
    held = Held(monkeypatch)
    both = producer.body(b"1", 1)
    both["topic_data"][0]["partition_data"] += producer.body(b"b", 0, partition=1)["topic_data"][0]["partition_data"]
    producer.leader.send(0, 11, both)
    producer.leader.send(0, 11, producer.body(b"2", 2))
    wait_until(lambda: bool(held.answers), "the coordinator has answered")
    held.let_go(cluster)
    assert errors_of(producer.leader.receive()[1]) == [E.NONE, E.NONE]
    assert errors_of(producer.leader.receive()[1]) == [E.NONE]


def test_a_later_batch_waits_for_a_first_one_that_was_refused_for_a_moment(
    cluster: ThreeBrokers, producer: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 0 was to be sent again -> 1 was taken first -> 0 was refused each time, and the transaction was aborted.
    assert producer.add(TOPIC, 0) == [E.NONE]
    with monkeypatch.context() as patch:
        held = Held(patch)
        producer.leader.send(0, 11, producer.body(b"0", 0))
        wait_until(lambda: bool(held.answers), "the coordinator has answered")
        held.answers = [(then, ChannelAnswer(error=ChannelBroken("lost"))) for then, _ in held.answers]
        held.let_go(cluster)
        assert errors_of(producer.leader.receive()[1]) == [E.NOT_ENOUGH_REPLICAS]
    assert errors_of(producer.leader.call(0, 11, producer.body(b"1", 1))) == [E.NOT_ENOUGH_REPLICAS]
    assert producer.write(b"0", 0) == E.NONE
    assert producer.write(b"1", 1) == E.NONE
    assert producer.end(True) == E.NONE
    settled(producer.coordinator, producer.transactional_id)
    assert read(producer.leader, TOPIC, READ_COMMITTED) == ["0", "1"]


def test_offsets_that_come_after_the_end_of_their_transaction_are_refused(
    cluster: ThreeBrokers, producer: Elsewhere
) -> None:
    def commit(client: WireClient) -> int:
        body = {
            "transactional_id": producer.transactional_id, "group_id": "g", **producer.identity, "generation_id": -1,
            "member_id": "", "group_instance_id": None,
            "topics": [{"name": TOPIC, "partitions": [{
                "partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": None}]}],
        }  # fmt: skip
        code: int = client.call(28, 3, body).topics[0].partitions[0].error_code
        return code

    found: list[int] = []

    def coordinated() -> bool:
        (answer,) = producer.coordinator.call(10, 4, {"key_type": 0, "coordinator_keys": ["g"]}).coordinators
        found[:] = [answer.node_id]
        return bool(answer.error_code == 0)

    wait_until(coordinated, "a broker coordinates the group")
    with cluster.brokers[found[0]].client() as client:
        wait_until(lambda: commit(client) == E.INVALID_TXN_STATE, "the offsets are not part of the transaction")
        added = {"transactional_id": producer.transactional_id, **producer.identity, "group_id": "g"}
        while producer.coordinator.call(25, 3, added).error_code != E.NONE:
            pass
        wait_until(lambda: commit(client) == E.NONE, "the offsets are part of the transaction")
        assert producer.end(False) == E.NONE
        assert settled(producer.coordinator, producer.transactional_id) == "CompleteAbort"
        assert commit(client) == E.INVALID_TXN_STATE
