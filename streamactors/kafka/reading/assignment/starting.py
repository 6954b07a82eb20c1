"""Starting: when a consumer has its first partitions and knows its position in each, so that it misses nothing that is written from then on.

A position is known when a record or the end of the partition has been read. Owner: `rebalances`, on the consumer's thread."""

from __future__ import annotations

from collections.abc import Iterable

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.reading.consumer_state import ConsumerState
from streamactors.kafka.subscriptions import TopicPartition


class Starting:
    """Completes `started` when the first assignment has its positions; `also` adds the future of a source with partitions of its own."""

    def __init__(self, state: ConsumerState, started: StreamFuture[None]) -> None:
        self._state = state
        self._waiting: list[tuple[frozenset[TopicPartition] | None, StreamFuture[None]]] = [(None, started)]
        self._assigned = False  # an assignment is there, maybe of nothing

    def also(self, keys: Iterable[TopicPartition], started: StreamFuture[None]) -> None:
        """Complete `started` when the positions of these partitions are known."""
        self._waiting.append((frozenset(keys), started))

    def assigned(self) -> None:
        """Partitions were assigned, or the group has none for this member."""
        self._assigned = True

    def revoked(self) -> None:
        """Partitions are gone. With none left the next assignment is waited for: between the two of an eager group nothing is known."""
        self._assigned = self._assigned and bool(self._state.partitions)

    def look(self) -> None:
        """A poll has ended: complete the futures whose partitions have positions. Costs nothing once all have."""
        if self._waiting and self._assigned:
            unknown = self._unknown()
            ready = [each for each in self._waiting if not (unknown if each[0] is None else unknown & each[0])]
            for each in ready:
                self._waiting.remove(each)
                each[1].try_complete(None)

    def _unknown(self) -> set[TopicPartition]:
        """The partitions without a position, and those that begin where the source has yet to say."""
        withheld = self._state.pausing.withheld
        return {key for key, each in self._state.partitions.items() if each.fetched is None or key in withheld}
