"""The events and effects of the classic group's state machine.

Frozen messages between the coordinator (or a test) and `classic_state.step`. `reply_to` is the waiting request; the
machine keeps it and passes it on in an `GroupAnswer`."""

from __future__ import annotations

from dataclasses import dataclass

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_group import Group, Member, Protocols

# -- events: requests -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinGroup:
    reply_to: object
    member_id: str  # empty: a newcomer
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    fresh_member_id: str  # the random id for a newcomer, made outside the pure machine
    needs_known_id: bool = True  # JoinGroup v4+: a dynamic newcomer gets an id and joins again with it (KIP-394)
    can_skip_assignment: bool = True  # JoinGroup v9+: a returning static leader may skip the assignment (KIP-814)

    def refused(self, error: ErrorCode) -> JoinAnswer:
        return JoinAnswer(error, self.member_id)


@dataclass(frozen=True, slots=True)
class SyncGroup:
    reply_to: object
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...] = ()  # from the leader only

    def refused(self, error: ErrorCode) -> SyncAnswer:
        return SyncAnswer(error)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    reply_to: object
    member_id: str
    instance_id: str | None
    generation: int

    def refused(self, error: ErrorCode) -> HeartbeatAnswer:
        # While the groups are being read a heartbeat succeeds, as in Apache Kafka.
        loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatAnswer(ErrorCode.NONE if loading else error)


@dataclass(frozen=True, slots=True)
class Leaving:
    """One member of a LeaveGroup request. An administrator names the instance id without a member id."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    reply_to: object
    members: tuple[Leaving, ...]

    def refused(self, error: ErrorCode) -> LeaveAnswer:
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveAnswer(ErrorCode.NONE, tuple((leaving, error) for leaving in self.members))
        return LeaveAnswer(error)


# -- events: time, the log, the coordinator ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """A member, or a pending member id, was silent for its session timeout."""

    member_id: str


@dataclass(frozen=True, slots=True)
class InitialDelayElapsed:
    delay_ms: int  # the elapsed part
    remaining_ms: int  # the longest time that newcomers can still extend the delay


@dataclass(frozen=True, slots=True)
class JoinDeadline:
    """The rebalance timeout is over: members that have not joined again are removed."""


@dataclass(frozen=True, slots=True)
class SyncDeadline:
    """The rebalance timeout since the new generation is over: members that have not synced are removed."""

    generation: int


@dataclass(frozen=True, slots=True)
class AssignmentWritten:
    """The log has answered the `WriteGroup` of a leader's assignment."""

    generation: int
    assignments: tuple[tuple[str, bytes], ...]
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class StaticMemberWritten:
    """The log has answered the `WriteGroup` of a static member's return to a stable group."""

    replaced: Member  # restored if the write failed
    member_id: str
    leader_before: str | None
    can_skip_assignment: bool
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class EmptyWritten:
    """The log has answered the `WriteGroup` of a group without members; no request waits for it."""

    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class GroupLoaded:
    """The group was read from the log: the sessions of its members start now."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The group is deleted by a request, or has expired."""


@dataclass(frozen=True, slots=True)
class Resigned:
    """This broker is no longer the group's coordinator."""


Event = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | SessionExpired
    | InitialDelayElapsed
    | JoinDeadline
    | SyncDeadline
    | AssignmentWritten
    | StaticMemberWritten
    | EmptyWritten
    | GroupLoaded
    | Deleted
    | Resigned
)

# -- effects --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()  # for the leader: member id, instance id, subscription


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    error: ErrorCode
    members: tuple[tuple[Leaving, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    reply_to: object
    response: JoinAnswer | SyncAnswer | HeartbeatAnswer | LeaveAnswer


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Append this state of the group to the log; `then` comes back as an event, with the log's error."""

    group: Group
    assignments: tuple[tuple[str, bytes], ...]
    then: AssignmentWritten | StaticMemberWritten | EmptyWritten


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Deliver `event` after `delay_ms`, unless the timer of this key is set again or cancelled before."""

    key: str
    delay_ms: int
    event: SessionExpired | InitialDelayElapsed | JoinDeadline | SyncDeadline


@dataclass(frozen=True, slots=True)
class CancelTimer:
    key: str


Effect = GroupAnswer | WriteGroup | SetTimer | CancelTimer

JOIN_TIMER = "join"
SYNC_TIMER = "sync"


def session_timer(member_id: str) -> str:
    """Return the key of a member's session timer; member ids cannot collide with the two group-wide keys."""
    return f"session {member_id}"
