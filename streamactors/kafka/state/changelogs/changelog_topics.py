"""Changelog topics: compacted, with as many partitions as the input. They are created when missing, checked otherwise, and read to their end.
Their settings are in `windows/state/changelog_settings.py`.

Only committed entries are read. An open transaction of the former owner ends first: the new owner fences it, or the broker times it out.

Owner: the thread that restores."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from streamactors.collector import collector_paused
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.connection import BEGINNING
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.client.created_topics import made_here
from streamactors.kafka.client.offsets.newest_ends import PartitionEnd, known_epochs
from streamactors.kafka.client.runs import keys_and_values
from streamactors.kafka.errors import KafkaError, NoBroker, OffsetsGone, StaleAnswer, TopicError, TopicNotFound
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.state.changelogs.disk_places import REFUSES_LOST_OFFSETS, places_of
from streamactors.kafka.state.changelogs.watching import RESTORES, Restoring
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.log_limit import alike, log_limited
from streamactors.windows.errors import RestoreError
from streamactors.windows.state.changelog_settings import COMPACTED
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.store_log import NewestEntries

READER: Final[Mapping[str, object]] = {
    "isolation.level": "read_committed",
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 65_536,
    "max.partition.fetch.bytes": 4 << 20,
    "fetch.message.max.bytes": 4 << 20,
    "enable.partition.eof": True,
    "topic.metadata.refresh.interval.ms": 5_000,
}
"""Read at full speed, to the end. A leader that is cut off may keep answering with an old end, and refuses nothing: librdkafka must look for another."""

ROWS: Final[Mapping[str, str]] = {"cleanup.policy": "delete", "retention.ms": "-1"}
"""A topic of rows on their way: they carry event time, and the broker's retention goes by it: of rows that happened longer ago than
log.retention.hours it would delete what no instance has read yet. Kafka Streams creates its repartition topics so, too."""
ON_EXECUTORS: Final = "windows on executors: "
"""Begins the note at a position that a query on Spark's executors has committed: the state of its windows is in the checkpoint that the
note names, and the changelogs do not have it."""
NO_PROGRESS_S: Final = 90.0
"""Longer than librdkafka's transaction timeout: an abandoned transaction holds back later records for that long."""
RETRIED_S: Final = 60.0
"""How long a restore asks again: longer than a leader that is cut off keeps its session, and its lag time."""
RETRY_S: Final = 1.0
_CREATED_S: Final = 10.0
PROGRESS_S: Final = 5.0
T = TypeVar("T")
NO_IDS: Final[Mapping[TopicPartition, str | None]] = {}
_GENERATED: Final = re.compile(r"(.+-)\d{10}((?:-[a-z]+)*-changelog)")
_log = logging.getLogger("streamactors.kafka")


class ChangelogTopics:
    """The changelog topics of one stage: `topics` by store. `of_run`: returns those of all stages of the run."""

    def __init__(
        self,
        settings: ConsumerSettings,
        topics: Mapping[str, str],
        of_run: Callable[[], Iterable[str]] | None = None,
        created_with: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`created_with`: the settings of new topics that are not just compacted, by store."""
        self.settings = ConsumerSettings(
            settings.bootstrap_servers, None, "earliest", properties={**settings.security(), **READER}
        )
        self._topics = topics
        self._stores = {topic: store for store, topic in topics.items()}
        self._of_run = of_run or topics.values
        self._created_with = created_with or {}
        self._cancelled = threading.Event()
        self.never_written: set[int] = set()
        """Partitions of the last `read` or `follow` whose changelogs have never had an entry."""

    def cancel(self) -> None:
        """End the current `read`; any thread."""
        self._cancelled.set()

    def read(self, inputs: Sequence[TopicPartition]) -> tuple[int, dict[int, NewestEntries]]:
        """Return the number of partitions and the entries of each partition of `inputs`, the newest of each key.

        Raises RestoreError if input and changelog have different numbers of partitions, KafkaError."""
        return self._retried(lambda: self._read_all(inputs))

    def _read_all(self, inputs: Sequence[TopicPartition]) -> tuple[int, dict[int, NewestEntries]]:
        client = StreamConsumer(self.settings)
        try:
            known = client.topics()
            partitions = self._partitions({key.topic: known.get(key.topic, 0) for key in inputs})
            self._prepare(client, known, partitions)
            numbers = sorted({key.partition for key in inputs})
            found = {number: NewestEntries() for number in numbers}
            keys = self._keys(numbers)
            ends = self._ends(client, keys)
            with collector_paused():
                self._read(client, _offsets(ends), dict.fromkeys(keys, BEGINNING), ToMemory(found), _ids(ends))
            return partitions, found
        finally:
            client.close()

    def follow(
        self, inputs: Sequence[TopicPartition], disks: Mapping[int, TaskDisk]
    ) -> tuple[int, dict[TopicPartition, int]]:
        """Write to each disk the entries that it lacks. Returns the number of partitions and the ends of the changelogs' partitions.

        A store that cannot continue at its offset is emptied and read again from the beginning. Raises as `read`, and StateError."""
        return self._retried(lambda: self._follow_all(inputs, disks))

    def _follow_all(
        self, inputs: Sequence[TopicPartition], disks: Mapping[int, TaskDisk]
    ) -> tuple[int, dict[TopicPartition, int]]:
        client = StreamConsumer(self.settings.with_auto_offset_reset(REFUSES_LOST_OFFSETS))
        try:
            known = client.topics()
            partitions = self._partitions({key.topic: known.get(key.topic, 0) for key in inputs})
            self._prepare(client, known, partitions)
            ends = self._ends(client, self._keys(sorted(disks)))
            begins = places_of(self.settings, disks, self._stores, ends)
            self._read(client, _offsets(ends), begins, ToDisks(disks), _ids(ends))
            return partitions, _offsets(ends)
        finally:
            client.close()

    def _retried(self, attempt: Callable[[], T]) -> T:
        """Make another attempt while a leader changes or a broker is cut off, as a standby copy does."""
        give_up_s = time.monotonic() + RETRIED_S
        while True:
            try:
                return attempt()
            except (StaleAnswer, OffsetsGone, NoBroker) as error:
                if self._cancelled.is_set() or time.monotonic() > give_up_s:
                    raise
                topics = ", ".join(self._topics.values())
                log_limited(
                    _log, logging.WARNING, (topics, alike(error)),
                    "%s: the state could not be read, and this is tried again: %s", topics, error,
                )  # fmt: skip
            self._cancelled.wait(RETRY_S)

    def _keys(self, numbers: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in self._topics.values() for number in numbers]

    def _ends(self, client: StreamConsumer, keys: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionEnd]:
        ends = _newest_ends(client, keys)
        written = {key.partition for key, end in ends.items() if end.offset}
        self.never_written = {key.partition for key in keys} - written
        return ends

    def _partitions(self, counts: Mapping[str, int]) -> int:
        if not self._topics:  # no state: the tasks of topics with different numbers have nothing in common
            return max(counts.values())
        if len(set(counts.values())) > 1:
            named = ", ".join(f"{topic} has {n}" for topic, n in sorted(counts.items()))
            raise RestoreError(
                f"topics read together need the same number of partitions, so that one key lies in one task: {named}"
            )
        return next(iter(counts.values()))

    def _prepare(self, client: StreamConsumer, known: Mapping[str, int], partitions: int) -> None:
        missing = []
        for topic in self._topics.values():
            if topic not in known:
                missing.append(topic)
            elif known[topic] != partitions:
                raise RestoreError(
                    f"changelog {topic} has {known[topic]} partitions, the input has {partitions}: its entries lie in other "
                    "partitions than their rows now; use another group id (and read the input again), or another input"
                )
        self._refuse_renumbered(missing, known)
        self._tell_of_renamed(missing, known)
        if missing:
            admin = Admin(self.settings)
            for topic in missing:
                wanted = self._created_with.get(self._stores[topic], COMPACTED)
                admin.create(topic, partitions, settings=wanted, exist_ok=True)
            _wait_for(client, missing)
        made_here.update(self._topics.values())  # also those that another instance has just made

    def _refuse_renumbered(self, missing: Iterable[str], known: Iterable[str]) -> None:
        """A generated name shifts when a step is added or taken away before it; its state would stay under the old name."""
        wanted = set(self._of_run())
        for topic in missing:
            named = _GENERATED.fullmatch(topic)
            if named is None:
                continue
            for other in sorted(set(known) - wanted):
                found = _GENERATED.fullmatch(other)
                if found is not None and found.groups() == named.groups():
                    raise RestoreError(
                        f"the state of a step without a name is in {other}, and the step is now {topic}: its generated number has changed "
                        "with the steps before it; give the step a name (count(name='…')) and rename, or delete the old topic to begin without "
                        "its state"
                    )

    def _tell_of_renamed(self, missing: Iterable[str], known: Iterable[str]) -> None:
        """Warn of a new store beside a changelog without a step: the store may have been renamed. A step may also have been replaced, so this is no error."""
        wanted = set(self._of_run())
        for topic in missing:
            group = topic.removesuffix(f"{self._stores[topic]}-changelog")
            left = [
                each for each in known if each.startswith(group) and each.endswith("-changelog") and each not in wanted
            ]
            if left and topic.endswith(f"{self._stores[topic]}-changelog"):
                _log.warning(
                    "changelog %s does not belong to any step of this run, and %s is new. If a step was renamed, its state is no longer used: give the step "
                    "its former name. If the changelog belongs to another group, all is well",
                    ", ".join(sorted(left)[:5]),
                    topic,
                )

    def _read(
        self,
        client: StreamConsumer,
        to: Mapping[TopicPartition, int],
        begins: Mapping[TopicPartition, int],
        target: ToMemory | ToDisks,
        topic_ids: Mapping[TopicPartition, str | None] = NO_IDS,
    ) -> None:
        """Read each partition from where it begins to its end, into `target`. `topic_ids`: for the leader epochs of the records."""
        ends = {key: end for key, end in to.items() if end > max(0, begins[key])}
        if ends:
            client.assign({key: begins[key] for key in ends})
        progress = RestoreProgress(
            sum(end - max(0, begins[key]) for key, end in ends.items()), ", ".join(self._topics.values())
        )
        try:
            self._read_to(client, ends, target, topic_ids, progress)
        finally:
            RESTORES.discard(progress)
        progress.end()

    def _read_to(
        self,
        client: StreamConsumer,
        ends: dict[TopicPartition, int],
        target: ToMemory | ToDisks,
        topic_ids: Mapping[TopicPartition, str | None],
        progress: RestoreProgress,
    ) -> None:
        while ends and not self._cancelled.is_set():
            batch = client.read(10_000, 0.5)
            for key, messages, _, end in batch.runs:
                keys, values = keys_and_values(messages)
                if None in keys:
                    at = messages[keys.index(None)].offset()
                    raise RestoreError(f"changelog {key}: a record at {at} has no key; no store wrote it")
                target.add(key.partition, self._stores[key.topic], keys, values, end)
                if topic_ids.get(key) is not None:
                    known_epochs.saw(topic_ids[key], key.partition, messages[-1].leader_epoch())
                progress.read(len(messages))
                _reached(ends, key, end)
            for key, position in batch.ends:
                if key in ends:
                    target.add(key.partition, self._stores[key.topic], (), (), position)
                _reached(ends, key, position)
            if ends and progress.silent_s() > NO_PROGRESS_S:
                named = ", ".join(f"{key} (to {end})" for key, end in list(ends.items())[:5])
                raise RestoreError(
                    f"no record of the changelogs {named} arrived in {NO_PROGRESS_S:g} s: a transaction of their former owner may be "
                    "open; it ends with its transaction.timeout.ms"
                )


class ToMemory:
    """Keeps the newest entries of each partition."""

    def __init__(self, found: Mapping[int, NewestEntries]) -> None:
        self._found = found

    def add(self, number: int, store: str, keys: Sequence[bytes], values: Sequence[bytes | None], end: int) -> None:
        """Take entries of a partition, in order; `end`: the offset after them."""
        self._found[number].add(store, keys, values)


class ToDisks:
    """Writes entries to the disks of their partitions."""

    def __init__(self, disks: Mapping[int, TaskDisk]) -> None:
        self._disks = disks

    def add(self, number: int, store: str, keys: Sequence[bytes], values: Sequence[bytes | None], end: int) -> None:
        """As ToMemory; the offset is written with the entries."""
        self._disks[number].replay(store, zip(keys, values, strict=True), end)


class RestoreProgress(Restoring):
    """Logs the progress and the speed of a restore."""

    def __init__(self, offsets: int, what: str) -> None:
        super().__init__(offsets, what)
        RESTORES.add(self)
        self._began = self._heard = self._told = time.monotonic()

    def read(self, entries: int) -> None:
        """Entries have come."""
        self.entries += entries
        self._heard = time.monotonic()
        if self._heard - self._told > PROGRESS_S:
            self._told = self._heard
            _log.info("%s: restored %d entries of at most %d, %s", self.what, self.entries, self.offsets, self._rate())

    def _rate(self) -> str:
        return f"{self.entries / max(1e-3, time.monotonic() - self._began):,.0f} a second"

    def silent_s(self) -> float:
        """Seconds since the last entry."""
        return time.monotonic() - self._heard

    def end(self) -> None:
        """All entries are there."""
        RESTORES.discard(self)
        if self.entries:
            _log.info("%s: restored %d entries, %s", self.what, self.entries, self._rate())


def _reached(ends: dict[TopicPartition, int], key: TopicPartition, position: int) -> None:
    if key in ends and position >= ends[key]:
        del ends[key]


def ensure_topic(settings: ConsumerSettings, topic: str, partitions: int | None) -> None:
    """Create a topic of rows with so many partitions unless it is there; what is there keeps its settings.

    None: it must be there, with as many as it has; looked up before anything is written, or the broker might create it for the
    writer. Raises TopicNotFound, TopicError when it has another number of partitions, KafkaError."""
    client = StreamConsumer(settings)
    try:
        client.preflight(())
        known = client.topics().get(topic)
        if known is None:
            if partitions is None:
                servers = settings.bootstrap_servers
                raise TopicNotFound(f"no topic {topic} at {servers}; create it, or say with how many partitions")
            Admin(settings).create(topic, partitions, settings=ROWS, exist_ok=True)
            _wait_for(client, [topic])
        made_here.add(topic)
        if known is not None and partitions not in (None, known):
            raise TopicError(
                f"topic {topic} has {known} partitions, not {partitions}: rows would change their partition"
            )
    finally:
        client.close()


def _offsets(ends: Mapping[TopicPartition, PartitionEnd]) -> dict[TopicPartition, int]:
    return {key: end.offset for key, end in ends.items()}


def _ids(ends: Mapping[TopicPartition, PartitionEnd]) -> dict[TopicPartition, str | None]:
    return {key: end.topic_id for key, end in ends.items()}


def _newest_ends(client: StreamConsumer, keys: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionEnd]:
    """Return the high watermark of each partition; ask again while a partition of a new topic has no leader. Raises KafkaError."""
    deadline = time.monotonic() + _CREATED_S
    while True:
        try:
            return client.newest_ends(keys)
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            client.poll(1, 0.1)


def _wait_for(client: StreamConsumer, topics: Sequence[str]) -> None:
    """Return when the client knows the topics: a new topic is known a moment after it was created. Raises KafkaError."""
    deadline = time.monotonic() + _CREATED_S
    while missing := [topic for topic in topics if topic not in client.topics()]:
        if time.monotonic() > deadline:
            raise KafkaError(f"topic {missing[0]} was created, and is not there after {_CREATED_S:g} s")
        client.poll(1, 0.05)
