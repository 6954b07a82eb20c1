"""A partition for clients of one listener, in Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import NO_LEADER
from streamactors.broker.metadata.metadata_record import BrokerRegistration, PartitionRecord
from streamactors.broker.node import Node
from streamactors.broker.protocol.metadata import PartitionMetadata

Brokers = Mapping[int, BrokerRegistration]


def possible_leaders(node: Node) -> Brokers:
    """Return the brokers to which clients may be sent.

    A broker that has refused the connection of this follower has probably ended. With controller.fence.closed.connections, so has a broker that
    has closed the connection. Clients that lost the broker at the same moment ask here before another leader is elected. They ask again soon if
    the answer names no leader. If it names the dead leader to librdkafka, it asks again after a second; it loses another second if the answer
    with the new leader is also the first one without the dead broker."""
    brokers = node.metadata.image.brokers
    replication = node.replication
    fences = node.config.controller_fence_closed_connections
    lost = replication.lost_leaders if fences else replication.refusing_leaders
    return {each: broker for each, broker in brokers.items() if each not in lost} if lost else brokers


NO_EPOCH: Final = -1


def leader_to_ask(node: Node, topic: str, partition: PartitionRecord) -> int:
    """Return the broker to which clients of a partition are sent: its leader. NO_LEADER if it has none.

    A leader without a lease (see `replication.lease_state`) sends them to the replica that is elected first in its place. librdkafka asks only
    brokers that it is connected to: without another name it would ask this one until the network is repaired. The replica answers if it leads, or
    knows who does."""
    hosted = node.partitions.get(topic, partition.partition) if partition.leader == node.node_id else None
    if hosted is None or hosted.has_lease:
        return partition.leader
    brokers = node.metadata.image.brokers
    others = (each for each in partition.replicas if each in partition.isr and each != node.node_id)
    return next((each for each in others if each in brokers and not brokers[each].fenced), NO_LEADER)


def may_lack_lease(node: Node) -> bool:
    """Whether this broker has no session with the controller, so that each partition must be checked."""
    return node.clock.now_ms() > node.replication.lease_end_ms


def partition_view(
    brokers: Brokers, partition: PartitionRecord, listener: str, leader: int | None = None
) -> PartitionMetadata:
    """Return a partition, with its leader or another broker in its place (see `leader_to_ask`). The epoch of another broker is not known: with
    this one's a broker that leads already would refuse the client as one of the past. A leader that is not among the brokers, or has no address on
    this listener, is left out, with an error."""
    leader, code = partition.leader if leader is None else leader, ErrorCode.NONE
    epoch = partition.leader_epoch if leader == partition.leader else NO_EPOCH
    registration = brokers.get(leader)
    if registration is None:
        leader, code = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    elif registration.endpoint(listener) is None:
        leader, code = NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
    return PartitionMetadata(
        code,
        partition.partition,
        leader,
        epoch,
        partition.replicas,
        partition.isr,
        tuple([broker for broker in partition.replicas if _is_offline(brokers, partition, broker)]),
    )


def _is_offline(brokers: Brokers, partition: PartitionRecord, broker_id: int) -> bool:
    """Whether the broker of a replica is away, or has lost the data folder of the replica."""
    broker = brokers.get(broker_id)
    if broker is None or broker.fenced:
        return True
    return not broker.has_folder_of(partition)
