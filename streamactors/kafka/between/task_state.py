"""The state of a stage's tasks between its changelog and its disk: restoring, and writing cuts that are committed.

Owner: the stage's changelog, on its reading thread; `expect` is called by the thread that writes entries."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from streamactors.kafka.between.changelog_topics import ChangelogTopics
from streamactors.kafka.between.standby import Standby
from streamactors.kafka.client.admin import LATEST, Admin
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.operators.task import WindowTask
from streamactors.windows.state.changelogs import Tasks
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.folder import StateFolder
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.store_log import TaskIdentity

_log = logging.getLogger("streamactors.kafka")


class TaskState:
    """`topics`: changelog topic by store. `folder`: None for state in memory. `fenced`: nobody else can write the changelog. `of_run`:
    returns the changelog topics of all stages of the run."""

    def __init__(
        self,
        settings: ConsumerSettings,
        application: str,
        topics: Mapping[str, str],
        tasks: Tasks,
        folder: StateFolder | None,
        *,
        fenced: bool,
        of_run: Callable[[], Iterable[str]],
    ) -> None:
        self._settings = settings
        self._application = application
        self._topics = topics
        self._stores = tuple(topics)
        self._tasks = tasks
        self._folder = folder
        self._fenced = fenced
        self._reader = ChangelogTopics(settings, topics, of_run, tasks.changelog_settings)
        self._admin: Admin | None = None
        self._disks: dict[int, TaskDisk] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._since: Counter[TopicPartition] = Counter()  # entries of committed cuts behind these ends
        self._standby: Standby | None = None
        if folder is not None and settings.state.standbys:
            self._standby = Standby(self._reader.settings, topics, folder, tasks.time_first)
        self._sent = 0  # grows with each cut that is sent: entries that a cut counts must not be followed by others

    # ── restoring ─────────────────────────────────────────────────────────────────────────────────────────────────

    def restore(self, partitions: Sequence[TopicPartition]) -> dict[int, WindowTask]:
        """Read the entries of these partitions and return their tasks. Raises RestoreError, StateError, KafkaError."""
        folder = self._folder
        if folder is None:
            count, found = self._reader.read(partitions)
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
        self._ends.update(ends)
        for key in ends:
            del self._since[key]
        share = self._share
        return {
            number: self._tasks.restored(
                TaskIdentity(self._application, number, count), (), DiskStores(self._disks[number], share)
            )
            for number in sorted(numbers)
        }

    def _share(self) -> int:
        assert self._folder is not None
        return self._folder.share // max(1, len(self._stores))

    @property
    def has_standbys(self) -> bool:
        """True if `follow` is to be called again and again."""
        return self._standby is not None

    def follow(self) -> None:
        """Bring the copies of tasks of other instances up to date. Raises StateError."""
        assert self._standby is not None
        try:
            self._standby.step(self._disks)
        except KafkaError as error:
            _log.warning(
                "%s: standby copies could not be brought up to date, and are tried again: %s", self._application, error
            )

    def cancel(self) -> None:
        """End the current `restore`; any thread."""
        self._reader.cancel()

    # ── cuts ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def on_disk(self) -> bool:
        """True if there is a disk to write."""
        return self._folder is not None

    def sent(self) -> int:
        """The entries of a cut are about to be sent; returns the number of the cut."""
        self._sent += 1
        return self._sent

    def commit(self, cut: int, counts: Mapping[TopicPartition, int], numbers: Sequence[int]) -> None:
        """A cut is committed: write it. `counts`: the entries of each changelog partition. `numbers`: the partitions of the cut.

        The end of a changelog partition is the offset that goes with the entries, unless others were sent meanwhile: then an earlier
        offset stays, and a restart reads some entries twice. Raises StateError."""
        ends = self._ends_after(cut, counts, numbers)
        for number in numbers:
            disk = self._disks.get(number)
            if disk is not None:
                disk.commit({store: ends[key] for store, key in self._keys(number).items() if key in ends})

    def _keys(self, number: int) -> dict[str, TopicPartition]:
        return {store: TopicPartition(topic, number) for store, topic in self._topics.items()}

    def _ends_after(
        self, cut: int, counts: Mapping[TopicPartition, int], numbers: Sequence[int]
    ) -> dict[TopicPartition, int]:
        if not counts:
            return {}
        self._since.update(counts)
        if self._admin is None:
            self._admin = Admin(self._settings)
        try:
            found = self._admin.offsets(dict.fromkeys(counts, LATEST))
        except KafkaError as error:
            _log.warning("%s: the ends of changelogs are not known after a commit: %s", self._application, error)
            return {}
        if self._sent != cut:
            return {}
        if not self._fenced:  # the entries of a former owner that is still writing are not on this disk
            found = {key: end for key, end in found.items() if end == self._ends.get(key, 0) + self._since[key]}
        self._ends.update(found)
        for key in found:
            del self._since[key]
        return found

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def revoked(self, number: int) -> None:
        """A partition is ours no more: close its disk, for another owner in this process."""
        if self._folder is not None and self._disks.pop(number, None) is not None:
            self._folder.close_task(self._stores, number)

    def close(self) -> None:
        """The stage has stopped. Raises StateError if a database cannot be closed; the folder closes those that are left."""
        try:
            if self._standby is not None:
                self._standby.close()
            for number in list(self._disks):
                self.revoked(number)
        finally:
            if self._admin is not None:
                self._admin.close()
