"""DeleteTopics: deletes topics by name or by id, each independently of the others.

Versions: 1-6 (4 flexible, 5 error messages, 6 topic ids).   Authorised: DELETE CLUSTER, or DELETE of each TOPIC;
a missing topic is UNKNOWN_TOPIC_OR_PARTITION for a principal with DESCRIBE of it.
Errors: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, TOPIC_DELETION_DISABLED, INVALID_REQUEST,
THROTTLING_QUOTA_EXCEEDED (from version 5 on).
Differs from Apache Kafka: answered when the partitions are deleted, regardless of the timeout."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from streamactors.broker.controller.command import DeleteTopics, TopicDeleted
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType, each

TopicNameOrId = tuple[str | None, uuid.UUID | None]


def handle(request: Request) -> Later:
    counts = Counter(_asked(request))
    asked = list(counts)
    everywhere = request.allowed(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)
    results = [_refused(request, *topic, count=count, everywhere=everywhere) for topic, count in counts.items()]
    wanted = [topic for topic, refused in zip(asked, results, strict=True) if refused is None]

    @request.answer_with
    def reply(deleted: Sequence[TopicDeleted]) -> Body:
        done = iter(deleted)
        return {"responses": [_result(next(done)) if refused is None else refused for refused in results]}

    # _refused has checked that exactly one of the two is given
    topics = tuple(topic_id if name is None else name for name, topic_id in wanted)
    command = DeleteTopics(topics, request.spend(strict=request.version >= 5))  # type: ignore[arg-type]
    request.node.controller.submit(command, reply)
    return LATER


def refuse(request: Request, code: ErrorCode) -> Body:
    return {
        "responses": [{"name": name, "topic_id": topic_id, "error_code": code} for name, topic_id in _asked(request)]
    }


def _asked(request: Request) -> list[TopicNameOrId]:
    if request.version < 6:
        return [(name, None) for name in request.message.topic_names]
    return [(topic.name, topic.topic_id) for topic in request.message.topics]


def _refused(
    request: Request, name: str | None, topic_id: uuid.UUID | None, *, count: int, everywhere: bool
) -> dict[str, Any] | None:
    """Return the result of a topic that is refused here, or None. `everywhere`: the principal may delete every topic."""
    code, message = ErrorCode.INVALID_REQUEST, None
    if name is not None and topic_id is not None:
        message = "You may not specify both topic name and topic id."
    elif name is None and topic_id is None:
        message = "Neither topic name nor id were specified."
    elif count > 1:
        message = f"Duplicate topic {'id' if name is None else 'name'}."
    elif not everywhere and not _may_hear_of(request, name, topic_id):
        code, message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."
    if message is None:
        return None
    return {"name": name, "topic_id": topic_id, "error_code": code, "error_message": message}


def _may_hear_of(request: Request, name: str | None, topic_id: uuid.UUID | None) -> bool:
    """Whether the controller may answer: the principal may delete the topic, or may know that it is missing."""
    image = request.node.metadata.image
    topic = image.topics.get(name) if name is not None else topic_id and image.topics_by_id.get(topic_id)
    if topic:
        return request.allowed(Operation.DELETE, ResourceType.TOPIC, topic.name)
    return name is None or request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _result(deleted: TopicDeleted) -> dict[str, Any]:
    return {
        "name": deleted.name,
        "topic_id": deleted.topic_id,
        "error_code": deleted.outcome.code,
        "error_message": deleted.outcome.message,
    }


API: Final = Api(key=20, versions=(1, 6), authorise=each, handle=handle, refuse=refuse, forwarded=True)
