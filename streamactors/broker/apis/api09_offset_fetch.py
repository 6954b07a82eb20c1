"""OffsetFetch: how far a group has come, for some partitions or for all.

Versions: 1-10 (2 all partitions, 5 leader epochs KIP-320, 6 flexible, 7 require_stable KIP-447, 8 several groups
KIP-709, 9 the KIP-848 member, 10 topic ids).   Authorised: DESCRIBE GROUP, DESCRIBE each TOPIC.
Errors: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR; by partition:
UNSTABLE_OFFSET_COMMIT, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID. A group nobody knows has offset -1 everywhere
and no error.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamactors.broker.api import LATER, Api, Body, Later
from streamactors.broker.coordinator.record_codec import too_long
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import FetchedOffset, FetchedOffsets, FetchOffsets
from streamactors.broker.request import Request
from streamactors.broker.security import Operation, ResourceType, each

_SEVERAL_GROUPS: Final = 8
_TOPIC_IDS: Final = 10


def handle(request: Request) -> Body | Later:
    asked = _groups(request)
    answers: list[dict[str, Any] | None] = [None] * len(asked)
    if not asked:
        return {"groups": []}

    def answered(at: int, answer: dict[str, Any]) -> None:
        answers[at] = answer
        if all(each is not None for each in answers):
            request.answer(_body(request, answers))

    for at, (group_id, topics) in enumerate(asked):
        _fetch(request, group_id, topics, lambda answer, at=at: answered(at, answer))
    return LATER


def _groups(request: Request) -> list[tuple[str, Sequence[Any] | None]]:
    message = request.message
    if request.version >= _SEVERAL_GROUPS:
        return [(group.group_id, group.topics) for group in message.groups]
    return [(message.group_id, message.topics)]


def _fetch(request: Request, group_id: str, topics: Sequence[Any] | None, then: Any) -> None:
    if not request.allowed(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        then(_failed(group_id, topics, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    if too_long(group_id):
        then(_failed(group_id, topics, ErrorCode.INVALID_GROUP_ID))
        return
    image = request.node.controller.image
    refused: list[FetchedOffset] = []
    unknown: list[dict[str, Any]] = []
    partitions: list[tuple[str, int]] | None = None
    if topics is not None:
        partitions = []
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
                refused.extend(FetchedOffset(name, index, None, error) for index in topic.partition_indexes)

    def reply(fetched: FetchedOffsets) -> None:
        if fetched.error is not ErrorCode.NONE:
            then(_failed(group_id, topics, fetched.error))
            return
        seen = [
            offset
            for offset in fetched.offsets
            if topics is not None or request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, offset.topic)
        ]
        then({"group_id": group_id, "topics": _by_topic(request, [*seen, *refused]) + unknown})

    require_stable = request.message.require_stable
    request.node.groups.tell(group_id, FetchOffsets(reply, group_id, partitions, require_stable))


def _by_topic(request: Request, offsets: Sequence[FetchedOffset]) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, committed, error in offsets:
        answer: dict[str, Any] = {"partition_index": partition, "error_code": error}
        if committed is None:
            answer |= {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}
        else:
            answer |= {
                "committed_offset": committed.offset,
                "committed_leader_epoch": committed.leader_epoch,
                "metadata": committed.metadata,
            }
        topics.setdefault(topic, []).append(answer)
    if request.version < _TOPIC_IDS:
        return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    known = request.node.controller.image.topics
    # Offsets of a topic deleted this moment have no id to be answered under.
    return [
        {"topic_id": known[name].topic_id, "partitions": partitions}
        for name, partitions in topics.items()
        if name in known
    ]


def _failed(group_id: str, topics: Sequence[Any] | None, error: ErrorCode) -> dict[str, Any]:
    refused = [_refused(topic, error) for topic in topics or ()]
    return {"group_id": group_id, "error_code": error, "topics": [], "refused": refused}


def _refused(topic: Any, error: ErrorCode) -> dict[str, Any]:
    partitions = [
        {
            "partition_index": index,
            "committed_offset": -1,
            "committed_leader_epoch": -1,
            "metadata": "",
            "error_code": error,
        }
        for index in topic.partition_indexes
    ]
    topic_id = getattr(topic, "topic_id", None)
    known = {"name": topic.name} if topic_id is None else {"topic_id": topic_id}
    return {**known, "partitions": partitions}


def _body(request: Request, groups: Sequence[Any]) -> Body:
    if request.version >= _SEVERAL_GROUPS:
        return {"groups": [{name: group[name] for name in group if name != "refused"} for group in groups]}
    (group,) = groups
    error = group.get("error_code", ErrorCode.NONE)
    # Version 1 has no error of its own: each partition says it.
    topics = group["refused"] if error is not ErrorCode.NONE and request.version < 2 else group["topics"]
    return {"error_code": error, "topics": topics}


def refuse(request: Request, code: ErrorCode) -> Body:
    return _body(request, [_failed(group_id, topics, code) for group_id, topics in _groups(request)])


API: Final = Api(key=9, versions=(1, 10), authorise=each, handle=handle, refuse=refuse)
