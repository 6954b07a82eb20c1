"""Fetches the assigned partitions of a consumer, each in a loop of its own.

Owner: the consumer. A partition is not fetched while it is paused, while a rebalance callback waits for the poll, or while enough of it is queued. A
fetch that finds nothing is parked in the cluster until there is something, so an idle consumer asks nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.errors import kafka_error
from streamactors.simulation.client.link import Link
from streamactors.simulation.client.properties import ClientProperties
from streamactors.simulation.client.reading.beginning import Beginnings
from streamactors.simulation.client.reading.reading import UNKNOWN, Reading, messages_of
from streamactors.simulation.client.reading.ready import Chunk, Notice, Ready
from streamactors.simulation.cluster.apis.data import Fetch, fetch
from streamactors.simulation.cluster.partitions.partition import Fetched, FetchRequest

RETRY_MS: Final = 100.0
Key = tuple[str, int]


class Fetcher:
    """The partitions of one consumer, by key."""

    def __init__(self, link: Link, properties: ClientProperties, group_id: str, log: Callable[[str], None]) -> None:
        self.readings: dict[Key, Reading] = {}
        self.seen: set[Key] = set()
        """Every partition that was ever read: librdkafka keeps it in mind."""
        self._paused: set[Key] = set()
        self.ready = Ready(self._drained)
        self._link = link
        self._log = log
        self._most_records = properties.count("queued.min.messages", 100_000)
        self._max_bytes = properties.count("fetch.message.max.bytes", 1_048_576)
        self._tells_end = properties.flag("enable.partition.eof", False)
        self.committed_only = properties.text("isolation.level", "read_committed") == "read_committed"
        reset = properties.text("auto.offset.reset", "largest")
        self._beginnings = Beginnings(link, group_id, reset, self.committed_only, self._begin, self._failed)

    # --- what is assigned ---

    def add(self, starts: Mapping[Key, int]) -> None:
        """Read these partitions, too."""
        made = [Reading(key, start) for key, start in starts.items()]
        self.readings.update({each.key: each for each in made})
        self.seen.update(starts)
        for reading in made:
            reading.paused = reading.key in self._paused
        self._beginnings.look_up(made)

    def remove(self, keys: Iterable[Key]) -> None:
        """Read these partitions no longer."""
        for key in keys:
            reading = self.readings.pop(key, None)
            if reading is not None:
                reading.barrier()
                self._forget(reading)

    def _forget(self, reading: Reading) -> None:
        partition = self._link.cluster.topics.get(*reading.key)
        if partition is not None:
            partition.forget((self._link.client, reading.key))

    def hold(self) -> None:
        """Deliver nothing more until `release`: a rebalance callback waits for the poll."""
        for reading in self.readings.values():
            if not reading.waits_for_poll:
                reading.waits_for_poll = True
                if reading.begun:
                    reading.barrier()

    def release(self) -> None:
        """End `hold`."""
        for reading in self.readings.values():
            if reading.waits_for_poll:
                reading.waits_for_poll = False
                self._fetch(reading)

    def pause(self, key: Key) -> None:
        """Stop fetching a partition; what was fetched and not delivered is dropped. It stays paused when it is assigned again."""
        if key in self.seen and key not in self._paused:
            self._paused.add(key)
            reading = self.readings.get(key)
            if reading is not None:
                reading.paused = True
                if reading.begun:
                    reading.barrier()

    def resume(self, key: Key) -> None:
        """End `pause`."""
        if key in self._paused:
            self._paused.discard(key)
            reading = self.readings.get(key)
            if reading is not None:
                reading.paused = False
                self._fetch(reading)

    def seek(self, reading: Reading, offset: int) -> None:
        """Read a partition from another offset on. Until a record is delivered, it has no position."""
        reading.barrier()
        reading.begun, reading.start, reading.position = False, offset, UNKNOWN
        self._beginnings.look_up([reading])

    # --- the loop of one partition ---

    def _begin(self, reading: Reading, offset: int) -> None:
        reading.begun = reading.started = True
        reading.fetch_offset = reading.restart = offset
        self._fetch(reading)

    def _failed(self, reading: Reading, code: int, text: str | None) -> None:
        topic, partition = reading.key
        error = kafka_error(code, text)
        self.ready.put(Notice(ck.Message(topic, partition, ck.OFFSET_INVALID, error=error), reading, reading.version))

    def _drained(self, reading: Reading) -> None:
        if not reading.fetching and reading.queued < self._most_records:
            self._fetch(reading)

    def _fetch(self, reading: Reading) -> None:
        if reading.fetching or reading.stopped or reading.queued >= self._most_records:
            return
        reading.fetching = True
        version, key = reading.version, reading.key
        asked = FetchRequest(reading.fetch_offset, self.committed_only, self._max_bytes, reading.known_end)

        def then(error: ErrorCode | None, fetched: Fetched | None) -> None:
            if reading.version == version:
                reading.fetching = False
                self._fetched(reading, error, fetched)

        who = (self._link.client, key)
        self._link.ask(fetch, self._link.cluster.leader_of(*key), Fetch(key, who, asked), then)

    def _fetched(self, reading: Reading, error: ErrorCode | None, fetched: Fetched | None) -> None:
        reading.unknown = error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error is ErrorCode.NONE and fetched is not None:
            self._take(reading, fetched)
            self._fetch(reading)
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE and fetched is not None:
            self._out_of_range(reading)
        else:
            version = reading.version
            self._link.later(RETRY_MS, lambda: self._again(reading, version), "fetch again")

    def _again(self, reading: Reading, version: int) -> None:
        if reading.version == version:
            self._fetch(reading)

    def _out_of_range(self, reading: Reading) -> None:
        (topic, partition), offset = reading.key, reading.fetch_offset
        self._log(
            f"{topic} [{partition}]: offset reset (at offset {offset}, broker 0) to offset BEGINNING: Broker: Offset out of range"
        )
        reading.barrier()
        reading.begun, reading.start = False, ck.OFFSET_INVALID
        self._beginnings.reset(reading, "Broker: Offset out of range")

    def _take(self, reading: Reading, fetched: Fetched) -> None:
        reading.low, reading.high, reading.stable = fetched.start_offset, fetched.high_watermark, fetched.stable_end
        messages = messages_of(reading.key, fetched.batches, reading.fetch_offset) if fetched.batches else []
        reading.fetch_offset = fetched.next_offset
        end = fetched.stable_end if self.committed_only else fetched.high_watermark
        reading.known_end = end if fetched.next_offset >= end else -1
        if messages:
            reading.queued += len(messages)
            reading.received += len(messages)
            reading.bytes_received += sum(batch.size for batch in fetched.batches)
            self.ready.put(Chunk(reading, messages))
        if self._tells_end and fetched.next_offset >= end and reading.eof_at != fetched.next_offset:
            reading.eof_at = fetched.next_offset
            self.ready.put(Notice(_end_of(reading), reading, reading.version))


def _end_of(reading: Reading) -> Any:
    topic, partition = reading.key
    return ck.Message(topic, partition, reading.fetch_offset, error=kafka_error(ck.KafkaError._PARTITION_EOF))
