"""StreamsGroupDescribe: streams groups (KIP-1071) with their epochs, topology, members and tasks.

Versions: 0-1 (1 description of the topology, name of the assignor).   Authorised: DESCRIBE each GROUP; a group with a source topic that the client
may not describe is not shown.
Errors: by group: GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, UNSUPPORTED_VERSION while streams.version is 0.
Differs from Apache Kafka: there is never a description of the topology, because no plug-in could store it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from streamactors.broker.apis.authorised_operations import NOT_ASKED, on_group
from streamactors.broker.apis.feature_off import groups_not_supported, streams_enabled
from streamactors.broker.apis.streams_requests import task_ids
from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.streams.sticky import NAME as STICKY
from streamactors.broker.group.streams.streams_events import Offsets, Remembered
from streamactors.broker.group.streams.streams_group import StreamsGroup, StreamsMember
from streamactors.broker.group.streams.streams_messages import Described, DescribeStreamsGroup
from streamactors.broker.group.streams.streams_record import InternalTopic
from streamactors.broker.group.streams.tasks import NO_TASKS, Tasks
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_HIDDEN: Final = "The described group uses topics that the client is not authorized to describe."


def handle(request: Request) -> Body | Later:
    if not streams_enabled(request):
        return groups_not_supported(request)
    asked = list(request.message.group_ids)
    allowed = [name for name in asked if request.allowed(Operation.DESCRIBE, ResourceType.GROUP, name)]

    @request.answer_with
    def reply(found: Sequence[Described]) -> Body:
        described = dict(zip(allowed, found, strict=True))
        return {"groups": [_describe(request, name, described.get(name)) for name in asked]}

    def ask(group_id: str, then: Any) -> None:
        request.node.groups.tell(group_id, DescribeStreamsGroup(then, group_id))

    gather([partial(ask, group_id) for group_id in allowed], reply)
    return LATER


def _describe(request: Request, group_id: str, found: Described | None) -> dict[str, Any]:
    if found is None:
        return _failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if found.group is None or found.known is None:
        return _failed(group_id, found.error, found.why)
    topology = found.group.topology
    topics = () if topology is None else topology.required_topics()
    if not all(request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics):
        return _failed(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN)
    operations = on_group(request, group_id) if request.message.include_authorized_operations else NOT_ASKED
    return {**_of_group(found.group, found.known), "authorized_operations": operations}


def _of_group(group: StreamsGroup, known: Remembered) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE,
        "group_id": group.group_id,
        "group_state": group.state.value,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "topology": _topology(group, known),
        "members": [_of_member(group, known, member) for member in group.members.values()],
        "assignor_name": STICKY,
    }


def _topology(group: StreamsGroup, known: Remembered) -> dict[str, Any] | None:
    """Return the topology; with the partitions of the internal topics when they are known."""
    configured = known.configured
    if configured is not None and configured.problem is None:
        parts = [
            _part(name, part.source_topics, part.repartition_sinks, part.changelogs, part.repartition_sources)
            for name, part in configured.subtopologies.items()
        ]
        return {"epoch": configured.epoch, "subtopologies": parts}
    if group.topology is None:
        return None
    parts = [
        _part(name, part.source_topics, part.repartition_sinks, part.changelogs, part.repartition_sources)
        for name, part in sorted(group.topology.subtopologies.items())
    ]
    return {"epoch": group.topology.epoch, "subtopologies": parts}


def _part(
    name: str, sources: Any, sinks: Any, changelogs: Sequence[InternalTopic], repartitions: Sequence[InternalTopic]
) -> dict[str, Any]:
    return {
        "subtopology_id": name,
        "source_topics": sorted(sources),
        "repartition_sink_topics": sorted(sinks),
        "state_changelog_topics": [_internal(topic) for topic in sorted(changelogs)],
        "repartition_source_topics": [_internal(topic) for topic in sorted(repartitions)],
    }


def _internal(topic: InternalTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "topic_configs": [pair._asdict() for pair in topic.configs],
    }


def _of_member(group: StreamsGroup, known: Remembered, member: StreamsMember) -> dict[str, Any]:
    endpoint = member.endpoint
    return {
        "member_id": member.member_id,
        "member_epoch": member.epoch,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "user_endpoint": None if endpoint is None else endpoint._asdict(),
        "client_tags": [{"key": key, "value": value} for key, value in member.client_tags.items()],
        "task_offsets": _offsets(known.offsets.get(member.member_id, {})),
        "task_end_offsets": _offsets(known.end_offsets.get(member.member_id, {})),
        "assignment": _assignment(member.assigned.tasks),
        "target_assignment": _assignment(group.targets.get(member.member_id, NO_TASKS)),
        "is_classic": False,
    }


def _assignment(tasks: Tasks) -> dict[str, Any]:
    active, standby, warmup = tasks
    return {"active_tasks": task_ids(active), "standby_tasks": task_ids(standby), "warmup_tasks": task_ids(warmup)}


def _offsets(offsets: Offsets) -> list[dict[str, Any]]:
    return [
        {"subtopology_id": name, "partition": partition, "offset": offset}
        for name, found in sorted(offsets.items())
        for partition, offset in sorted(found.items())
    ]


def _failed(group_id: str, error: ErrorCode, why: str | None = None) -> dict[str, Any]:
    return {"group_id": group_id, "error_code": error, "error_message": why, "authorized_operations": NOT_ASKED}


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"groups": [_failed(group_id, code) for group_id in request.message.group_ids]}


API: Final = Api(key=89, versions=(0, 1), authorise=each, handle=handle, refuse=refuse)
