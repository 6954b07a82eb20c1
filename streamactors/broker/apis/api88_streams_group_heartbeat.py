"""StreamsGroupHeartbeat: a member joins, stays in or leaves a streams group (KIP-1071), and gets its tasks.

Versions: 0-1 (1 status 6, missing client tags).   Authorised: READ GROUP, DESCRIBE each topic of the topology; CREATE CLUSTER or
TOPIC for internal topics.
Errors: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED,
STREAMS_INVALID_TOPOLOGY, INVALID_REQUEST, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
UNSUPPORTED_VERSION while streams.version is 0.
Differs from Apache Kafka: no descriptions of topologies are asked for, because no plug-in could store them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from streamactors.broker.apis.feature_off import not_supported, streams_enabled
from streamactors.broker.apis.streams_requests import beat_of, invalid, task_ids
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.streams.streams_events import EndpointPartitions, MemberAnswer
from streamactors.broker.group.streams.streams_messages import ToStreamsGroup
from streamactors.broker.group.streams.streams_record import InternalTopic
from streamactors.broker.group.streams.topology_setup import Status
from streamactors.broker.metadata.topic_name import INTERNAL_TOPICS, topic_name_complaint
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType, each

_HAS_LAG: Final = 1


def handle(request: Request) -> Body | Later:
    if not streams_enabled(request):
        return {**not_supported(request), "status": ()}
    message = request.message
    group_id = message.group_id
    if not request.allowed(Operation.READ, ResourceType.GROUP, group_id):
        return _error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused = _check_topics(request) or invalid(message)
    if refused is not None:
        return _error(*refused)

    @request.answer_with
    def reply(
        error: ErrorCode, why: str | None, answer: MemberAnswer | None, to_create: tuple[InternalTopic, ...]
    ) -> Body:
        if answer is None:
            return _error(error, why)
        if to_create:
            _create(request, group_id, to_create, answer)
        return _body(answer, request.version)

    request.node.groups.tell(group_id, ToStreamsGroup(reply, group_id, beat_of(request)))
    return LATER


def _check_topics(request: Request) -> tuple[ErrorCode, str | None] | None:
    """Return why the topics of the topology are refused, None if they are not."""
    topology = request.message.topology
    if topology is None:
        return None
    names = dict.fromkeys(name for part in topology.subtopologies for name in _topics_of(part))
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        why = f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        return ErrorCode.STREAMS_INVALID_TOPOLOGY, why
    bad = [name for name in names if topic_name_complaint(name) is not None]
    if bad:
        return ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(bad)} are not valid topic names."
    if not all(request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
    return None


def _topics_of(part: Any) -> Iterable[str]:
    yield from part.source_topics
    yield from part.repartition_sink_topics
    yield from (each.name for each in part.repartition_source_topics)
    yield from (each.name for each in part.state_changelog_topics)


def _create(request: Request, group_id: str, topics: tuple[InternalTopic, ...], answer: MemberAnswer) -> None:
    """Have the internal topics created if the client may do it; the answer says why they are not there."""
    details = [detail for status, detail in answer.status if status is Status.MISSING_INTERNAL_TOPICS]
    others = [each for each in answer.status if each[0] is not Status.MISSING_INTERNAL_TOPICS]
    denied: list[str] = []
    if not request.allowed(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        denied = [t.name for t in topics if not request.allowed(Operation.CREATE, ResourceType.TOPIC, t.name)]
    if denied:
        details.append(f"Unauthorized to CREATE on topics {', '.join(denied)}.")
    else:
        creation = request.node.streams_topics
        failed = [f"{t.name} ({creation.failed[t.name]})" for t in topics if t.name in creation.failed]
        if failed:
            details.append(f"Creation failed: {', '.join(failed)}.")
        creation.create(group_id, topics)
    answer.status = [*others, (Status.MISSING_INTERNAL_TOPICS, "; ".join(details))]


def _body(answer: MemberAnswer, version: int) -> Body:
    body: dict[str, Any] = {
        "member_id": answer.member_id,
        "member_epoch": answer.epoch,
        "status": [{"status_code": status, "status_detail": detail} for status, detail in answer.status],
        "endpoint_information_epoch": answer.endpoint_epoch,
    }
    if answer.rules is not None:
        body |= {
            "heartbeat_interval_ms": answer.rules.heartbeat_interval_ms,
            "task_offset_interval_ms": answer.rules.task_offset_interval_ms,
        }
        if version >= _HAS_LAG:  # before, Apache Kafka answers 0
            body["acceptable_recovery_lag"] = answer.rules.acceptable_recovery_lag
    if answer.tasks is not None:
        active, standby, warmup = answer.tasks
        body |= {"active_tasks": task_ids(active), "standby_tasks": task_ids(standby), "warmup_tasks": task_ids(warmup)}
    if answer.endpoints is not None:
        body["partitions_by_user_endpoint"] = [_endpoint(each) for each in answer.endpoints]
    return body


def _endpoint(found: EndpointPartitions) -> dict[str, Any]:
    return {
        "user_endpoint": found.endpoint._asdict(),
        "active_partitions": [{"topic": topic, "partitions": partitions} for topic, partitions in found.active],
        "standby_partitions": [{"topic": topic, "partitions": partitions} for topic, partitions in found.standby],
    }


def _error(code: ErrorCode, why: str | None = None) -> Body:
    return {"error_code": code, "error_message": why, "status": ()}


def refuse(_request: Request, code: ErrorCode) -> Body:
    return _error(code)


API: Final = Api(key=88, versions=(0, 1), authorise=each, handle=handle, refuse=refuse)
