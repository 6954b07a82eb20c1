"""The versioned store of a processor: the value of a key as of a time. Rules T-26 and T-87."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from typing import Any, Final, NamedTuple

from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.state_store import StateStore, time_bytes
from streamactors.windows.processors.store_definitions import VersionedStore
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.processors.window import Timed
from streamactors.windows.state.changelog_settings import versioned
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.stores import Stores


class Refusal(Enum):
    """The answer of a put that is older than the history."""

    REFUSED = "refused"


REFUSED: Final = Refusal.REFUSED


class Version(NamedTuple):
    """One version of a value: valid from `timestamp` on, until `valid_to`; None: it is the newest.

    `valid_to` is always None in a processor with semantics="kafka": Kafka Streams gives processors no end of a version."""

    value: Any
    timestamp: int
    valid_to: int | None


class VersionedValues(StateStore[Timed]):
    """What `context.store(name)` returns for a VersionedStore. A version of None is a deletion."""

    entry = Timed
    tells_ends = True
    """Whether `get` and `delete` say until when a version is valid."""

    def __init__(
        self, definition: VersionedStore, node: str, env: TaskEnvironment, time: TaskTime, stores: Stores
    ) -> None:
        super().__init__(definition, node, env, time, stores)
        self._history = definition.history_ms
        env.changelog_settings[self.name] = versioned(definition.history_ms)

    def put(self, key: Any, value: Any, time: int) -> int | Refusal | None:
        """Write a version that is valid from `time` on; None deletes from then on.

        Returns the end of its validity, None if it is the newest, or REFUSED (and counts the row as dropped) if it is older than the
        history."""
        ident = self._key_bytes(key)
        if time < self._newest - self._history or time < 0:
            self.env.metrics.dropped_late += 1
            return REFUSED
        self._newest = max(self._newest, time)
        self._put(ident + time_bytes(time), Timed(key, time, 0, value))
        after = self._next(ident, time)
        self._forget(ident)
        return None if after is None else after.time

    def delete(self, key: Any, time: int) -> Version | None:
        """Delete a key from `time` on; return the version that was valid then, or None. None also for a time before the history,
        where nothing is deleted."""
        before = None if time < self._newest - self._history else self.get(key, time)
        self.put(key, None, time)
        return before

    def get(self, key: Any, as_of: int | None = None) -> Version | None:
        """Return the version that is valid at `as_of` (None: the newest); None if there is none, or it is older than the history."""
        ident = self._key_bytes(key)
        length = len(ident) + 8
        low, high = ident + time_bytes(0), ident + (b"\xff" * 9 if as_of is None else time_bytes(as_of) + b"\x00")
        for at, entry in self._entries.scan(low, high, reverse=True):
            if len(at) == length:
                after = self._next(ident, entry.time)
                if entry.value is None or (
                    after is not None and as_of is not None and as_of < self._newest - self._history
                ):
                    return None
                return Version(entry.value, entry.time, after.time if after is not None and self.tells_ends else None)
        return None

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        newest = {at[:-8]: entry for at, entry in self._entries.scan()}  # the last version of each key comes last
        return (StoreEntry(each.key, each.value, each.time) for each in newest.values() if each.value is not None)

    def _next(self, ident: bytes, time: int) -> Timed | None:
        found = self._entries.scan(ident + time_bytes(time) + b"\x00", ident + b"\xff" * 9)
        return next((entry for at, entry in found if len(at) == len(ident) + 8), None)

    def _forget(self, ident: bytes) -> None:
        """Remove the key's versions whose validity ended before the history."""
        limit = self._newest - self._history
        found = [
            (at, entry)
            for at, entry in self._entries.scan(ident + time_bytes(0), ident + time_bytes(limit + 1))
            if len(at) == len(ident) + 8
        ]
        for (at, _), (_, after) in pairwise(found):
            if after.time <= limit:
                self._remove(at)

    def _at(self, entry: Timed) -> bytes:
        return self._key_bytes(entry.key) + time_bytes(entry.time)
