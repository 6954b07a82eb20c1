"""What can happen to a classic group, and what it wants done about it.

Owner: nobody; these are frozen messages between the coordinator (or a test) and `classic_state.step`. `reply_to`
is the address of a waiting request: the state machine keeps it and gives it back in an `Answer`, and never looks
inside."""

from __future__ import annotations

from dataclasses import dataclass

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic_group import Group, Member, Protocols

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
    fresh_member_id: str  # the id a newcomer gets; chance is not for a state machine
    needs_known_id: bool = True  # JoinGroup v4+: a dynamic newcomer is sent back with its id first (KIP-394)
    can_skip_assignment: bool = True  # JoinGroup v9+: a returning static leader is told not to assign again (KIP-814)


@dataclass(frozen=True, slots=True)
class SyncGroup:
    reply_to: object
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...] = ()  # the leader's; everybody else sends none


@dataclass(frozen=True, slots=True)
class Heartbeat:
    reply_to: object
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """One member of a LeaveGroup request; an instance id without a member id is an administrator's removal."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    reply_to: object
    members: tuple[Leaving, ...]


# -- events: time, the log, the coordinator ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """Nothing was heard of a member, or of a handed-out member id, for its session timeout."""

    member_id: str


@dataclass(frozen=True, slots=True)
class InitialDelayElapsed:
    delay_ms: int  # the part that just elapsed
    remaining_ms: int  # how much longer newcomers may make the first rebalance wait


@dataclass(frozen=True, slots=True)
class JoinDeadline:
    """The rebalance timeout is over: whoever has not joined again is out."""


@dataclass(frozen=True, slots=True)
class SyncDeadline:
    """The rebalance timeout is over since the generation was made: whoever has not synced is out."""

    generation: int


@dataclass(frozen=True, slots=True)
class AssignmentWritten:
    """The log answered to the `WriteGroup` of a leader's assignment."""

    generation: int
    assignments: tuple[tuple[str, bytes], ...]
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class StaticMemberWritten:
    """The log answered to the `WriteGroup` of a static member's return into a stable group."""

    replaced: Member  # to go back to, should the write have failed
    member_id: str
    leader_before: str | None
    can_skip_assignment: bool
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class EmptyWritten:
    """The log answered to the `WriteGroup` of a group without members; nobody waits for it."""

    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Loaded:
    """The group was just read from the log: its members' sessions start now."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The group is gone: deleted by a request, or expired."""


@dataclass(frozen=True, slots=True)
class Resigned:
    """This broker is not the group's coordinator any more."""


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
    | Loaded
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
class Answer:
    reply_to: object
    response: JoinAnswer | SyncAnswer | HeartbeatAnswer | LeaveAnswer


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Append this picture of the group to the log; `then` comes back as an event with the log's error filled in."""

    group: Group
    assignments: tuple[tuple[str, bytes], ...]
    then: AssignmentWritten | StaticMemberWritten | EmptyWritten


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Deliver `event` in `delay_ms`, unless the timer of this key is set again or cancelled before."""

    key: str
    delay_ms: int
    event: SessionExpired | InitialDelayElapsed | JoinDeadline | SyncDeadline


@dataclass(frozen=True, slots=True)
class CancelTimer:
    key: str


Effect = Answer | WriteGroup | SetTimer | CancelTimer

JOIN_TIMER = "join"
SYNC_TIMER = "sync"


def session_timer(member_id: str) -> str:
    """Return the key of a member's session timer; member ids cannot collide with the two group-wide keys."""
    return f"session {member_id}"
