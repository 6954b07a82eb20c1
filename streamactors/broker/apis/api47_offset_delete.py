"""OffsetDelete: deletes single committed offsets of topics that a group no longer subscribes to.

Versions: 0.   Authorised: DELETE GROUP, READ each TOPIC.   Errors: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND,
NON_EMPTY_GROUP (with members of another protocol than the consumer's), COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR; by partition:
GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED.   Differs from Apache Kafka:
nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamactors.broker.apis.group_requests import asked_partitions, by_topic, with_group_id
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import DeleteOffsets
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import delete_group


def handle(request: Request) -> Later:
    message = request.message
    asked = asked_partitions(request, message.topics)
    wanted = [(each.topic, each.partition) for each in asked if each.error is ErrorCode.NONE]

    @request.answer_with
    def reply(error: ErrorCode, errors: Sequence[ErrorCode]) -> Body:
        return {"error_code": error} if error else {"topics": by_topic(asked, errors)}

    request.node.groups.tell(message.group_id, DeleteOffsets(reply, message.group_id, wanted))
    return LATER


API: Final = Api(key=47, versions=(0, 0), authorise=with_group_id(delete_group), handle=handle, alone=True)
