"""What a consumer actor knows, and what it decides: no client, clock or thread in here.

Per partition a buffer of whole chunks stands between librdkafka and the stages. Back-pressure is a hysteresis over its bytes: librdkafka
throws away what it has prefetched at every pause, so a partition is paused only when more than `high_bytes` have lain in its buffer for
`pause_dwell_ms`, and resumed below `low_bytes`; only differences are told to the client.

    not assigned ──assigned──► fetching ──above high for the dwell time──► paused
                                   ▲  │                                       │
                                   │  └──────────── revoked, lost ────────────┤
                                   └───────────── below low ──────────────────┘

A pause of the user's is kept apart: such a partition delivers nothing, and it survives rebalances. Every assignment has an epoch, and
forgets the pauses of the one before, which librdkafka would keep. Nothing is paused before the partition's first record or end was seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Delivery:
    """Records for a stage."""

    stage: Any
    key: TopicPartition
    epoch: int
    records: list[Any]
    end: int


@dataclass(slots=True)
class Counts:
    """What happened so far."""

    polls: int = 0
    records: int = 0
    pauses: int = 0
    resumes: int = 0
    delivered: int = 0
    dropped_stale: int = 0


class ConsumerState:
    """See the module. `demand[stage]` is the number of records a stage can take now."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.partitions: dict[TopicPartition, Partition] = {}
        self.user_paused: set[TopicPartition] = set()
        self.withheld: set[TopicPartition] = set()
        self.demand: dict[Any, int] = {}
        self.counts = Counts()
        self._turn = 0

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────

    def assigned(
        self, keys: Iterable[TopicPartition], epoch: int, stage: Any, stop_at: dict[TopicPartition, int]
    ) -> None:
        """Partitions are ours from now on. Their buffers are empty and nothing is paused."""
        for key in keys:
            self.partitions[key] = Partition(key, epoch, stage, stop_at=stop_at.get(key))

    def revoked(self, keys: Iterable[TopicPartition]) -> list[Partition]:
        """Partitions are ours no more; what was buffered is forgotten, another member reads it. Returns what they were."""
        gone = [self.partitions.pop(key) for key in keys if key in self.partitions]
        self.withheld.difference_update(partition.key for partition in gone)
        self.counts.dropped_stale += sum(partition.buffered for partition in gone)
        return gone

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
        partition.chunks.append(Chunk(records, size, end))
        partition.buffered += len(records)
        partition.size += size
        partition.fetched = end
        partition.at_end = False
        self.counts.records += len(records)

    def end_reached(self, key: TopicPartition, position: int) -> None:
        """The broker says that there is nothing behind `position` now."""
        partition = self.partitions.get(key)
        if partition is not None:
            partition.at_end = True
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
        keys = list(self.partitions)
        if not keys:
            return
        self._turn = (self._turn + 1) % len(keys)
        waiting = deque(keys[self._turn :] + keys[: self._turn])
        while waiting:
            partition = self.partitions[waiting.popleft()]
            wanted = self.demand.get(partition.stage, 0)
            if not wanted or not partition.chunks or self.is_silenced(partition.key):
                continue
            yield self._deliver(partition, wanted)
            if partition.chunks:
                waiting.append(partition.key)

    def _deliver(self, partition: Partition, wanted: int) -> Delivery:
        chunk = partition.chunks.popleft()
        records = chunk.records
        n = len(records)
        end = chunk.end
        size = chunk.size
        if n > wanted:
            share = size * wanted // n
            partition.chunks.appendleft(Chunk(records[wanted:], size - share, end))
            end = records[wanted].offset
            records, n, size = records[:wanted], wanted, share
        self.demand[partition.stage] -= n
        partition.buffered -= n
        partition.size -= size
        partition.position = end
        self.counts.delivered += n
        return Delivery(partition.stage, partition.key, partition.epoch, records, end)

    def pauses(self, now_ms: float) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return (to pause, to resume): the differences to what the client was told, which count as told from here on."""
        high, low = self._limits.per_partition(len(self.partitions))
        # Each below its share and all of them together too much: with very many partitions, and polls that must go on.
        full = sum(partition.size for partition in self.partitions.values()) > self._limits.bound
        to_pause: list[TopicPartition] = []
        to_resume: list[TopicPartition] = []
        for key, partition in self.partitions.items():
            by_user = self.is_silenced(key)
            if partition.size > high or ((by_user or full) and partition.size):
                if partition.over_since is None:
                    partition.over_since = now_ms
                dwelt = now_ms - partition.over_since >= self._limits.dwell_ms or partition.size > 2 * high
                if not partition.paused and dwelt and partition.fetched is not None:
                    partition.paused = True
                    to_pause.append(key)
            else:
                partition.over_since = None
                if partition.paused and partition.size < low and not by_user:
                    partition.paused = False
                    to_resume.append(key)
        self.counts.pauses += len(to_pause)
        self.counts.resumes += len(to_resume)
        return to_pause, to_resume

    def idle(self, now_ms: float, every_ms: float) -> list[tuple[Partition, float]]:
        """Return the partitions whose end is reached while there is demand, with how long they have been silent (ms); each at most
        every so often. Never one that is paused."""
        found = []
        for partition in self.partitions.values():
            waiting = partition.at_end and not partition.chunks and not partition.paused
            if not waiting or self.is_silenced(partition.key) or not self.demand.get(partition.stage):
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
        """True when a stage wants records and has none waiting: poll at once, and wait for data."""
        fed = {partition.stage for partition in self.partitions.values() if partition.chunks}
        return any(n > 0 and stage not in fed for stage, n in self.demand.items())

    @property
    def feeding(self) -> bool:
        """True when some stage has records waiting for its demand."""
        return any(p.chunks and not self.is_silenced(p.key) for p in self.partitions.values())

    @property
    def may_read(self) -> bool:
        """True while the buffers have room for another batch."""
        size = sum(partition.size for partition in self.partitions.values())
        return size < self._limits.total and any(
            not partition.paused and partition.size <= self._limits.high for partition in self.partitions.values()
        )

    @property
    def hungry(self) -> bool:
        """True when some buffer is below its low limit although it could be filled: poll, without waiting."""
        _, low = self._limits.per_partition(len(self.partitions))
        return any(p.size < low and not p.paused and not p.at_end for p in self.partitions.values())

    def finished(self, partition: Partition) -> bool:
        """True when a bounded read has delivered all of a partition."""
        stop_at = partition.stop_at
        if stop_at is None or partition.chunks or partition.key in self.withheld:
            return False
        return (partition.fetched or 0) >= stop_at

    def by_stage(self, stage: Any) -> Sequence[Partition]:
        """Return the partitions a stage gets records of."""
        return [partition for partition in self.partitions.values() if partition.stage is stage]
