"""The versioned store of a processor: the value of a key as of a time, as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.state_store import StateStore, time_bytes
from streamactors.windows.processors.store_definitions import VersionedStore
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.processors.window import Timed
from streamactors.windows.state.changelog_settings import versioned
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.stores import Stores
from streamactors.windows.values import snapshot

_DELETED: Final = 1
"""The `sequence` of a version whose key was deleted at the time of the version, while it was the newest."""


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
    kafka = False
    """As in Kafka Streams: versions have no `valid_to`, and some deletions are forgotten (tables/versioned.py says which)."""

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
        if value is None and self.kafka and self._forgets(ident, time):
            self._remove(ident + time_bytes(time))
            return None
        after = self._next(ident, time)
        before = self._entries.get(ident + time_bytes(time))
        deleted = after is None and (value is None or (before is not None and before.sequence == _DELETED))
        self._put(ident + time_bytes(time), Timed(snapshot(key), time, _DELETED if deleted else 0, snapshot(value)))
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
        for entry in self._down(ident, as_of):
            after = self._next(ident, entry.time)
            if entry.value is None or (
                after is not None and as_of is not None and as_of < self._newest - self._history
            ):
                return None
            return Version(
                snapshot(entry.value), entry.time, after.time if after is not None and not self.kafka else None
            )
        return None

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        newest = {at[:-8]: entry for at, entry in self._entries.scan()}  # the last version of each key comes last
        return (StoreEntry(each.key, each.value, each.time) for each in newest.values() if each.value is not None)

    def _down(self, ident: bytes, as_of: int | None) -> Iterator[Timed]:
        """Yield the key's versions of `as_of` and before (None: all), the newest first."""
        low, high = ident + time_bytes(0), ident + (b"\xff" * 9 if as_of is None else time_bytes(as_of) + b"\x00")
        found = self._entries.scan(low, high, reverse=True)
        return (entry for at, entry in found if len(at) == len(ident) + 8)

    def _forgets(self, ident: bytes, time: int) -> bool:
        """True if Kafka Streams removes the newest version instead of putting a deletion at its time.

        It keeps a deletion if it has a row in which the version before ends at this time, or which begins at this time. A deletion that was
        the newest version when it was put has no such end."""
        match list(islice(self._down(ident, None), 2)):
            case [newest, *before]:
                live = newest.time == time and newest.value is not None and newest.sequence != _DELETED
                return live and all(each.value is None and each.sequence == _DELETED for each in before)
        return False

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
