"""What a follower has told its leader in a fetch session, so that the next request names only what has changed (KIP-227). Pure.

Owner: the fetcher of one leader. Rules: Apache Kafka's FetchSessionHandler. The first request names every partition and asks for a session. A leader
that opens none answers with session 0, and every request is whole. After an error or a lost connection the follower does not know what the leader
has: the next request is whole again, and closes the old session."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.sessions.fetch_session import next_epoch
from streamactors.broker.replication.sessions.session_cache import NO_SESSION, OPENS

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")

_UNKNOWN_THERE: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND})


class SessionRequest(NamedTuple, Generic[K, A]):
    """The part of a fetch that is about the session."""

    session_id: int
    epoch: int
    named: Mapping[K, A]
    forgotten: tuple[K, ...]


class FollowerSession(Generic[K, A]):
    """`known` is what the leader has been told, by partition."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = OPENS
        self.known: dict[K, A] = {}

    @property
    def is_whole(self) -> bool:
        """Whether the next request must name every partition."""
        return self.epoch == OPENS

    def request(self, due: Mapping[K, A], gone: Iterable[K]) -> SessionRequest[K, A]:
        """Return the next request. `due` holds every partition if `is_whole`, else at least those that have changed; `gone` those that are not
        to be fetched now."""
        if self.is_whole:
            self.known = dict(due)
            return SessionRequest(self.id, self.epoch, due, ())
        forgotten = tuple(key for key in gone if key not in due and self.known.pop(key, None) is not None)
        named = {key: asked for key, asked in due.items() if self.known.get(key) != asked}
        self.known.update(named)
        return SessionRequest(self.id, self.epoch, named, forgotten)

    def answered(self, session_id: int) -> None:
        """The leader has answered without an error. `session_id`: the session of the answer, or NO_SESSION."""
        if session_id == NO_SESSION or (self.epoch != OPENS and session_id != self.id):
            self.id, self.epoch = NO_SESSION, OPENS
        else:
            self.id, self.epoch = session_id, next_epoch(self.epoch)

    def failed(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The request failed: with an error of the leader, or without an answer."""
        if error in _UNKNOWN_THERE:
            self.id = NO_SESSION  # there is nothing to close
        self.epoch = OPENS
