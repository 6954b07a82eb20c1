"""The sessions of all keys of a task.

Owner: SessionOperator. Each key has a list of sessions ordered by (end, start); most lists have one or two."""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

from streamactors.windows.record import RecordContext
from streamactors.windows.state.key_lists import KeyLists, ListForm
from streamactors.windows.state.serdes import Ident, key_bytes
from streamactors.windows.state.store_log import Logged, StoreLog

_FEW: Final = 8  # a scan of up to so many sessions is faster than a binary search
_end_of = attrgetter("end")
_times_of = attrgetter("end", "start")
two_times: Final = struct.Struct(">QQ").pack


class Session:
    """[start, end] of a key with its aggregate. `gone`: removed from the store; if it was merged, `old` is its value. `born`: a number of its first
    row that grows with each arrival, where the order of arrivals counts, else 0."""

    __slots__ = ("born", "context", "dirty", "end", "gone", "ident", "key", "logged", "old", "prior", "start", "value")

    def __init__(self, ident: Ident, key: Any, start: int, end: int, value: Any, context: RecordContext | None) -> None:
        self.ident = ident
        self.key = key
        self.start = start
        self.end = end
        self.value = value
        self.context = context
        self.prior: Any = None
        self.old: Any = None
        self.born = 0
        self.gone = False
        self.dirty = True
        self.logged = False

    def __lt__(self, other: object) -> bool:
        return False


class SessionLists:
    """Keeps each session in the list of its key until `remove` or `forget`, and reports additions and removals to the log."""

    __slots__ = ("_by_key", "_log")

    def __init__(self, by_key: KeyLists[list[Session], Session], log: StoreLog) -> None:
        self._by_key = by_key
        self._log = log

    def __iter__(self) -> Iterator[Session]:
        return self._by_key.objects()

    def overlapping(self, ident: Ident, ends_from: int, starts_to: int) -> list[Session]:
        """Return the key's sessions with end >= `ends_from` and start <= `starts_to`, by ascending end."""
        sessions = self._by_key.get(ident)
        if not sessions:
            return []
        if len(sessions) > _FEW:
            sessions = sessions[bisect_left(sessions, ends_from, key=_end_of) :]
        return [session for session in sessions if session.end >= ends_from and session.start <= starts_to]

    def find(self, ident: Ident, start: int | None, end: int | None) -> Session | None:
        for session in self._by_key.get(ident) or ():
            if session.start == start and session.end == end:
                return session
        return None

    def add(self, session: Session) -> None:
        """Insert a session in order. It replaces a session with the same times."""
        sessions = self._by_key.get(session.ident)
        if sessions is None:
            sessions = []
            self._by_key.put(session.ident, sessions)
        at = len(sessions)
        while at and (before := sessions[at - 1]).end >= session.end:
            if before.end == session.end and before.start <= session.start:
                if before.start == session.start:  # Kafka mode hides it, so the row did not join it
                    self.remove(before)
                    at -= 1
                break
            at -= 1
        sessions.insert(at, session)
        if self._log.on:
            self._log.touch(None, session)
            self._by_key.changed(session.ident, 1)
            self._by_key.reach(session.end)

    def take_back(self, restored: Iterable[Session]) -> None:
        """Insert the sessions that the changelog has; no two of them have the same key and times."""
        get, put = self._by_key.get, self._by_key.put
        for session in restored:
            sessions = get(session.ident)
            if sessions is None:
                put(session.ident, [session])
            else:
                insort(sessions, session, key=_times_of)

    def touch(self, session: Session) -> None:
        """The value of a session has changed."""
        if not session.dirty:
            self._log.touch(None, session)
            self._by_key.changed(session.ident, 0)

    def remove(self, session: Session) -> None:
        """Remove a session that is there."""
        session.gone = True
        sessions = self._by_key.get(session.ident)
        assert sessions is not None
        sessions.remove(session)
        if self._log.on:
            self._log.leave(session_key(session), session)
            self._by_key.changed(session.ident, -1)

    def forget(self, before: int) -> None:
        """Remove the sessions that end before `before`, and keys without sessions. O(keys)."""
        self._gone(self._by_key.expire(before))

    def sweep(self) -> None:
        """A cut begins: remove sessions that `forget` has left on disk."""
        self._gone(self._by_key.sweep())

    def _gone(self, expired: Iterable[tuple[bytes, Logged]]) -> None:
        for key, session in expired:
            self._log.leave(key, session)

    def reach(self, end: int) -> None:
        """The store may have sessions that end up to this time."""
        self._by_key.reach(end)


def session_key(session: Session) -> bytes:
    """The key of a session in the changelog."""
    return key_bytes(session.ident) + two_times(session.end, session.start)


def _expired(sessions: list[Session], before: int) -> list[Session]:
    end = bisect_left(sessions, before, key=_end_of)
    gone = sessions[:end]
    del sessions[:end]
    for session in gone:
        session.gone = True
    return gone


def session_form(of: Callable[[list[Any]], Session]) -> ListForm[list[Session], Session]:
    """Return how sessions lie in a store; `of` returns the session of a changelog entry's fields."""
    return ListForm(
        suffix=16, of=of, listed=list, objects=iter, drop=_expired, key=lambda _, session: session_key(session)
    )
