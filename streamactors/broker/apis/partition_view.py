"""A partition for clients of one listener, in Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import NO_LEADER, MetadataImage
from streamactors.broker.metadata.metadata_record import PartitionRecord
from streamactors.broker.protocol.metadata import PartitionMetadata


def partition_view(image: MetadataImage, partition: PartitionRecord, listener: str) -> PartitionMetadata:
    """Return a partition. A leader without an address on this listener is left out, with an error."""
    leader, code = partition.leader, ErrorCode.NONE
    brokers = image.brokers
    registration = brokers.get(leader)
    if registration is None:
        leader, code = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    elif registration.endpoint(listener) is None:
        leader, code = NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
    return PartitionMetadata(
        code,
        partition.partition,
        leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        tuple([broker for broker in partition.replicas if broker not in brokers or brokers[broker].fenced]),
    )
