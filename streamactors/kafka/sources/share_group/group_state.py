"""GroupMember: the membership in a share group: when a heartbeat is due, what it says, and what its answer means.

Owner: `share_member.py`, under its lock. Times are milliseconds. Source: KIP-932 (ShareGroupHeartbeat)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from streamactors.kafka.client.share.protocol import ErrorCode, Shard

BACK_OFF_MS: Final = 100
MAX_BACK_OFF_MS: Final = 5_000
FIRST_INTERVAL_MS: Final = 1_000
"""The time between heartbeats until the coordinator says one."""
EAGER_MS: Final = 300
EAGER: Final = 10
"""So many heartbeats come early, until the first partition is assigned: the coordinator first has to make the group's state for it."""
_JOINING: Final = 0
_LEAVING: Final = -1

_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_COORDINATOR: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_LATER: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT})


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat to send. `topics`: None leaves them unchanged."""

    member_id: str
    epoch: int
    topics: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The coordinator's answer. `assignment`: None leaves it unchanged."""

    error: int = 0
    message: str = ""
    epoch: int = 0
    interval_ms: int = 0
    assignment: frozenset[Shard] | None = None


class Event(enum.Enum):
    """What an answer means for the owner."""

    NOTHING = "nothing"
    ASSIGNED = "assigned"
    """`assignment` has changed."""
    FENCED = "fenced"
    """The group has put the member out; it joins again with another id."""
    MOVED = "moved"
    """The coordinator is another broker: look it up."""
    REFUSED = "refused"
    """The error stays: the source fails."""
    LEFT = "left"


class GroupMember:
    """One member. `new_id` makes member ids."""

    def __init__(self, topics: Sequence[str], new_id: Callable[[], str]) -> None:
        self._topics = tuple(topics)
        self._new_id = new_id
        self.member_id = new_id()
        self.epoch = _JOINING
        self.assignment: frozenset[Shard] = frozenset()
        self.due_ms = 0.0
        """When the next heartbeat is to be sent."""
        self.interval_ms = FIRST_INTERVAL_MS
        self.joined = False
        """True after the first assignment, maybe of nothing."""
        self._whole = True  # the next heartbeat says everything
        self._failures = 0
        self._eager_left = EAGER

    def heartbeat(self) -> Heartbeat:
        """Return the heartbeat to send now."""
        return Heartbeat(self.member_id, self.epoch, self._topics if self._whole else None)

    def leave(self) -> Heartbeat:
        """Return the last heartbeat."""
        self.epoch = _LEAVING
        return Heartbeat(self.member_id, _LEAVING, None)

    def failed(self, now_ms: float) -> None:
        """The connection broke, or no coordinator was found."""
        self._whole = True
        self._failures += 1
        self.due_ms = now_ms + min(BACK_OFF_MS << min(self._failures - 1, 10), MAX_BACK_OFF_MS)

    def answered(self, answer: HeartbeatAnswer, now_ms: float) -> Event:
        """The coordinator has answered a heartbeat."""
        if self.epoch == _LEAVING:
            return Event.LEFT
        if answer.error:
            return self._refused(answer, now_ms)
        self._failures = 0
        self._whole = False
        self.epoch = answer.epoch
        self.interval_ms = answer.interval_ms or self.interval_ms
        eager = not self.assignment and not answer.assignment and self._eager_left > 0
        self._eager_left -= eager
        self.due_ms = now_ms + (min(EAGER_MS, self.interval_ms) if eager else self.interval_ms)
        if answer.assignment is None:
            return Event.NOTHING
        changed = not self.joined or answer.assignment != self.assignment
        self.joined = True
        self.assignment = answer.assignment
        return Event.ASSIGNED if changed else Event.NOTHING

    def _refused(self, answer: HeartbeatAnswer, now_ms: float) -> Event:
        self.failed(now_ms)
        if answer.error in _FENCED:
            self.member_id = self._new_id()
            self.epoch = _JOINING
            self.assignment = frozenset()
            self.joined = False
            if self._failures == 1:
                self.due_ms = now_ms
            return Event.FENCED
        if answer.error in _COORDINATOR:
            return Event.MOVED
        return Event.NOTHING if answer.error in _LATER else Event.REFUSED
