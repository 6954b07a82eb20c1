"""What StreamsGroupHeartbeat and StreamsGroupDescribe have in common: the checks of a request, and tasks on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.streams.streams_events import MemberHeartbeat, Offsets
from streamactors.broker.group.streams.streams_group import STATIC_LEFT, Topology
from streamactors.broker.group.streams.streams_record import (
    CopartitionGroup,
    InternalTopic,
    StoredEndpoint,
    StoredPair,
    Subtopology,
)
from streamactors.broker.group.streams.tasks import Tasks, TaskSet
from streamactors.broker.protocol.record_schema import too_long
from streamactors.broker.requests.request import Request

_TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")
_NAMES = ("ActiveTasks", "StandbyTasks", "WarmupTasks")


def invalid(message: Any) -> tuple[ErrorCode, str] | None:
    """Return what is wrong with a heartbeat, as Apache Kafka says it; None if it is well formed."""
    why = _malformed(message)
    if why is not None:
        return ErrorCode.INVALID_REQUEST, why
    for part in message.topology.subtopologies if message.topology is not None else ():
        for topic in part.state_changelog_topics:
            if topic.partitions:
                return (
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to {topic.partitions}.",
                )
    return None


def _malformed(message: Any) -> str | None:
    topology, epoch = message.topology, message.member_epoch
    if topology is not None and any(part.source_topic_regex for part in topology.subtopologies):
        return "Regular expressions for source topics are not supported yet."
    strings = {
        "MemberId": message.member_id,
        "GroupId": message.group_id,
        "InstanceId": message.instance_id,
        "RackId": message.rack_id,
    }
    for name, value in strings.items():
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    tasks = [getattr(message, name) for name in _TASKS]
    if epoch == 0:
        if message.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        for name, found in zip(_NAMES, tasks, strict=True):
            if found:
                return f"{name} must be empty when (re-)joining."
        if topology is None:
            return "Topology must be non-null when (re-)joining."
    elif epoch == STATIC_LEFT and message.instance_id is None:
        return "InstanceId can't be null."
    elif epoch < STATIC_LEFT:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    if any(found is not None for found in tasks) and any(found is None for found in tasks):
        return "If one task-type is non-null, all must be non-null."
    if epoch != 0 and topology is not None:
        return "Topology can only be provided when (re-)joining."
    return _unstorable(message, strings)


def _unstorable(message: Any, strings: Mapping[str, str | None]) -> str | None:
    """Return what cannot be stored in the records of the group, or has no sense."""
    for name, value in {**strings, "ProcessId": message.process_id}.items():
        if too_long(value):
            return f"{name} is too long to be stored."
    for part in message.topology.subtopologies if message.topology is not None else ():
        sources, repartitions = len(part.source_topics), len(part.repartition_source_topics)
        for group in part.copartition_groups:
            if not all(0 <= i < sources for i in group.source_topics):
                return (
                    f"A copartition group of subtopology {part.subtopology_id} names a source topic that is not there."
                )
            if not all(0 <= i < repartitions for i in group.repartition_source_topics):
                return f"A copartition group of subtopology {part.subtopology_id} names a repartition topic that is not there."
    return None


def beat_of(request: Request) -> MemberHeartbeat:
    """Return the heartbeat of a checked request. Raises Refusal INVALID_REQUEST for tasks that are there twice."""
    message = request.message
    endpoint, tags = message.user_endpoint, message.client_tags
    tasks = [getattr(message, name) for name in _TASKS]
    return MemberHeartbeat(
        member_id=message.member_id,
        epoch=message.member_epoch,
        version=request.version,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=message.rebalance_timeout_ms,
        topology=None if message.topology is None else _topology(message.topology),
        owned=None if tasks[0] is None else Tasks(*map(_tasks, tasks)),
        process_id=message.process_id,
        endpoint=None if endpoint is None else StoredEndpoint(endpoint.host, endpoint.port),
        client_tags=None if tags is None else {each.key: each.value for each in tags},
        task_offsets=_offsets(message.task_offsets),
        task_end_offsets=_offsets(message.task_end_offsets),
        shutdown=message.shutdown_application,
        endpoint_epoch=message.endpoint_information_epoch,
        client_id=request.client_id,
        client_host=f"/{request.connection.host}",
    )


def _tasks(given: Iterable[Any]) -> TaskSet:
    found: dict[str, frozenset[int]] = {}
    for each in given:
        partitions = frozenset(each.partitions)
        if partitions:
            found[each.subtopology_id] = found.get(each.subtopology_id, frozenset()) | partitions
    return found


def _offsets(given: Iterable[Any] | None) -> Offsets | None:
    if given is None:
        return None
    found: dict[str, dict[int, int]] = {}
    for each in given:
        found.setdefault(each.subtopology_id, {})[each.partition] = each.offset
    return found


def _topology(given: Any) -> Topology:
    return Topology(given.epoch, {part.subtopology_id: _part(part) for part in given.subtopologies})


def _part(part: Any) -> Subtopology:
    return Subtopology(
        part.subtopology_id,
        tuple(part.source_topics),
        tuple(part.source_topic_regex),
        tuple(map(_topic, part.state_changelog_topics)),
        tuple(part.repartition_sink_topics),
        tuple(map(_topic, part.repartition_source_topics)),
        tuple(
            CopartitionGroup(
                tuple(each.source_topics), tuple(each.source_topic_regex), tuple(each.repartition_source_topics)
            )
            for each in part.copartition_groups
        ),
    )


def _topic(topic: Any) -> InternalTopic:
    configs = tuple(StoredPair(each.key, each.value) for each in topic.topic_configs)
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)


def task_ids(tasks: TaskSet) -> list[dict[str, Any]]:
    """Return tasks as they are on the wire."""
    return [{"subtopology_id": name, "partitions": sorted(tasks[name])} for name in sorted(tasks)]
