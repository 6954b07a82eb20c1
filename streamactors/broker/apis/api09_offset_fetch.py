"""OffsetFetch: the committed offsets of a group, for some partitions or for all.

Versions: 1-10 (2 all partitions, 5 leader epochs KIP-320, 6 flexible, 7 require_stable KIP-447, 8 several groups
KIP-709, 9 the KIP-848 member, 10 topic ids).   Authorised: DESCRIBE GROUP, DESCRIBE each TOPIC.
Errors: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR; by partition:
UNSTABLE_OFFSET_COMMIT, UNKNOWN_MEMBER_ID and STALE_MEMBER_EPOCH of a consumer group (v9+), TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID. An unknown group has offset -1 for every
partition, without an error.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import FetchedOffset, FetchedOffsets, FetchOffsets
from streamactors.broker.group.offset_record import CommittedOffset
from streamactors.broker.protocol.record_schema import too_long
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_SEVERAL_GROUPS: Final = 8
_MEMBERS: Final = 9
_TOPIC_IDS: Final = 10


class AskedGroup(NamedTuple):
    """One group of a request. Its partitions are split by the rights of the client."""

    group_id: str
    topics: Sequence[Any] | None  # as the client named them; None for all
    error: ErrorCode
    partitions: list[tuple[str, int]] | None = None
    denied: Sequence[FetchedOffset] = ()
    unknown: Sequence[dict[str, Any]] = ()
    member: tuple[str | None, int] = (None, -1)  # id and epoch, from version 9 on


def handle(request: Request) -> Later:
    members = _members(request)
    asked = [
        _asked(request, *group)._replace(member=member) for group, member in zip(_groups(request), members, strict=True)
    ]

    @request.answer_with
    def reply(found: list[FetchedOffsets]) -> Body:
        return _body(request, [_group(request, *each) for each in zip(asked, found, strict=True)])

    gather([partial(_fetch, request, group) for group in asked], reply)
    return LATER


def _groups(request: Request) -> list[tuple[str, Sequence[Any] | None]]:
    message = request.message
    if request.version >= _SEVERAL_GROUPS:
        return [(group.group_id, group.topics) for group in message.groups]
    return [(message.group_id, message.topics)]


def _members(request: Request) -> list[tuple[str | None, int]]:
    message = request.message
    if request.version >= _MEMBERS:
        return [(group.member_id, group.member_epoch) for group in message.groups]
    return [(None, -1)] * len(_groups(request))


def _asked(request: Request, group_id: str, topics: Sequence[Any] | None) -> AskedGroup:
    if not request.allowed(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return AskedGroup(group_id, topics, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if too_long(group_id):
        return AskedGroup(group_id, topics, ErrorCode.INVALID_GROUP_ID)
    if topics is None:
        return AskedGroup(group_id, None, ErrorCode.NONE)
    image = request.node.metadata.image
    denied: list[FetchedOffset] = []
    unknown: list[dict[str, Any]] = []
    partitions: list[tuple[str, int]] = []
    for topic in topics:
        name = topic.name
        if request.version >= _TOPIC_IDS:
            found = image.topics_by_id.get(topic.topic_id)
            if found is None:
                unknown.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            name = found.name
        if request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name):
            partitions.extend((name, index) for index in topic.partition_indexes)
        else:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            denied.extend(FetchedOffset(name, index, None, error) for index in topic.partition_indexes)
    return AskedGroup(group_id, topics, ErrorCode.NONE, partitions, denied, unknown)


def _fetch(request: Request, asked: AskedGroup, then: Callable[[FetchedOffsets], object]) -> None:
    if asked.error is not ErrorCode.NONE:
        then(FetchedOffsets(asked.error))
        return
    fetch = FetchOffsets(then, asked.group_id, asked.partitions, request.message.require_stable, *asked.member)
    request.node.groups.tell(asked.group_id, fetch)


def _group(request: Request, asked: AskedGroup, fetched: FetchedOffsets) -> dict[str, Any]:
    if fetched.error is not ErrorCode.NONE:
        return _failed(asked.group_id, asked.topics, fetched.error)
    seen = [
        offset
        for offset in fetched.offsets
        if asked.topics is not None or request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, offset.topic)
    ]
    return {"group_id": asked.group_id, "topics": [*_by_topic(request, [*seen, *asked.denied]), *asked.unknown]}


def _by_topic(request: Request, offsets: Sequence[FetchedOffset]) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, committed, error in offsets:
        topics.setdefault(topic, []).append(_partition(partition, committed, error))
    if request.version < _TOPIC_IDS:
        return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    known = request.node.metadata.image.topics
    # Offsets of a topic that was just deleted are left out, because its id is unknown.
    return [
        {"topic_id": known[name].topic_id, "partitions": partitions}
        for name, partitions in topics.items()
        if name in known
    ]


def _failed(group_id: str, topics: Sequence[Any] | None, error: ErrorCode) -> dict[str, Any]:
    refused = [_refused(topic, error) for topic in topics or ()]
    return {"group_id": group_id, "error_code": error, "topics": [], "refused": refused}


def _refused(topic: Any, error: ErrorCode) -> dict[str, Any]:
    partitions = [_partition(index, None, error) for index in topic.partition_indexes]
    topic_id = getattr(topic, "topic_id", None)
    known = {"name": topic.name} if topic_id is None else {"topic_id": topic_id}
    return {**known, "partitions": partitions}


def _partition(index: int, committed: CommittedOffset | None, error: ErrorCode) -> dict[str, Any]:
    offset, leader_epoch, metadata = (-1, -1, "") if committed is None else committed[:3]
    return {
        "partition_index": index,
        "committed_offset": offset,
        "committed_leader_epoch": leader_epoch,
        "metadata": metadata,
        "error_code": error,
    }


def _body(request: Request, groups: Sequence[Any]) -> Body:
    if request.version >= _SEVERAL_GROUPS:
        return {"groups": [{name: group[name] for name in group if name != "refused"} for group in groups]}
    (group,) = groups
    error = group.get("error_code", ErrorCode.NONE)
    # Version 1 has no error of the group: each partition has the error.
    topics = group["refused"] if error is not ErrorCode.NONE and request.version < 2 else group["topics"]
    return {"error_code": error, "topics": topics}


def refuse(request: Request, code: ErrorCode) -> Body:
    return _body(request, [_failed(group_id, topics, code) for group_id, topics in _groups(request)])


API: Final = Api(key=9, versions=(1, 10), authorise=each, handle=handle, refuse=refuse)
