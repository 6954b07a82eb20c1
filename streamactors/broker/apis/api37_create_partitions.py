"""CreatePartitions: grows topics to a number of partitions, each independently of the others.

Versions: 0-3 (2 flexible).   Authorised: ALTER of each TOPIC.
Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, POLICY_VIOLATION, INVALID_REQUEST,
THROTTLING_QUOTA_EXCEEDED (version 3).
Differs from Apache Kafka: answered when the partitions accept records, regardless of the timeout; more than 10,000 new
partitions are a POLICY_VIOLATION, as in CreateTopics, instead of an unknown server error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamactors.broker.controller.command import CreatePartitions, MorePartitions, Outcome
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_DENIED: Final = Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")


def handle(request: Request) -> Later:
    message = request.message
    allowed = [t for t in message.topics if request.allowed(Operation.ALTER, ResourceType.TOPIC, t.name)]

    @request.answer_with
    def reply(outcomes: Mapping[str, Outcome]) -> Body:
        names = dict.fromkeys(topic.name for topic in message.topics)
        return {"results": [_result(name, *outcomes.get(name, _DENIED)) for name in names]}

    command = CreatePartitions(
        tuple(map(_more, allowed)), message.validate_only, request.spend(strict=request.version >= 3)
    )
    request.node.controller.submit(command, reply)
    return LATER


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"results": [_result(topic.name, code, None) for topic in request.message.topics]}


def _more(topic: Any) -> MorePartitions:
    assignment = topic.assignments
    given = None if assignment is None else tuple(tuple(each_one.broker_ids) for each_one in assignment)
    return MorePartitions(topic.name, topic.count, given)


def _result(name: str, code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"name": name, "error_code": code, "error_message": message}


API: Final = Api(key=37, versions=(0, 3), authorise=each, handle=handle, refuse=refuse, forwarded=True)
