"""OffsetCommit: commits offsets of a group.

Versions: 2-10 (2-4 a retention of the client, 6 leader epochs KIP-320, 7 group.instance.id KIP-345, 8
flexible, 9 the epoch of a KIP-848 member in place of the generation, 10 topic ids).   Authorised: READ GROUP,
READ each TOPIC.
Errors: by partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE, ILLEGAL_GENERATION,
UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH (v9+), REBALANCE_IN_PROGRESS, GROUP_ID_NOT_FOUND (v9+),
COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, INVALID_GROUP_ID.   Differs from Apache
Kafka: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamactors.broker.apis.group_requests import GroupRequest, asked_partitions, by_topic, one_error
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import CommitOffsets, NewOffset
from streamactors.broker.protocol.record_schema import too_long
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import read_group


def handle(request: Request) -> Body | Later:
    message = request.message
    if too_long(message.group_id):
        return refuse(request, ErrorCode.INVALID_GROUP_ID)
    asked = asked_partitions(request, message.topics)
    wanted = [each for each in asked if each.error is ErrorCode.NONE]
    if not wanted:
        return {"topics": by_topic(asked)}

    request.node.groups.tell(
        message.group_id,
        CommitOffsets(
            request.answer_with(lambda errors: {"topics": by_topic(asked, errors)}),
            message.group_id,
            message.member_id,
            message.group_instance_id,
            message.generation_id_or_member_epoch,
            new_offsets(wanted),
            message.retention_time_ms,
            unknown_group=ErrorCode.GROUP_ID_NOT_FOUND if request.version >= 9 else ErrorCode.ILLEGAL_GENERATION,
            version=request.version,
        ),
    )
    return LATER


def new_offsets(asked: Sequence[GroupRequest]) -> list[NewOffset]:
    """Return the offsets of a commit, for the coordinator."""
    return [
        NewOffset(
            each.topic,
            each.partition,
            each.entry.committed_offset,
            each.entry.committed_leader_epoch,
            each.entry.committed_metadata or "",
        )
        for each in asked
    ]


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"topics": one_error(request.message.topics, code)}


API: Final = Api(key=8, versions=(2, 10), authorise=read_group, handle=handle, refuse=refuse, alone=True)
