"""Common parts of the group APIs: checks of group ids, and the partitions of a request."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.record_schema import too_long
from streamactors.broker.security.rights import Authorise, Operation, ResourceType

if TYPE_CHECKING:
    from streamactors.broker.requests.request import Request


def group_id_error(group_id: str) -> ErrorCode:
    """Return INVALID_GROUP_ID for an empty id, or one that is too long to be stored."""
    return ErrorCode.INVALID_GROUP_ID if not group_id or too_long(group_id) else ErrorCode.NONE


def with_group_id(authorise: Authorise) -> Authorise:
    """Return a check of the right to a group and of its id."""

    def check(request: Request) -> ErrorCode:
        return authorise(request) or group_id_error(request.message.group_id)

    return check


class GroupRequest(NamedTuple):
    """One partition of a request. `error` is NONE if the partition exists and the client has the right to it."""

    error: ErrorCode
    topic: str
    topic_id: uuid.UUID | None
    partition: int
    entry: Any


def asked_partitions(
    request: Request, topics: Sequence[Any], operation: Operation = Operation.READ
) -> list[GroupRequest]:
    """Return every partition of a request, by topic name or (OffsetCommit v10) topic id, in order."""
    image = request.node.metadata.image
    asked: list[GroupRequest] = []
    for topic in topics:
        topic_id = getattr(topic, "topic_id", None)
        found = image.topics_by_id.get(topic_id) if topic_id is not None else image.topics.get(topic.name)
        name = found.name if found is not None else topic.name
        if found is None and topic_id is not None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not request.allowed(operation, ResourceType.TOPIC, name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif found is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            error = ErrorCode.NONE
        count = 0 if found is None else len(found.partitions)
        for entry in topic.partitions:
            index = entry.partition_index
            missing = error is ErrorCode.NONE and not 0 <= index < count
            asked.append(
                GroupRequest(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if missing else error, name, topic_id, index, entry)
            )
    return asked


def by_topic(asked: Sequence[GroupRequest], errors: Iterable[ErrorCode] = ()) -> list[dict[str, Any]]:
    """Return the `topics` of a response: one error per partition, under its topic, in the order of the request.

    `errors` are the coordinator's, one for each partition that it was asked about, in order."""
    topics: dict[tuple[str, uuid.UUID | None], list[dict[str, int]]] = {}
    answers = iter(errors)
    for each in asked:
        topics.setdefault((each.topic, each.topic_id), []).append(
            {"partition_index": each.partition, "error_code": each.error or next(answers)}
        )
    return [_topic(name, topic_id, partitions) for (name, topic_id), partitions in topics.items()]


def one_error(topics: Sequence[Any], error: ErrorCode) -> list[dict[str, Any]]:
    """Return the `topics` of a response with one error for everything asked."""
    return [
        _topic(
            topic.name,
            getattr(topic, "topic_id", None),
            [{"partition_index": p.partition_index, "error_code": error} for p in topic.partitions],
        )
        for topic in topics
    ]


def _topic(name: str, topic_id: uuid.UUID | None, partitions: list[dict[str, int]]) -> dict[str, Any]:
    topic: dict[str, Any] = {"name": name, "partitions": partitions}
    if topic_id is not None:
        topic["topic_id"] = topic_id
    return topic
