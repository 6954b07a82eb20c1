"""What a consumer actor knows, and what it decides: no client, clock or thread in here.

Per partition a buffer of whole chunks stands between librdkafka and the feeds. `pausing.py` decides when a partition is paused.
The actor asks after every poll, so nothing here walks over all partitions unless there is something to decide."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamactors.kafka.reading.delays import Delays
from streamactors.kafka.reading.delivery import AssignedPartition, Delivery
from streamactors.kafka.reading.pausing import Limits, Pausing
from streamactors.kafka.subscriptions import TopicPartition

SHORT_CHUNK = 16
"""Runs of up to this many records join the chunk before them, unless it has `LONG_CHUNK`."""
LONG_CHUNK = 1_024


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
    """Buffers records per partition until a feed asks for them. `demand[feed]` is the number of records a feed can take now."""

    def __init__(self, limits: Limits, read_ahead: int, delays: Delays | None = None) -> None:
        self._read_ahead = read_ahead
        self.pausing = Pausing(limits, () if delays is None else delays.until)
        self._delays = delays
        self.partitions: dict[TopicPartition, AssignedPartition] = {}
        self.demand: dict[Any, int] = {}
        self.counts = Counts()
        self.buffered = 0
        """Records in all buffers."""
        self.size = 0
        """Bytes in all buffers."""
        self._filled: dict[TopicPartition, AssignedPartition] = {}  # those with chunks, in the order of their turns
        self._at_end: dict[TopicPartition, AssignedPartition] = {}
        self._ends_due: dict[TopicPartition, AssignedPartition] = {}  # at an end that is not delivered yet

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────

    def assigned(self, feeds: Mapping[TopicPartition, Any], epoch: int, stop_at: Mapping[TopicPartition, int]) -> None:
        """Partitions were assigned, each with its feed. Their buffers are empty and no partition is paused."""
        for key, feed in feeds.items():
            self._forget(key)
            self.partitions[key] = AssignedPartition(key, epoch, feed, stop_at=stop_at.get(key))
        self.pausing.share(self.partitions)

    def revoked(self, keys: Iterable[TopicPartition]) -> list[AssignedPartition]:
        """Partitions were revoked. Drops what is buffered, because the next owner reads it; returns the assignments that are over."""
        gone = [partition for key in keys if (partition := self._forget(key)) is not None]
        self.counts.dropped_stale += sum(partition.buffered for partition in gone)
        self.pausing.share(self.partitions)
        return gone

    def _forget(self, key: TopicPartition) -> AssignedPartition | None:
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self.buffered -= partition.buffered
            self.size -= partition.size
            self._filled.pop(key, None)
            self._at_end.pop(key, None)
            self._ends_due.pop(key, None)
            self.pausing.forget(key)
            if self._delays is not None:
                self._delays.until.pop(key, None)
        return partition

    def requested(self, feed: Any, n: int) -> None:
        """A feed can take n more records."""
        self.demand[feed] = self.demand.get(feed, 0) + n

    def feed_gone(self, feed: Any) -> None:
        """A feed has ended."""
        self.demand.pop(feed, None)

    def read(self, key: TopicPartition, records: list[Any], size: int, end: int, polled_ms: float = 0.0) -> None:
        """Records of a partition have come from the broker, in a poll that returned at `polled_ms`. Those of a partition that is not assigned are dropped."""
        partition = self.partitions.get(key)
        n = len(records)
        if partition is None:
            self.counts.dropped_stale += n
            return
        last = partition.chunks[-1] if partition.chunks else None
        if (
            last is not None and n <= SHORT_CHUNK and len(last.records) < LONG_CHUNK
        ):  # short polls while there is no demand must not become short deliveries
            partition.chunks[-1] = last._replace(records=last.records + records, end=end, size=last.size + size)
        else:
            partition.chunks.append(Delivery(partition.feed, key, partition.epoch, records, end, size, None, polled_ms))
        partition.fetched = end
        if partition.at_end:
            partition.at_end = False
            partition.silent_since = None
            del self._at_end[key]
        self._filled[key] = partition
        self._count(partition, n, size)
        if partition.size > self.pausing.high:
            self.pausing.overfilled(partition)
        self.counts.records += n

    def _count(self, partition: AssignedPartition, n: int, size: int) -> None:
        partition.buffered += n
        partition.size += size
        self.buffered += n
        self.size += size

    def end_reached(self, key: TopicPartition, position: int) -> None:
        """The broker has no record at or after `position` now."""
        partition = self.partitions.get(key)
        if partition is not None:
            partition.at_end = True
            self._at_end[key] = partition
            partition.fetched = max(position, partition.fetched or 0)
            if partition.position != partition.fetched:
                self._ends_due[key] = partition

    def start_over(self, key: TopicPartition) -> None:
        """The client reads a withheld partition from another offset now: drop what was read, and deliver what comes."""
        partition = self.partitions[key]
        self._count(partition, -partition.buffered, -partition.size)
        self._filled.pop(key, None)
        self._at_end.pop(key, None)
        self._ends_due.pop(key, None)
        partition.chunks.clear()
        partition.fetched = partition.position = partition.over_since = None
        partition.at_end, partition.silent_since = False, None
        self.pausing.withheld.discard(key)

    # ── what to do ────────────────────────────────────────────────────────────────────────────────────────────────

    def deliveries(self) -> Iterator[Delivery]:
        """Yield what can be delivered now: a chunk of each partition in turn, while its feed has demand."""
        filled, delays, pausing = self._filled, self._delays, self.pausing
        if delays is not None:
            delays.look()
        waiting = deque(filled) if filled and any(self.demand.values()) else _NONE
        while waiting:
            key = waiting.popleft()
            partition = filled[key]
            wanted = self.demand.get(partition.feed, 0)
            if not wanted or (any(pausing.reasons) and pausing.waits(key)):
                continue
            if delays is not None:
                wanted = delays.ready(key, partition.chunks[0].records, wanted)
                if not wanted:
                    continue
            del filled[key]
            if len(partition.chunks) > 1 or len(partition.chunks[0].records) > wanted:
                filled[key] = partition  # after the others
                waiting.append(key)
            yield self._deliver(partition, wanted)
        if self._ends_due:
            yield from self._ends()

    def _ends(self) -> Iterator[Delivery]:
        """Yield the ends that were reached, as deliveries without records: the last offsets of a partition may be those of transaction markers, of
        aborted records, or of records that compaction has removed. As in Apache Kafka's consumer the position is after them."""
        for key, partition in list(self._ends_due.items()):
            if partition.chunks or self.pausing.waits(key) or not self.demand.get(partition.feed):
                continue
            del self._ends_due[key]
            end = partition.fetched
            after = partition.position
            if end and (after is None or after < end):
                partition.position = end
                yield Delivery(partition.feed, key, partition.epoch, [], end, after=after)

    def _deliver(self, partition: AssignedPartition, wanted: int) -> Delivery:
        delivery = partition.chunks.popleft()
        if len(delivery.records) > wanted:
            delivery, rest = delivery.cut(wanted)
            partition.chunks.appendleft(rest)
        n = len(delivery.records)
        self._count(partition, -n, -delivery.size)
        self.demand[partition.feed] -= n
        partition.position = delivery.end
        self.counts.delivered += n
        return delivery

    def pauses(self, now_ms: float) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return the partitions to pause and those to resume; see `Pausing.decide`."""
        to_pause, to_resume = self.pausing.decide(now_ms, self.partitions, self._filled, self.size)
        self.counts.pauses += len(to_pause)
        self.counts.resumes += len(to_resume)
        return to_pause, to_resume

    def idle(self, now_ms: float, every_ms: float) -> list[tuple[AssignedPartition, float]]:
        """Return the partitions whose end is reached while there is demand, with how long they have been silent (ms).

        Each at most every `every_ms`; never one that is paused."""
        found = []
        for key, partition in self._at_end.items():
            waiting = not partition.chunks and not partition.paused
            if not waiting or self.pausing.silences(key) or not self.demand.get(partition.feed):
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
        """True when a feed wants records and nothing that is buffered may go to it: poll at once, and wait for data."""
        return any(self.demand.values())

    @property
    def feeding(self) -> bool:
        """True when some feed has records waiting for its demand."""
        silenced, held_back = self.pausing.silences, self.pausing.held_back
        return any(not silenced(key) and key not in held_back for key in self._filled)

    @property
    def hungry(self) -> bool:
        """True when less is buffered than one poll brings, so that the next request would find nothing: poll, without waiting.

        Polling for more would not help: librdkafka reads ahead by itself."""
        room = self.buffered < self._read_ahead and self.size < self.pausing.low
        return room and len(self._at_end) < len(self.partitions)

    def finished(self, partition: AssignedPartition) -> bool:
        """True when a bounded read has delivered all of a partition."""
        stop_at = partition.stop_at
        if stop_at is None or partition.chunks or partition.key in self.pausing.withheld:
            return False
        return (partition.fetched or 0) >= stop_at
