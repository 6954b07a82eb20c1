"""What producers ask of the coordinator of a transactional id, and of any broker for an idempotent producer's id.

Owner: the cluster, which passes each request to the broker's TransactionShard. Answers are the broker's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import CommitOffsets, NewOffset
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import AddPartitions, EndTransaction, InitProducerId

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster

Reply = Callable[[ErrorCode, Any], object]


class Init(NamedTuple):
    """A producer asks for its id; with the current one it asks for the next epoch (KIP-360)."""

    transactional_id: str | None
    timeout_ms: int = 60_000
    producer_id: int = -1
    producer_epoch: int = -1


def init_producer_id(cluster: SimulatedCluster, asked: Init, reply: Reply) -> None:
    """Answer with (producer id, epoch)."""
    if asked.transactional_id is None:
        reply(ErrorCode.NONE, (cluster.transactions.next_producer_id(), 0))
        return

    transactional_id = asked.transactional_id

    def answered(answer: Any) -> None:
        if answer.error is ErrorCode.NONE:  # what an earlier producer of the id had open is aborted
            cluster.in_transaction.pop(transactional_id, None)
        reply(answer.error, (answer.producer_id, answer.producer_epoch))

    event = InitProducerId(answered, asked.timeout_ms, asked.producer_id, asked.producer_epoch)
    cluster.transactions.tell(asked.transactional_id, event)


class Producer(NamedTuple):
    """A transactional producer of one epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class AddToTransaction(NamedTuple):
    """Partitions become part of the open transaction."""

    producer: Producer
    partitions: frozenset[tuple[str, int]]


def add_partitions_to_txn(cluster: SimulatedCluster, asked: AddToTransaction, reply: Reply) -> None:
    """Answer when the partitions are in the coordinator's log."""
    unknown = [each for each in sorted(asked.partitions) if cluster.topics.get(*each) is None]
    if unknown:
        reply(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown)
        return
    _add(cluster, asked.producer, frozenset(TopicPartition(*each) for each in asked.partitions), reply)


class AddOffsets(NamedTuple):
    """The offsets of a group become part of the open transaction."""

    producer: Producer
    group_id: str


def add_offsets_to_txn(cluster: SimulatedCluster, asked: AddOffsets, reply: Reply) -> None:
    """Answer when the group's offsets partition is in the coordinator's log."""
    index = cluster.groups.coordinators.index_of(asked.group_id)
    _add(cluster, asked.producer, frozenset({TopicPartition(OFFSETS_TOPIC, index)}), reply)


def _add(cluster: SimulatedCluster, producer: Producer, where: frozenset[TopicPartition], reply: Reply) -> None:
    event = AddPartitions(
        lambda answer: reply(answer.error, None), producer.producer_id, producer.producer_epoch, where
    )
    cluster.transactions.tell(producer.transactional_id, event)


class End(NamedTuple):
    """The transaction commits, or aborts."""

    producer: Producer
    commit: bool


def end_txn(cluster: SimulatedCluster, asked: End, reply: Reply) -> None:
    """Answer when the decision is in the coordinator's log."""
    producer = asked.producer

    def answered(answer: Any) -> None:
        if answer.error is ErrorCode.NONE:
            state = "committed" if asked.commit else "aborted"
            for told in cluster.in_transaction.pop(producer.transactional_id, ()) if asked.commit else ():
                cluster.world.event("commit", **told)
            cluster.in_transaction.pop(producer.transactional_id, None)
            cluster.world.event("transaction", transactional_id=producer.transactional_id, state=state)
        reply(answer.error, None)

    event = EndTransaction(answered, producer.producer_id, producer.producer_epoch, asked.commit)
    cluster.transactions.tell(producer.transactional_id, event)


class CommitInTransaction(NamedTuple):
    """Offsets of a group: (topic, partition, offset, metadata); valid when the transaction commits."""

    producer: Producer
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    offsets: tuple[tuple[str, int, int, str], ...]


def txn_offset_commit(cluster: SimulatedCluster, asked: CommitInTransaction, reply: Reply) -> None:
    """Answer with the first error of an offset."""
    if any(cluster.topics.get(*each[:2]) is None for each in asked.offsets):
        reply(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        return

    def answered(errors: Any) -> None:
        error = next((each for each in errors if each), ErrorCode.NONE)
        if error is ErrorCode.NONE:
            waiting = cluster.in_transaction.setdefault(asked.producer.transactional_id, [])
            waiting += (
                {
                    "group": asked.group_id, "topic": topic, "partition": partition, "offset": offset,
                    "transactional_id": asked.producer.transactional_id,
                }
                for topic, partition, offset, _ in asked.offsets
            )  # fmt: skip
        reply(error, None)

    commit = CommitOffsets(
        answered,
        asked.group_id, asked.member_id, asked.instance_id, asked.generation,
        [NewOffset(*each[:3], -1, each[3]) for each in asked.offsets],
        version=3, producer_id=asked.producer.producer_id, producer_epoch=asked.producer.producer_epoch,
    )  # fmt: skip
    cluster.groups.commit_in_transaction(cluster.transactions, asked.producer.transactional_id, commit)
