"""The fetch sessions of a broker, a limited number of them (`max.incremental.fetch.session.cache.slots`). Pure.

Owner: the node, on the data plane. Rules: Apache Kafka's FetchSessionCache (KIP-227). A full cache gives up a session that no client has used for two
minutes; otherwise the least valuable one, if the new one is worth more. A follower's session is worth more than a consumer's, then one
with more partitions. A session is safe for its first two minutes; a follower may take the place of a consumer at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.fetch import FIRST_TOPIC_ID, FetchRequest
from streamactors.broker.replication.sessions.fetch_session import Cached, FetchSession, next_epoch

NO_SESSION: Final = 0
OPENS: Final = 0
"""Epoch of a request that names all its partitions and asks for a session."""
ENDS: Final = -1
"""Epoch of a request that names all its partitions and wants no session."""
SAFE_MS: Final = 120_000.0
_LARGEST_ID: Final = 2**31 - 1


class SessionCache:
    """`on_removed` is called with each partition that a session gives up."""

    def __init__(self, slots: int, on_removed: Callable[[Cached, FetchSession], object], random: Random) -> None:
        self._slots = slots
        self._on_removed = on_removed
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(tuple(self._sessions.values()))

    def get(self, number: int) -> FetchSession | None:
        """Return an open session."""
        return self._sessions.get(number)

    def enter(self, request: FetchRequest, version: int, now_ms: float) -> FetchSession | ErrorCode | None:
        """Return the session of a request, updated; None if the request has none; or the error for the answer."""
        if request.session_epoch in (OPENS, ENDS):
            self.remove(request.session_id)
            return None
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_ids != (version >= FIRST_TOPIC_ID):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        for cached in session.update(request.topics, request.forgotten):
            self._on_removed(cached, session)
        if not session.entries:
            self.remove(session.id)
            return None
        session.epoch = next_epoch(session.epoch)
        session.used_ms = now_ms
        return session

    def open(self, request: FetchRequest, version: int, now_ms: float) -> FetchSession | None:
        """Open a session with the partitions of a request; None if the cache is full of sessions that must stay."""
        size = sum(len(topic.partitions) for topic in request.topics)
        if len(self._sessions) >= self._slots and not self._evict(request.replica_id >= 0, size, now_ms):
            return None
        number = self._random.randint(1, _LARGEST_ID)
        while number in self._sessions:
            number = self._random.randint(1, _LARGEST_ID)
        session = FetchSession(number, request.replica_id, request.topics, now_ms, uses_ids=version >= FIRST_TOPIC_ID)
        self._sessions[number] = session
        return session

    def remove(self, number: int) -> None:
        """End a session. An unknown one is ignored."""
        session = self._sessions.pop(number, None)
        if session is not None:
            for cached in session.entries.values():
                self._on_removed(cached, session)
            session.entries.clear()
            session.changed.clear()

    def unsent(self, number: int, opens: bool) -> None:
        """The answer to a session was not sent. The client does not know of a session that it would have opened."""
        session = self._sessions.get(number)
        if session is not None and opens:
            self.remove(number)
        elif session is not None:
            session.unsent()

    def _evict(self, of_follower: bool, size: int, now_ms: float) -> bool:
        oldest = min(self._sessions.values(), key=lambda each: each.used_ms, default=None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > SAFE_MS:
            self.remove(oldest.id)
            return True
        open_to_all = [each for each in self._sessions.values() if each.used_ms - each.created_ms > SAFE_MS]
        if of_follower:
            open_to_all += [
                each
                for each in self._sessions.values()
                if not each.of_follower and each.used_ms - each.created_ms <= SAFE_MS
            ]
        worst = min(open_to_all, key=_value, default=None)
        if worst is None or (of_follower, size, 0) < _value(worst):
            return False
        self.remove(worst.id)
        return True


def _value(session: FetchSession) -> tuple[bool, int, int]:
    return session.of_follower, len(session.entries), session.id
