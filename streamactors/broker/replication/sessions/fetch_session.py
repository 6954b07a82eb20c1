"""One fetch session: the partitions that a client has named, and which of them have to be looked at for its next answer. Pure.

Owner: the session cache, on the data plane. Rules: Apache Kafka's FetchSession (KIP-227). An answer names a partition only if it has records or an
error, if the logs differ, if another replica is to be asked, or if the high watermark or the log start is not what the client knows.

Apache Kafka reads every partition of the session for every answer. Here a partition that had nothing more to say is left out until it is
touched: its log, its high watermark or its state has changed, or the client names it again. So a fetch costs what has changed, not what is
followed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from streamactors.broker.protocol.fetch import FetchPartition, FetchTopic, PartitionFetched

Key = tuple[bytes | str, int]
"""A topic by id or name, and the number of the partition."""

FIRST_EPOCH: Final = 1
LAST_EPOCH: Final = 2**31 - 1
UNKNOWN: Final = -1


class Cached:
    """One partition of a session. `wanted` is for the reader of the session: what it reads, and from where."""

    __slots__ = ("asked", "high_watermark", "key", "log_start_offset", "turn", "wanted")

    def __init__(self, key: Key, asked: FetchPartition, turn: int) -> None:
        self.key = key
        self.asked = asked
        self.turn = turn
        self.high_watermark = UNKNOWN  # as the client knows them
        self.log_start_offset = UNKNOWN
        self.wanted: Any = None


def next_epoch(epoch: int) -> int:
    """Return the epoch of the request after this one."""
    return FIRST_EPOCH if epoch == LAST_EPOCH else epoch + 1


class FetchSession:
    """The object is its own key in the purgatory of fetches."""

    def __init__(
        self, number: int, replica_id: int, topics: Iterable[FetchTopic], now_ms: float, *, uses_ids: bool = True
    ) -> None:
        self.id: Final = number
        self.replica_id: Final = replica_id
        self.epoch = FIRST_EPOCH  # of the next request
        self.created_ms: Final = now_ms
        self.used_ms = now_ms
        self.swept_ms = now_ms  # when all partitions were looked at
        self.rights: Any = None  # what the client might read then
        self.entries: dict[Key, Cached] = {}
        self.changed: dict[Key, Cached] = {}
        self.uses_ids: Final = uses_ids
        self._turns = 0
        for topic in topics:
            self._name(topic)

    @property
    def of_follower(self) -> bool:
        """Followers are preferred when the cache is full."""
        return self.replica_id >= 0

    # --- requests ---

    def update(
        self, topics: Iterable[FetchTopic], forgotten: Iterable[tuple[bytes | str, Iterable[int]]]
    ) -> list[Cached]:
        """Take over the partitions that a request names, and remove those that it forgets. Return the removed ones."""
        for topic in topics:
            self._name(topic)
        removed = []
        for name, indexes in forgotten:
            for index in indexes:
                cached = self.entries.pop((name, index), None)
                if cached is not None:
                    self.changed.pop(cached.key, None)
                    removed.append(cached)
        return removed

    def _name(self, topic: FetchTopic) -> None:
        name = topic.name if topic.topic_id is None else topic.topic_id
        for asked in topic.partitions:
            key = (name, asked.partition)
            cached = self.entries.get(key)
            if cached is None:
                cached = self.entries[key] = Cached(key, asked, self._next_turn())
            else:
                cached.asked = asked
            self.changed[key] = cached

    def _next_turn(self) -> int:
        self._turns += 1
        return self._turns

    # --- what has to be looked at ---

    def in_turn(self) -> list[Cached]:
        """Return what has to be looked at: first what has waited longest for its turn, because an answer has room for some of it only."""
        return sorted(self.changed.values(), key=lambda each: each.turn)

    def served(self, cached: Cached) -> None:
        """The next answer has records of a partition: all others come before it then."""
        cached.turn = self._next_turn()

    def touch(self, cached: Cached) -> bool:
        """Look at a partition for the next answer. Return False if that was known."""
        if cached.key in self.changed or self.entries.get(cached.key) is not cached:
            return False
        self.changed[cached.key] = cached
        return True

    def touch_all(self) -> None:
        """Look at every partition for the next answer."""
        for key, cached in self.entries.items():
            self.changed.setdefault(key, cached)

    def take(self) -> list[Cached]:
        """Return the partitions that the next answer is about. Those touched from now on are for a later one."""
        taken = list(self.changed.values())
        self.changed.clear()
        return taken

    def give_back(self, cached: Cached) -> None:
        """Look at a partition again: it has more to say, or its answer was an error."""
        if self.entries.get(cached.key) is cached:
            self.changed[cached.key] = cached

    # --- answers ---

    def has_news(self, cached: Cached, answer: PartitionFetched[Any]) -> bool:
        """Whether an answer has news for the client, which then count as known."""
        news = False
        records = answer.records
        if not isinstance(records, (bytes, bytearray)) or records or answer.preferred_replica != UNKNOWN:
            news = True
        if cached.high_watermark != answer.high_watermark:
            cached.high_watermark = answer.high_watermark
            news = True
        if cached.log_start_offset != answer.log_start_offset:
            cached.log_start_offset = answer.log_start_offset
            news = True
        if answer.error_code or answer.diverging is not None:
            cached.high_watermark = UNKNOWN  # when the error is over, the partition is news again
            news = True
        return news

    def unsent(self) -> None:
        """An answer was not sent: the client knows nothing of it."""
        for cached in self.entries.values():
            cached.high_watermark = UNKNOWN
        self.touch_all()
