"""Produce, Fetch, ListOffsets, Metadata: what clients ask of partitions.

Owner: the cluster. Errors are the broker's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.broker.controller.command import CreateTopics, NewTopic
from streamactors.broker.controller.rules.plan_topics import create_topics
from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.simulation.cluster.partitions.batch import Batch
from streamactors.simulation.cluster.partitions.partition import Fetched, FetchRequest, Partition

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster

Reply = Callable[[ErrorCode, Any], object]
Where = tuple[str, int]
LATEST: Final = -1
EARLIEST: Final = -2
_PASSING: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})


class Produce(NamedTuple):
    """Records for one partition. `acks` -1: all replicas in sync must have them."""

    where: Where
    batch: Batch
    acks: int = -1
    transactional_id: str | None = None


class Produced(NamedTuple):
    """The base offset, and the time of the append in ms since 1970, -1 if the records keep their own."""

    base_offset: int
    append_ms: int


def produce(cluster: SimulatedCluster, asked: Produce, reply: Reply) -> None:
    """Append a batch. A transactional one needs its partition in the producer's open transaction (KIP-890)."""
    partition = cluster.topics.get(*asked.where)
    if partition is None:
        reply(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        return
    batch = asked.batch.copy()  # the request may come twice
    if batch.transactional:
        error = _not_in_transaction(cluster, partition, asked)
        if error is not ErrorCode.NONE:
            reply(error, None)
            return
    topic, index = asked.where

    def appended(error: ErrorCode, base: int, time: int) -> None:
        if error is ErrorCode.NONE:
            cluster.world.event(
                "produced", topic=topic, partition=index, first=base, last=base + len(batch.rows) - 1,
                transactional_id=asked.transactional_id,
            )  # fmt: skip
        reply(error, Produced(base, time))

    partition.append(batch, appended, acks=asked.acks)


def _not_in_transaction(cluster: SimulatedCluster, partition: Partition, asked: Produce) -> ErrorCode:
    batch, producers = asked.batch, partition.log.producers
    entry = producers.entries.get(batch.producer_id)
    if entry is not None and entry.producer_epoch == batch.producer_epoch and entry.transaction_first_offset >= 0:
        return ErrorCode.NONE
    try:
        producers.check_epoch(batch.producer_id, batch.producer_epoch)
    except BrokerError as error:
        return error.code
    error_code = cluster.transactions.verify(
        asked.transactional_id or "", batch.producer_id, batch.producer_epoch, TopicPartition(*asked.where)
    )
    if error_code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NOT_ENOUGH_REPLICAS if error_code in _PASSING else error_code


class Fetch(NamedTuple):
    """A fetch of one partition. `who` is the reader: a later fetch of it replaces a parked one."""

    where: Where
    who: object
    fetch: FetchRequest


def fetch(cluster: SimulatedCluster, asked: Fetch, reply: Reply) -> None:
    """Answer with records, or when the end of the partition has moved."""
    partition = cluster.topics.get(*asked.where)
    if partition is None:
        reply(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        return

    def answer(fetched: Fetched) -> None:
        reply(fetched.error, fetched)

    partition.fetch(asked.who, asked.fetch, answer)


class ListOffset(NamedTuple):
    """A timestamp in ms, LATEST or EARLIEST."""

    where: Where
    timestamp: int
    committed_only: bool = False


class ListedOffset(NamedTuple):
    """The offset found and the timestamp of its record; -1 for none."""

    offset: int
    timestamp: int = -1


def list_offset(cluster: SimulatedCluster, asked: ListOffset, reply: Reply) -> None:
    """Answer with the offset of a time."""
    partition = cluster.topics.get(*asked.where)
    if partition is None:
        reply(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    elif partition.leader < 0:
        reply(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    else:
        reply(ErrorCode.NONE, _listed(partition, asked))


def _listed(partition: Partition, asked: ListOffset) -> ListedOffset:
    end = partition.stable_end if asked.committed_only else partition.high_watermark
    if asked.timestamp == LATEST:
        return ListedOffset(end)
    if asked.timestamp == EARLIEST:
        return ListedOffset(partition.log.start_offset)
    found = partition.log.offset_at(asked.timestamp, end)
    return ListedOffset(-1) if found is None else ListedOffset(*found)


class KnownPartition(NamedTuple):
    """A partition, as metadata describe it."""

    partition: int
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]


class KnownTopic(NamedTuple):
    """A topic, as metadata describe it; with an error it has no partitions."""

    name: str
    error: ErrorCode
    partitions: Sequence[KnownPartition] = ()


class Metadata(NamedTuple):
    """Topics by name; None: all of them. `create`: those that do not exist are created, if the cluster allows it."""

    topics: Sequence[str] | None
    create: bool = False


def metadata(cluster: SimulatedCluster, asked: Metadata, reply: Reply) -> None:
    """Answer with the topics."""
    topics = cluster.topics
    names = sorted(topics.image.topics) if asked.topics is None else asked.topics
    missing = [name for name in names if name not in topics.image.topics]
    if missing and asked.create and cluster.config.auto_create_topics_enable:
        topics.change(create_topics, CreateTopics(tuple(NewTopic(name) for name in missing)))
    reply(ErrorCode.NONE, [_known(cluster, name) for name in names])


def _known(cluster: SimulatedCluster, name: str) -> KnownTopic:
    partitions = cluster.topics.of(name)
    if not partitions:
        return KnownTopic(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return KnownTopic(name, ErrorCode.NONE, [KnownPartition(p.index, p.leader, p.replicas, p.isr) for p in partitions])
