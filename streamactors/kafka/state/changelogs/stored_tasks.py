"""The state of a stage's tasks between its changelog and its disk: restoring, and writing cuts that are committed.

Owner: the stage's changelog, on its reading thread; `cut` is called by the thread that writes entries."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.state.changelogs.changelog_topics import ON_EXECUTORS, ChangelogTopics
from streamactors.kafka.state.changelogs.standby import Standby
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.errors import RestoreError
from streamactors.windows.state.changelogs import StandbyCopy
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.folder import StateFolder
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.store_log import TaskIdentity
from streamactors.windows.topology.window_task import WindowTask

if TYPE_CHECKING:
    from streamactors.windows.topology.task_factory import TaskFactory

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 10.0
"""Bounds of the pause before a standby copy that has failed is tried again."""
_log = logging.getLogger("streamactors.kafka")


@dataclass(frozen=True, slots=True)
class Cut:
    """Entries that were sent together. `disks`: of their partitions, when they were sent. `counts`: number of entries of each changelog partition."""

    disks: Mapping[int, TaskDisk | None]
    counts: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class KeptState:
    """What belongs to the state of a stage's tasks, or of the tasks of one of its sub-topologies."""

    settings: ConsumerSettings
    application: str
    """The consumer group of the run. The names of the changelog topics begin with it."""
    topics: Mapping[str, str]
    """The changelog topic of each store."""
    tasks: TaskFactory
    folder: StateFolder | None
    """The state folder of the application; None for state in memory."""
    topics_of_run: Callable[[], Iterable[str]]
    """Returns the changelog topics of all stages of the run."""


class StoredTasks:
    """The state of the tasks of one sub-topology."""

    def __init__(self, kept: KeptState) -> None:
        settings, topics, tasks = kept.settings, kept.topics, kept.tasks
        self._settings = settings
        self._application = kept.application
        self._topics = topics
        self._stores = tuple(topics)
        self._tasks = tasks
        self._folder = folder = kept.folder
        self._reader = ChangelogTopics(settings, topics, kept.topics_of_run, tasks.changelog_settings)
        self._disks: dict[int, TaskDisk] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._since: Counter[TopicPartition] = Counter()  # entries of acknowledged cuts after these ends
        self._marked: set[TopicPartition] = set()  # the last transaction has put a marker after its entries here
        self._standby: Standby | None = None
        self._not_before_s, self._pause_s = 0.0, _FIRST_PAUSE_S
        if folder is not None and settings.state.standbys:
            self._standby = Standby(self._reader.settings, topics, folder, tasks.time_first)

    # ── restoring ─────────────────────────────────────────────────────────────────────────────────────────────────

    def restore(self, partitions: Sequence[TopicPartition]) -> dict[int, WindowTask]:
        """Read the entries of these partitions and return their tasks. Raises RestoreError, StateError, KafkaError."""
        committed = self._committed(partitions)
        folder = self._folder
        if folder is None:
            count, found = self._reader.read(partitions)
            self._tell_of_lost_state(committed)
            return {
                number: self._tasks.restored(TaskIdentity(self._application, number, count), changes)
                for number, changes in found.items()
            }
        time_first = self._tasks.time_first
        for number in {key.partition for key in partitions}:
            if self._standby is not None:
                self._standby.release(number)
            folder.close_task(self._stores, number)  # entries that were not committed are forgotten
            self._disks[number] = folder.open(self._stores, number, time_first)
        numbers = {key.partition for key in partitions}
        count, ends = self._reader.follow(partitions, {number: self._disks[number] for number in numbers})
        self._tell_of_lost_state(committed)
        self._ends.update(ends)
        self._marked -= ends.keys()
        for key in ends:
            del self._since[key]
        share = self._share
        return {
            number: self._tasks.restored(
                TaskIdentity(self._application, number, count), (), DiskStores(self._disks[number], share)
            )
            for number in sorted(numbers)
        }

    def _tell_of_lost_state(self, committed: Mapping[TopicPartition, int]) -> None:
        """Warn of partitions of which the group has committed rows and no store has ever had an entry: their state begins empty."""
        begun = sorted(
            key for key, position in committed.items() if position and key.partition in self._reader.never_written
        )
        if begun:
            _log.warning(
                "%s: state begins empty although rows were committed before it: %s, and the changelogs %s have never had an entry. If a changelog "
                "was deleted, or these steps are new, stop all members, have the rows read again (streamactors groups reset-offsets %s --topic %s "
                "--to earliest), and start them",
                self._application,
                ", ".join(f"{key}@{committed[key]}" for key in begun[:5]),
                ", ".join(self._topics.values()),
                self._application,
                begun[0].topic,
            )

    def _committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's positions. Raises RestoreError if a query on Spark's executors has committed them: the changelogs are
        older than that."""
        settings = self._settings
        with Admin(settings) as admin:
            committed = admin.committed_with_metadata(settings.group_id or "", partitions)
        for key, (position, note) in committed.items():
            if note.startswith(ON_EXECUTORS):
                raise RestoreError(
                    f"{self._application} has reached {position} of {key} on Spark's executors, and the state of its windows is in checkpoint "
                    f"{note.removeprefix(ON_EXECUTORS)}, not in the changelogs; carry it back first, by SparkExecutors(…).carry_back(graph), or "
                    "run the graph there"
                )
        return {key: position for key, (position, _) in committed.items()}

    def _share(self) -> int:
        assert self._folder is not None
        return self._folder.share // max(1, len(self._stores))

    @property
    def has_standbys(self) -> bool:
        """True if `follow` must be called repeatedly."""
        return self._standby is not None

    def follow(self) -> None:
        """Bring the copies of tasks of other instances up to date. Raises StateError."""
        assert self._standby is not None
        if time.monotonic() < self._not_before_s:
            return
        try:
            self._standby.step(self._disks)
        except KafkaError as error:
            self._not_before_s = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
            _log.warning(
                "%s: standby copies could not be brought up to date, and are tried again: %s", self._application, error
            )
        else:
            self._pause_s = _FIRST_PAUSE_S

    def copies(self) -> list[StandbyCopy]:
        """Return the copies as they are now, to be read before the next `follow`. Raises StateError."""
        standby = self._standby
        if standby is None:
            return []
        copies = []
        for number, (disk, count) in standby.disks.items():
            identity = TaskIdentity(self._application, number, count)
            task = self._tasks.restored(identity, (), DiskStores(disk, self._share))
            copies.append(StandbyCopy(task, number, standby.lag(number)))
        return copies

    def cancel(self) -> None:
        """End the current `restore`; any thread."""
        self._reader.cancel()

    # ── cuts ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def on_disk(self) -> bool:
        """True if there is a disk to write."""
        return self._folder is not None

    def cut(self, records: Sequence[ProducerRecord], numbers: Sequence[int]) -> Cut:
        """Return a cut of these entries of these partitions, which are about to be sent. On the thread that sends them."""
        if not self.on_disk:
            return Cut({}, {})
        counts = Counter(TopicPartition(record.topic, record.partition or 0) for record in records)
        return Cut({number: self._disks.get(number) for number in numbers}, counts)

    def committed(self, cuts: Sequence[Cut]) -> None:
        """The cuts of a transaction are committed: write them. Raises StateError.

        This task counts the offset after the entries, because no other client writes to the changelog. The broker is not asked. The offset never
        exceeds the end of the changelog: the entries of an aborted attempt are not counted, and a transaction's marker is counted at the next
        commit, which cannot begin before the marker is written. A restart reads the few entries between the offset and the end again."""
        for key in self._marked:
            self._ends[key] += 1
        self._marked = set()
        for cut in cuts:
            counts = self._still_ours(cut)
            self._write(cut, {key: self._ends[key] + count for key, count in counts.items()})
            self._marked.update(counts)

    def acknowledged(self, cut: Cut, ends: Mapping[TopicPartition, int]) -> None:
        """The entries of a cut are in the changelog, up to these ends: write them. Raises StateError.

        Entries of a former owner that is still writing are not on this disk. An end after such an entry does not go with the entries: the
        earlier offset stays, and a restart reads from there."""
        counts = self._still_ours(cut)
        self._since.update(counts)
        self._write(cut, {key: ends[key] for key in counts if ends[key] == self._ends[key] + self._since[key]})

    def _still_ours(self, cut: Cut) -> dict[TopicPartition, int]:
        """Return the counts of a cut without those of partitions that were taken away since it was sent: a restore has read these entries."""
        disks = self._disks
        return {
            key: count
            for key, count in cut.counts.items()
            if disks.get(key.partition) is cut.disks[key.partition] is not None
        }

    def _write(self, cut: Cut, ends: Mapping[TopicPartition, int]) -> None:
        self._ends.update(ends)
        for key in ends:
            del self._since[key]
        for number, disk in cut.disks.items():
            if disk is not None and self._disks.get(number) is disk:
                disk.commit({store: ends[key] for store, key in self._keys(number).items() if key in ends})

    def _keys(self, number: int) -> dict[str, TopicPartition]:
        return {store: TopicPartition(topic, number) for store, topic in self._topics.items()}

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def revoked(self, number: int) -> None:
        """A partition was revoked: close its disk, for another owner in this process."""
        if self._folder is not None and self._disks.pop(number, None) is not None:
            self._folder.close_task(self._stores, number)

    def close(self) -> None:
        """The stage has stopped. Raises StateError if a database cannot be closed; the folder closes those that are left."""
        if self._standby is not None:
            self._standby.close()
        for number in list(self._disks):
            self.revoked(number)
