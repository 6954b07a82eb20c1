"""Standby copies: an instance follows the changelogs of the tasks that it does not own, so that it can take one over at once.

Owner: StoredTasks, on its reading thread. `step` reads new entries, without waiting long; it is called repeatedly. A task that is assigned to
this instance is released first: its disk is closed, and the restore reads the few entries that are missing."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.state.changelogs.disk_places import REFUSES_LOST_OFFSETS, places_of
from streamactors.kafka.state.changelogs.watching import COPIES, Copies, CopyReport
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.state.disk.folder import StateFolder
from streamactors.windows.state.disk.task_disk import TaskDisk

_log = logging.getLogger("streamactors.kafka")

POLL_S = 0.02
STEP_MS = 200.0
_LOOK_EVERY = 10  # steps between two looks for changelogs that do not exist yet


class Standby:
    """`settings`: those of the reader of changelogs. `topics`: changelog topic by store."""

    def __init__(
        self,
        settings: ConsumerSettings,
        topics: Mapping[str, str],
        folder: StateFolder,
        time_first: Container[str],
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._stores = {topic: store for store, topic in topics.items()}
        self._folder = folder
        self._time_first = time_first
        self._copies = Copies()
        COPIES.add(self._copies)
        self._client: StreamConsumer | None = None
        self._disks: dict[int, TaskDisk] = {}
        self._partitions = 0
        self._steps = 0
        self._is_following = False  # the client reads what the disks lack
        self._known_ends: dict[TopicPartition, int] = {}
        """The high watermarks of the last fetches, also of a client that was closed because no broker answered."""
        self._ended: dict[TopicPartition, int] = {}
        """The end to which a partition was read. It is after the marker of the last transaction, and so after the last entry."""

    def step(self, owned: Container[int]) -> int:
        """Follow the tasks that are not `owned`; return the number of entries read. Raises KafkaError, StateError."""
        if self._client is None:
            self._client = StreamConsumer(self._settings.with_auto_offset_reset(REFUSES_LOST_OFFSETS))
        if not self._partitions and not self._steps % _LOOK_EVERY:
            known = self._client.topics()
            self._partitions = min(known.get(topic, 0) for topic in self._topics.values())
        self._steps += 1
        wanted = {number for number in range(self._partitions) if number not in owned}
        if wanted != self._disks.keys() or not self._is_following:
            self._follow(wanted)
        if not self._disks:
            return 0
        count = 0
        places: dict[TopicPartition, int] = {}
        try:
            batch = self._client.poll(10_000, POLL_S)
        except KafkaError:
            self._stop_reading()  # the changelog may have been created again: the next step looks up the offset of each copy again
            raise
        self._ended.update(batch.ends)
        for key, records, _, end in batch.runs:
            disk = self._disks.get(key.partition)
            if disk is not None:
                entries = [(record.key, record.value) for record in records if record.key is not None]
                disk.replay(self._stores[key.topic], entries, end)
                count += len(entries)
                places[key] = end
        if count:
            told = ", ".join(f"{key}@{end}" for key, end in places.items())
            _log.debug("standby copies took %d entries, up to %s", count, told)
        self._copies.measured(self._reports)
        return count

    def _reports(self) -> tuple[CopyReport, ...]:
        stores = tuple(self._topics)
        return tuple(
            CopyReport(stores, number, disk.rocks.bytes_on_disk, self.lag(number))
            for number, disk in self._disks.items()
        )

    def _follow(self, wanted: set[int]) -> None:
        assert self._client is not None
        self._is_following = False  # until the client reads: a broker that does not answer ends this here
        for number in self._disks.keys() - wanted:
            self._close(number)
        for number in wanted - self._disks.keys():
            self._disks[number] = self._folder.open(tuple(self._topics), number, self._time_first)
        keys = [TopicPartition(topic, number) for number in self._disks for topic in self._topics.values()]
        ends = self._client.newest_ends(keys)
        self._client.assign(places_of(self._settings, self._disks, self._stores, ends))
        self._ended.clear()
        self._is_following = True

    @property
    def disks(self) -> dict[int, tuple[TaskDisk, int]]:
        """The copies by partition number, each with the number of partitions."""
        return {number: (disk, self._partitions) for number, disk in self._disks.items()}

    def lag(self, number: int) -> int:
        """Return how many entries a copy lacks of the changelog that is furthest ahead of it, as of the last fetch. It counts offsets, so the
        markers of transactions are among them."""
        disk = self._disks[number]
        keys = {TopicPartition(topic, number): disk.offset(store) for store, topic in self._topics.items()}
        if self._client is not None:
            self._known_ends.update(self._client.known_ends(keys))
        ends = self._known_ends
        return max(0, *(ends.get(key, 0) - max(at, self._ended.get(key, 0), 0) for key, at in keys.items()))

    def release(self, number: int) -> None:
        """A task is assigned to this instance: stop following it."""
        if number in self._disks:
            self._close(number)

    def _close(self, number: int) -> None:
        del self._disks[number]
        self._folder.close_task(tuple(self._topics), number)

    def close(self) -> None:
        """Follow nothing any more."""
        for number in list(self._disks):
            self._close(number)
        self._stop_reading()

    def _stop_reading(self) -> None:
        client, self._client = self._client, None
        self._is_following = False
        if client is not None:
            client.close()
