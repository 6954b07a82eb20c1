"""A partition as clients of one listener see it, for Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from typing import Any

from streamactors.broker.controller.image import NO_LEADER, MetadataImage, PartitionImage
from streamactors.broker.errors import ErrorCode


def partition_view(image: MetadataImage, partition: PartitionImage, listener: str) -> dict[str, Any]:
    """Return the response's fields. A leader that this listener does not reach is none, and the error says why."""
    leader, code = partition.leader, ErrorCode.NONE
    registration = image.brokers.get(leader)
    if registration is None:
        leader, code = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    elif registration.endpoint(listener) is None:
        leader, code = NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
    brokers = image.brokers
    return {
        "error_code": code,
        "partition_index": partition.partition,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": [b for b in partition.replicas if b not in brokers or brokers[b].fenced],
    }
