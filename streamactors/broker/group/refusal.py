"""The answer that says one error for everything a request asked of a group coordinator.

Owner: the coordinator and whoever finds that there is none. Pure."""

from __future__ import annotations

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic_events import (
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    SyncAnswer,
    SyncGroup,
)
from streamactors.broker.group.group_messages import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    EndTransaction,
    FetchedOffsets,
    FetchOffsets,
    ListGroups,
    Request,
    ToGroup,
)


def refuse(request: Request, error: ErrorCode) -> None:
    """Answer a request with an error."""
    match request:
        case ToGroup(_, event):
            event.reply_to(refused(event, error))  # type: ignore[operator]
        case CommitOffsets():
            request.reply_to([error] * len(request.offsets))
        case FetchOffsets():
            request.reply_to(FetchedOffsets(error))
        case DescribeGroups():
            request.reply_to(error, [None] * len(request.group_ids))
        case ListGroups():
            request.reply_to(error, ())
        case DeleteGroups():
            request.reply_to([error] * len(request.group_ids))
        case DeleteOffsets():
            request.reply_to(error, ())
        case EndTransaction():
            request.reply_to(error)


def refused(
    event: JoinGroup | SyncGroup | Heartbeat | LeaveGroup, error: ErrorCode
) -> JoinAnswer | SyncAnswer | HeartbeatAnswer | LeaveAnswer:
    """Return a member's answer with an error."""
    match event:
        case JoinGroup():
            return JoinAnswer(error, event.member_id)
        case SyncGroup():
            return SyncAnswer(error)
        case LeaveGroup() if error is ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveAnswer(ErrorCode.NONE, tuple((leaving, error) for leaving in event.members))
        case LeaveGroup():
            return LeaveAnswer(error)
        case Heartbeat():
            # While groups are loaded a member is neither known nor unknown: it goes on, as with Apache Kafka.
            loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatAnswer(ErrorCode.NONE if loading else error)
