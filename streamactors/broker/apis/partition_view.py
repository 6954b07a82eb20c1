"""A partition as clients of one listener see it, for Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from streamactors.broker.controller.image import NO_LEADER, MetadataImage, PartitionImage
from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.metadata import Partition


def partition_view(image: MetadataImage, partition: PartitionImage, listener: str) -> Partition:
    """Return what clients are told. A leader that this listener does not reach is none, and the error says why."""
    leader, code = partition.leader, ErrorCode.NONE
    brokers = image.brokers
    registration = brokers.get(leader)
    if registration is None:
        leader, code = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    elif registration.endpoint(listener) is None:
        leader, code = NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
    return Partition(
        code,
        partition.partition,
        leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        tuple([broker for broker in partition.replicas if broker not in brokers or brokers[broker].fenced]),
    )
