"""The sessions of all keys of a task.

Owner: SessionOperator. Each key has a list of sessions ordered by (end, start); most lists have one or two."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, MutableMapping
from operator import attrgetter
from typing import Any, Final

from streamactors.windows.record import RecordContext
from streamactors.windows.state.serdes import Ident, key_bytes
from streamactors.windows.state.store_log import StoreLog

_FEW: Final = 8  # a scan of up to so many sessions is faster than a binary search
_end_of = attrgetter("end")
two_times: Final = struct.Struct(">QQ").pack


class Session:
    """[start, end] of a key with its aggregate. `gone`: removed from the store; if it was merged, `old` is its value."""

    __slots__ = ("context", "dirty", "end", "gone", "ident", "key", "logged", "old", "prior", "start", "value")

    def __init__(self, ident: Ident, key: Any, start: int, end: int, value: Any, context: RecordContext | None) -> None:
        self.ident = ident
        self.key = key
        self.start = start
        self.end = end
        self.value = value
        self.context = context
        self.prior: Any = None
        self.old: Any = None
        self.gone = False
        self.dirty = True
        self.logged = False

    def __lt__(self, other: object) -> bool:
        return False


class SessionStore:
    """Keeps each session in the list of its key until `remove` or `forget`, and reports additions and removals to the log."""

    __slots__ = ("_by_key", "_log")

    def __init__(self, by_key: MutableMapping[Ident, list[Session]], log: StoreLog) -> None:
        self._by_key = by_key
        self._log = log

    def __iter__(self) -> Iterator[Session]:
        return (session for sessions in self._by_key.values() for session in sessions)

    def overlapping(self, ident: Ident, ends_from: int, starts_to: int) -> list[Session]:
        """Return the key's sessions with end >= `ends_from` and start <= `starts_to`, by ascending end."""
        sessions = self._by_key.get(ident)
        if not sessions:
            return []
        if len(sessions) > _FEW:
            sessions = sessions[bisect_left(sessions, ends_from, key=_end_of) :]
        return [session for session in sessions if session.end >= ends_from and session.start <= starts_to]

    def find(self, ident: Ident, start: int | None, end: int | None) -> Session | None:
        for session in self._by_key.get(ident, ()):
            if session.start == start and session.end == end:
                return session
        return None

    def add(self, session: Session) -> None:
        """Insert a session in order. It replaces a session with the same times."""
        sessions = self._by_key.get(session.ident)
        if sessions is None:
            sessions = self._by_key[session.ident] = []
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

    def remove(self, session: Session) -> None:
        session.gone = True
        self._by_key[session.ident].remove(session)
        if self._log.on:
            self._log.leave(session_key(session), session)

    def forget(self, before: int) -> None:
        """Remove the sessions that end before `before`, and keys without sessions. O(keys)."""
        empty = []
        for ident, sessions in self._by_key.items():
            while sessions and sessions[0].end < before:
                self.remove(sessions[0])
            if not sessions:
                empty.append(ident)
        for ident in empty:
            del self._by_key[ident]


def session_key(session: Session) -> bytes:
    """The key of a session in the changelog."""
    return key_bytes(session.ident) + two_times(session.end, session.start)
