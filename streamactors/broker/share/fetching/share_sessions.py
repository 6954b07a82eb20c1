"""Share sessions: what a member of a share group fetches from this broker, named once and changed later. Pure.

Owner: the node, on the data plane. Rules: Apache Kafka's ShareSessionCache. A session belongs to a connection: when it closes, the session ends and
the member's records are released. A full cache refuses new sessions; it gives none up."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from streamactors.broker.errors import ErrorCode, Refusal

OPENS: Final = 0
"""Epoch of the first request of a session."""
CLOSES: Final = -1
"""Epoch of the last request of a session."""
LAST_EPOCH: Final = 2**31 - 1


class Guard(Protocol):
    """Ends the session when its connection closes."""

    connection_id: int
    """The number of the connection. A connection that was accepted later has a higher one."""

    def detach(self) -> None:
        """The session has ended: do nothing any more."""


class SessionKey(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str


class Place(NamedTuple):
    """A partition of a topic."""

    topic_id: uuid.UUID
    partition: int


class ShareSession:
    """The partitions of one member, in their turn. `named` ones were named anew: the next answer mentions them even without records."""

    __slots__ = ("epoch", "guard", "key", "named", "places")

    def __init__(self, key: SessionKey, places: Iterable[Place]) -> None:
        self.key = key
        self.guard: Guard | None = None
        self.epoch = 1
        self.places: dict[Place, None] = dict.fromkeys(places)
        self.named: set[Place] = set()

    def in_turn(self, epoch: int) -> list[Place]:
        """Return the partitions, beginning with another one for each request, so that none waits forever."""
        places = list(self.places)
        at = epoch % len(places) if places and epoch > 0 else 0
        return places[at:] + places[:at]

    def update(self, added: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Take over what a request names and forgets."""
        for place in added:
            if place not in self.places:
                self.places[place] = None
                self.named.add(place)
        for place in forgotten:
            self.places.pop(place, None)
            self.named.discard(place)

    def next(self) -> None:
        """A request of this epoch has arrived."""
        self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1


class ShareSessions:
    """The sessions of this broker."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        """Return the session of a member."""
        return self._sessions.get(key)

    def open(self, key: SessionKey, places: Iterable[Place]) -> ShareSession:
        """Begin a session, in place of an older one of the member. Raises Refusal if there are too many."""
        before = self._sessions.get(key)
        if before is not None:
            self.remove(before)
        if len(self._sessions) >= self._most:
            raise Refusal(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, places)
        return session

    def enter(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of a request that continues or closes it. Raises Refusal."""
        session = self._sessions.get(key)
        if session is None:
            raise Refusal(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == CLOSES:
            return session
        if session.epoch != epoch:
            raise Refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.next()
        return session

    def remove(self, session: ShareSession) -> bool:
        """End a session. Return whether it was open."""
        if self._sessions.get(session.key) is not session:
            return False
        del self._sessions[session.key]
        if session.guard is not None:
            session.guard.detach()
        return True

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session here."""
        return any(key.group_id == group_id for key in self._sessions)
