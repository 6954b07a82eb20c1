"""What a consumer actor knows, and what it decides: no client, clock or thread in here.

Per partition a buffer of whole chunks stands between librdkafka and the stages. Back-pressure is a hysteresis over its bytes: librdkafka
throws away what it has prefetched at every pause, so a partition is paused only when more than `high_bytes` have lain in its buffer for
`pause_dwell_ms`, and resumed below `low_bytes`; only differences are told to the client.

    not assigned ──assigned──► fetching ──above high for the dwell time──► paused
                                   ▲  │                                       │
                                   │  └──────────── revoked, lost ────────────┤
                                   └───────────── below low ──────────────────┘

A pause of the user's is kept apart: such a partition delivers nothing, and it survives rebalances. Every assignment has an epoch, and
forgets the pauses of the one before, which librdkafka would keep. Nothing is paused before the partition's first record or end was seen.

Asked after every poll, so nothing here walks over all partitions unless there is something to decide."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from streamactors.kafka.subscriptions import TopicPartition

SMALLEST_SHARE = 256 * 1024
"""Bytes a partition may buffer however many there are: less than one fetch would pause all the time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of the buffers; bytes, but for `dwell_ms`."""

    high: int
    low: int
    total: int
    dwell_ms: float

    @property
    def bound(self) -> int:
        """What all buffers together may grow to: a quarter above the limit at which no more is read than polls must."""
        return self.total + self.total // 4

    def per_partition(self, partitions: int) -> tuple[int, int]:
        """Return (high, low) for one of so many partitions."""
        high = max(SMALLEST_SHARE, min(self.high, self.total // max(1, partitions)))
        return high, min(self.low, high // 2)


@dataclass(slots=True)
class Chunk:
    """Records of one partition in a row. `end` is the position behind the last one, gaps included."""

    records: list[Any]
    size: int
    end: int


@dataclass(slots=True)
class Partition:
    """One assigned partition."""

    key: TopicPartition
    epoch: int
    stage: Any  # who gets its records
    chunks: deque[Chunk] = field(default_factory=deque)
    buffered: int = 0  # records
    size: int = 0  # bytes
    position: int | None = None  # behind the last record delivered to the stage
    fetched: int | None = None  # behind the last record read
    paused: bool = False  # as told to the client
    over_since: float | None = None
    at_end: bool = False
    silent_since: float | None = None  # at its end, with demand, since
    idle_said: float | None = None
    stop_at: int | None = None  # a bounded read ends here


class Delivery(NamedTuple):
    """Records for a stage."""

    stage: Any
    key: TopicPartition
    epoch: int
    records: list[Any]
    end: int
    size: int = 0  # bytes, as delivered; who gives out a part of it leaves this as it is


@dataclass(slots=True)
class Counts:
    """What happened so far."""

    polls: int = 0
    records: int = 0
    pauses: int = 0
    resumes: int = 0
    delivered: int = 0
    dropped_stale: int = 0


_NONE: deque[TopicPartition] = deque()


class ConsumerState:
    """See the module. `demand[stage]` is the number of records a stage can take now."""

    def __init__(
        self, limits: Limits, read_ahead: int = 500, offset_of: Callable[[Any], int] = attrgetter("offset")
    ) -> None:
        self._limits = limits
        self._read_ahead = read_ahead
        self._offset_of = offset_of
        self.partitions: dict[TopicPartition, Partition] = {}
        self.user_paused: set[TopicPartition] = set()
        self.withheld: set[TopicPartition] = set()
        self.full: set[TopicPartition] = set()  # too much is acknowledged above a gap; set anew before each delivery
        self.held_back: frozenset[TopicPartition] = frozenset()  # far ahead of others
        self.demand: dict[Any, int] = {}
        self.counts = Counts()
        self._high, self._low = limits.per_partition(0)
        self._buffered = 0  # records, of all partitions
        self._size = 0  # bytes, of all partitions
        self._filled: dict[TopicPartition, Partition] = {}  # those with chunks, in the order of their turns
        self._strained: dict[
            TopicPartition, Partition
        ] = {}  # those that are over their limit or paused, and perhaps some more
        self._at_end: dict[TopicPartition, Partition] = {}

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────

    def assigned(
        self, keys: Iterable[TopicPartition], epoch: int, stage: Any, stop_at: dict[TopicPartition, int]
    ) -> None:
        """Partitions are ours from now on. Their buffers are empty and nothing is paused."""
        for key in keys:
            self._forget(key)
            self.partitions[key] = Partition(key, epoch, stage, stop_at=stop_at.get(key))
        self._share()

    def revoked(self, keys: Iterable[TopicPartition]) -> list[Partition]:
        """Partitions are ours no more; what was buffered is forgotten, another member reads it. Returns what they were."""
        gone = [partition for key in keys if (partition := self._forget(key)) is not None]
        self.withheld.difference_update(partition.key for partition in gone)
        self.held_back -= {partition.key for partition in gone}
        self.counts.dropped_stale += sum(partition.buffered for partition in gone)
        self._share()
        return gone

    def _forget(self, key: TopicPartition) -> Partition | None:
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self._buffered -= partition.buffered
            self._size -= partition.size
            for known in (self._filled, self._strained, self._at_end):
                known.pop(key, None)
        return partition

    def _share(self) -> None:
        """The limits of each partition depend on their number."""
        self._high, self._low = self._limits.per_partition(len(self.partitions))
        self._strained = {key: p for key, p in self.partitions.items() if p.size > self._high or p.paused}

    def requested(self, stage: Any, n: int) -> None:
        """A stage can take n more records."""
        self.demand[stage] = self.demand.get(stage, 0) + n

    def stage_gone(self, stage: Any) -> None:
        """A stage has ended."""
        self.demand.pop(stage, None)

    def read(self, key: TopicPartition, records: list[Any], size: int, end: int) -> None:
        """Records of a partition have come from the broker. Those of a partition that is not ours are dropped."""
        partition = self.partitions.get(key)
        if partition is None:
            self.counts.dropped_stale += len(records)
            return
        n = len(records)
        partition.chunks.append(Chunk(records, size, end))
        partition.buffered += n
        partition.size += size
        partition.fetched = end
        if partition.at_end:
            partition.at_end = False
            partition.silent_since = None
            self._at_end.pop(key, None)
        self._filled[key] = partition
        self._buffered += n
        self._size += size
        if partition.size > self._high:
            self._strained[key] = partition
        self.counts.records += n

    def end_reached(self, key: TopicPartition, position: int) -> None:
        """The broker says that there is nothing behind `position` now."""
        partition = self.partitions.get(key)
        if partition is not None:
            partition.at_end = True
            self._at_end[key] = partition
            partition.fetched = max(position, partition.fetched or 0)

    def pause(self, keys: Iterable[TopicPartition]) -> None:
        """The user wants nothing of these partitions until `resume`; also of ones that come later."""
        self.user_paused.update(keys)

    def resume(self, keys: Iterable[TopicPartition]) -> None:
        """End `pause`."""
        self.user_paused.difference_update(keys)

    def withhold(self, keys: Iterable[TopicPartition]) -> None:
        """Deliver nothing of these assignments until `release` or `start_over`: where they begin is being looked up."""
        self.withheld.update(keys)

    def release(self, key: TopicPartition) -> None:
        """End `withhold`: deliver from where the partition stands."""
        self.withheld.discard(key)

    def start_over(self, key: TopicPartition) -> None:
        """End `withhold`: the client has been told to read from elsewhere, so what was read is not wanted."""
        partition = self.partitions[key]
        self._buffered -= partition.buffered
        self._size -= partition.size
        self._filled.pop(key, None)
        self._at_end.pop(key, None)
        partition.chunks.clear()
        partition.buffered = partition.size = 0
        partition.fetched = partition.position = partition.over_since = None
        partition.at_end = False
        self.withheld.discard(key)

    def is_silenced(self, key: TopicPartition) -> bool:
        """True while a partition must deliver nothing, whatever the demand."""
        return key in self.user_paused or key in self.withheld

    # ── what to do ────────────────────────────────────────────────────────────────────────────────────────────────

    def deliveries(self) -> Iterator[Delivery]:
        """Yield what can be delivered now, fairly: a chunk of each partition in turn, while its stage has demand."""
        filled = self._filled
        waiting = deque(filled) if filled and any(self.demand.values()) else _NONE
        while waiting:
            key = waiting.popleft()
            partition = filled[key]
            wanted = self.demand.get(partition.stage, 0)
            if not wanted or self.is_silenced(key) or key in self.full or key in self.held_back:
                continue
            del filled[key]
            if len(partition.chunks) > 1 or len(partition.chunks[0].records) > wanted:
                filled[key] = partition  # behind the others
                waiting.append(key)
            yield self._deliver(partition, wanted)

    def _deliver(self, partition: Partition, wanted: int) -> Delivery:
        chunk = partition.chunks.popleft()
        records, size, end = chunk.records, chunk.size, chunk.end
        n = len(records)
        if n > wanted:
            share = size * wanted // n
            partition.chunks.appendleft(Chunk(records[wanted:], size - share, end))
            end = self._offset_of(records[wanted])
            records, n, size = records[:wanted], wanted, share
        self.demand[partition.stage] -= n
        partition.buffered -= n
        partition.size -= size
        partition.position = end
        self._buffered -= n
        self._size -= size
        self.counts.delivered += n
        return Delivery(partition.stage, partition.key, partition.epoch, records, end, size)

    def pauses(self, now_ms: float) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return (to pause, to resume): the differences to what the client was told, which count as told from here on."""
        to_pause: list[TopicPartition] = []
        to_resume: list[TopicPartition] = []
        for silenced in (self.user_paused, self.withheld):
            self._strained.update((key, self.partitions[key]) for key in silenced if key in self.partitions)
        # Each below its share and all of them together too much: with very many partitions, and polls that must go on.
        full = self._size > self._limits.bound
        if full:
            self._strained.update(self._filled)
        if not self._strained:
            return to_pause, to_resume
        relaxed = []
        for key, partition in self._strained.items():
            by_user = self.is_silenced(key)
            if partition.size > self._high or ((by_user or full) and partition.size):
                if partition.over_since is None:
                    partition.over_since = now_ms
                dwelt = now_ms - partition.over_since >= self._limits.dwell_ms or partition.size > 2 * self._high
                if not partition.paused and dwelt and partition.fetched is not None:
                    partition.paused = True
                    to_pause.append(key)
            else:
                partition.over_since = None
                if partition.paused and partition.size < self._low and not by_user:
                    partition.paused = False
                    to_resume.append(key)
                if not partition.paused:
                    relaxed.append(key)
        for key in relaxed:
            del self._strained[key]
        self.counts.pauses += len(to_pause)
        self.counts.resumes += len(to_resume)
        return to_pause, to_resume

    def idle(self, now_ms: float, every_ms: float) -> list[tuple[Partition, float]]:
        """Return the partitions whose end is reached while there is demand, with how long they have been silent (ms); each at most
        every so often. Never one that is paused."""
        found = []
        for key, partition in self._at_end.items():
            waiting = not partition.chunks and not partition.paused
            if not waiting or self.is_silenced(key) or not self.demand.get(partition.stage):
                partition.silent_since = None
                continue
            if partition.silent_since is None:
                partition.silent_since, partition.idle_said = now_ms, None
            if partition.idle_said is None or now_ms - partition.idle_said >= every_ms:
                partition.idle_said = now_ms
                found.append((partition, now_ms - partition.silent_since))
        return found

    @property
    def starving(self) -> bool:
        """True when a stage wants records and nothing that is buffered may go to it: poll at once, and wait for data."""
        return any(self.demand.values())

    @property
    def feeding(self) -> bool:
        """True when some stage has records waiting for its demand."""
        return any(not self.is_silenced(key) and key not in self.held_back for key in self._filled)

    @property
    def hungry(self) -> bool:
        """True when less is buffered than one poll brings, so that the next request would find nothing: poll, without waiting.

        More would only grow old here: librdkafka reads ahead by itself."""
        return self._buffered < self._read_ahead and self._size < self._low and len(self._at_end) < len(self.partitions)

    def finished(self, partition: Partition) -> bool:
        """True when a bounded read has delivered all of a partition."""
        stop_at = partition.stop_at
        if stop_at is None or partition.chunks or partition.key in self.withheld:
            return False
        return (partition.fetched or 0) >= stop_at
