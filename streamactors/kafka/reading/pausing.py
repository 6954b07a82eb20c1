"""When a partition is paused and resumed: the whole rule. It is decided here and carried out in `polling.py`. No client, clock or thread in here.

librdkafka throws away what it has prefetched at every pause. So back-pressure is a hysteresis over the bytes that are buffered per partition:

    not assigned ──assigned──► fetching ──above `high` for the dwell time, or above 2 × `high`──► paused
                                   ▲  │                                                             │
                                   │  └───────────────────── revoked, lost ─────────────────────────┤
                                   └────────────────────────── below `low` ─────────────────────────┘

All filled partitions are paused when together they hold a quarter more than `max_buffered_bytes`.

Five other rules keep a partition from being delivered: the user's pause, the look-up of its first offset, a record that is not due yet,
`max_in_flight`, and a stage that reads several topics in the order of their time. The first three also pause the
partition in the client when it has had something buffered for the dwell time.

Every assignment begins unpaused. librdkafka keeps the pauses of the assignment before, so `decide` resumes what the client was told to pause and
what has been assigned again since; not in the rebalance callback, but after the poll. The user's pause survives rebalances.
No partition is paused before its first record or its end was seen. The consumer actor asks `Pausing.decide` after each poll and tells the
client the differences (`Polling._pause_and_resume`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from streamactors.kafka.reading.delivery import AssignedPartition
from streamactors.kafka.subscriptions import TopicPartition

SMALLEST_SHARE = 256 * 1024
"""Bytes a partition may buffer, however many partitions there are: less than one fetch would pause all the time."""

Partitions = Mapping[TopicPartition, AssignedPartition]


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of the buffers; bytes, but for `dwell_ms`."""

    high: int
    low: int
    total: int
    dwell_ms: float

    @property
    def bound(self) -> int:
        """The bytes in all buffers together above which all filled partitions are paused."""
        return self.total + self.total // 4

    def per_partition(self, partitions: int) -> tuple[int, int]:
        """Return (high, low) for one of so many partitions."""
        high = max(SMALLEST_SHARE, min(self.high, self.total // max(1, partitions)))
        return high, min(self.low, high // 2)


class Pausing:
    """Decides which partitions are paused and resumed. Its cost does not grow with the partitions, unless there is something to decide."""

    def __init__(self, limits: Limits, delayed: Collection[TopicPartition] = ()) -> None:
        self._limits = limits
        self.high, self.low = limits.per_partition(0)
        self.by_user: set[TopicPartition] = set()
        self.withheld: set[TopicPartition] = set()
        """Assignments whose first offset is being looked up."""
        self.delayed = delayed
        """The next record has a due time that has not come. The collection belongs to `delays.py`, which changes it."""
        self.full: set[TopicPartition] = set()
        """Too many offsets are acknowledged above one that is not; looked up before each delivery."""
        self.held_back: set[TopicPartition] = set()
        """Far ahead of other partitions that are read together with them."""
        self.reasons: Final = (self.by_user, self.withheld, self.delayed, self.full, self.held_back)
        """The partitions that wait, one collection per rule. While all are empty, `waits` need not be asked."""
        self._paused_in_client: set[TopicPartition] = set()  # also those that are assigned no more
        self._strained: dict[
            TopicPartition, AssignedPartition
        ] = {}  # all above their limit or paused, perhaps some more

    # ── what may be delivered ─────────────────────────────────────────────────────────────────────────────────────

    def silences(self, key: TopicPartition) -> bool:
        """True while a partition must deliver nothing, whatever the demand."""
        return key in self.by_user or key in self.withheld or key in self.delayed

    def waits(self, key: TopicPartition) -> bool:
        """True while a partition that has records must not deliver them now."""
        return self.silences(key) or key in self.full or key in self.held_back

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────

    def share(self, partitions: Partitions) -> None:
        """The assignment has changed: the limits of each partition depend on the number of partitions."""
        self.high, self.low = self._limits.per_partition(len(partitions))
        self._strained = {key: p for key, p in partitions.items() if p.size > self.high or p.paused}

    def forget(self, key: TopicPartition) -> None:
        """The assignment of a partition is over."""
        self._strained.pop(key, None)
        self.withheld.discard(key)
        self.held_back.discard(key)

    def overfilled(self, partition: AssignedPartition) -> None:
        """A partition has more than `high` bytes buffered."""
        self._strained[partition.key] = partition

    def hold_back(self, keys: Iterable[TopicPartition]) -> None:
        """Hold back these partitions, which wait for others, and release those that were held back before."""
        self.held_back.clear()
        self.held_back.update(keys)

    def count_as_full(self, keys: Iterable[TopicPartition]) -> None:
        """Hold these partitions until offsets are acknowledged, and release those that waited for acknowledgements before."""
        self.full.clear()
        self.full.update(keys)

    def resumed(self, key: TopicPartition) -> None:
        """The client was told to resume a partition."""
        self._paused_in_client.discard(key)

    # ── what to do ────────────────────────────────────────────────────────────────────────────────────────────────

    def decide(
        self, now_ms: float, partitions: Partitions, filled: Partitions, size: int
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return (to pause, to resume): the differences to what the client was told; they count as told from now on.

        `filled`: the partitions that have something buffered; `size`: the bytes in all buffers."""
        to_pause: list[TopicPartition] = []
        to_resume: list[TopicPartition] = []
        for silenced in (self.by_user, self.withheld, self.delayed):
            self._strained.update((key, partitions[key]) for key in silenced if key in partitions)
        # Each partition is below its share and all together are too much: very many partitions, and polls must continue.
        full = size > self._limits.bound
        if full:
            self._strained.update(filled)
        relaxed = []
        for key, partition in self._strained.items():
            silenced_now = self.silences(key)
            if partition.size > self.high or ((silenced_now or full) and partition.size):
                if partition.over_since is None:
                    partition.over_since = now_ms
                dwelt = now_ms - partition.over_since >= self._limits.dwell_ms or partition.size > 2 * self.high
                if not partition.paused and dwelt and partition.fetched is not None:
                    partition.paused = True
                    to_pause.append(key)
            else:
                partition.over_since = None
                if partition.paused and partition.size < self.low and not silenced_now:
                    partition.paused = False
                    to_resume.append(key)
                if not partition.paused:
                    relaxed.append(key)
        for key in relaxed:
            del self._strained[key]
        in_client = self._paused_in_client
        if in_client:
            kept = {key for key in in_client if key in partitions and not partitions[key].paused}
            to_resume += kept.difference(to_resume)
        in_client.difference_update(to_resume)
        in_client.update(to_pause)
        return to_pause, to_resume
