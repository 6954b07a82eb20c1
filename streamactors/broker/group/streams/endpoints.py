"""Which instance serves which partitions: for interactive queries between the instances of an application.

Owner: the state machine of streams groups. Pure. Source: KIP-1071; Apache Kafka's EndpointToPartitionsManager."""

from __future__ import annotations

from collections.abc import Iterable

from streamactors.broker.group.streams.streams_events import EndpointPartitions
from streamactors.broker.group.streams.streams_group import StreamsMember
from streamactors.broker.group.streams.tasks import TaskSet, merge
from streamactors.broker.group.streams.topology_setup import ConfiguredTopology, Counts

_Partitions = tuple[tuple[str, tuple[int, ...]], ...]


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, partitions_of: Counts
) -> list[EndpointPartitions]:
    """Return the partitions of every member that has an endpoint."""
    return [
        EndpointPartitions(
            member.endpoint,
            _partitions(member.assigned.tasks.active, configured, partitions_of),
            _partitions(merge(member.assigned.standby, member.assigned.warmup), configured, partitions_of),
        )
        for member in members
        if member.endpoint is not None
    ]


def _partitions(tasks: TaskSet, configured: ConfiguredTopology, partitions_of: Counts) -> _Partitions:
    found: list[tuple[str, tuple[int, ...]]] = []
    for name, partitions in tasks.items():
        part = configured.subtopologies.get(name)
        if part is None:
            continue  # the topology has become another one since the task was assigned
        for topic in sorted(part.source_topics | {each.name for each in part.repartition_sources}):
            count = partitions_of(topic) or 0
            read = tuple(partition for partition in sorted(partitions) if partition < count)
            if read:
                found.append((topic, read))
    return tuple(found)
