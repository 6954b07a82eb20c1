"""What was there before the writes that the log has not answered yet.

Owner: a shard whose decisions count for the next request at once. The log answers in its order. A refused record is not in the log: what it changed is
as before again, also for later writes of the same key. The state must not be behind the log either: if a later write succeeded all the same, the
partition is read again."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, Generic, TypeVar

from streamactors.broker.errors import BrokerError, ErrorCode

IN_LOG: Final = frozenset({ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Outcomes of records that are in the log; with an error, not enough replicas have them yet."""

K = TypeVar("K")
V = TypeVar("V")


class Outcome(Enum):
    """What becomes of a change."""

    STAYS = auto()
    UNDONE = auto()  # `Unwritten.before` is the state again
    DOUBTFUL = auto()  # it is in the log, and one that it builds on is not


class StateBehindLog(BrokerError):
    """The log has a change whose predecessor it refused."""


class Write(Generic[V]):
    """One write. `before` is what its key was before it, None for nothing."""

    __slots__ = ("before", "builds_on_refused")

    def __init__(self, before: V | None) -> None:
        self.before = before
        self.builds_on_refused = False


class Unwritten(Generic[K, V]):
    """The writes in progress, by key."""

    def __init__(self) -> None:
        self._writes: dict[K, list[Write[V]]] = {}

    def begin(self, key: K, before: V | None) -> Write[V]:
        """Note a write that changes this key."""
        write = Write(before)
        self._writes.setdefault(key, []).append(write)
        return write

    def last(self, key: K) -> Write[V] | None:
        """Return the newest write of a key, None if all are answered."""
        pending = self._writes.get(key)
        return pending[-1] if pending else None

    def ended(self, key: K, write: Write[V], error: ErrorCode) -> Outcome:
        """Take the log's answer to a write."""
        pending = self._writes[key]
        pending.remove(write)
        if not pending:
            del self._writes[key]
        if error in IN_LOG:
            return Outcome.DOUBTFUL if write.builds_on_refused else Outcome.STAYS
        for later in pending:
            later.before = write.before
            later.builds_on_refused = True
        return Outcome.UNDONE
