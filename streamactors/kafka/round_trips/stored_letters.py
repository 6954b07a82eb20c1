"""Dead letters in their topics: found, read, and sent again. `streamactors dead-letters` and the live page use it.

Owner: the caller's thread. Letters are read without a group; only `replay_rest` remembers, by a group, what it has sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, Final, NamedTuple

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.keep import Keep
from streamactors.dsl.sink import Sink
from streamactors.errors import StreamActorsError
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.admin_values import PartitionDetail
from streamactors.kafka.client.ranges import RangeReader
from streamactors.kafka.client.runs import wrapped
from streamactors.kafka.consumer import Consumer
from streamactors.kafka.dead_letters import StoredLetter
from streamactors.kafka.producer import Producer
from streamactors.kafka.producer_record import RecordMetadata
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.send_producer import SendProducer
from streamactors.kafka.settings import ClientSettings, ConsumerSettings, ProducerSettings
from streamactors.kafka.subscriptions import Subscriptions, TopicPartition

LOOKED_AT: Final = 20
"""Number of records at the end of each partition that the search for dead-letter topics reads."""
NEIGHBOURS: Final = 500
"""Letters that are so many records apart are read together."""

Place = tuple[int, int]
"""Partition and offset of a letter in its topic."""
Found = tuple[ConsumerRecord, StoredLetter]


class NoSuchLetter(StreamActorsError):
    """The named record is not a dead letter."""


class Sent(NamedTuple):
    """What became of a letter that was sent again: where it is now, topic-partition@offset, or the error."""

    to: str
    error: BaseException | None = None


class StoredLetters:
    """The dead letters of a cluster. `reading` are the settings of the consumers that read them."""

    def __init__(self, settings: ClientSettings, reading: ConsumerSettings) -> None:
        self._settings = settings
        self._reading = reading

    def letters(self, topic: str, last: int | None = None) -> Iterator[Found]:
        """Yield each dead letter of a topic with its record. `last`: only letters among the last `last` records of each partition.

        Raises TopicNotFound, KafkaError."""
        with self._reader() as reader:
            for partition in self._partitions(topic):
                start = partition.earliest if last is None else max(partition.earliest, partition.latest - last)
                yield from _read(reader, TopicPartition(topic, partition.partition), start, partition.latest)

    def at(self, topic: str, places: Iterable[Place]) -> list[Found]:
        """Return letters by their places, in the order of the places. Raises NoSuchLetter, TopicNotFound, KafkaError."""
        wanted = list(places)
        found: dict[Place, Found] = {}
        with self._reader() as reader:
            for partition in self._partitions(topic):
                number = partition.partition
                inside = {at for n, at in wanted if n == number and partition.earliest <= at < partition.latest}
                for start, end in _ranges(inside):
                    for record, letter in _read(reader, TopicPartition(topic, number), start, end):
                        if record.offset in inside:
                            found[number, record.offset] = record, letter
        for number, offset in wanted:
            if (number, offset) not in found:
                raise NoSuchLetter(
                    f"there is no dead letter at {topic} {number}@{offset}; streamactors dead-letters list {topic} shows them"
                )
        return [found[place] for place in wanted]

    def topics(self) -> list[str]:
        """Return the topics among whose last records are dead letters."""
        with Admin(self._settings) as admin:
            names = [topic.name for topic in admin.topics() if not topic.name.startswith("__")]
        return [name for name in names if any(True for _ in self.letters(name, last=LOOKED_AT))]

    def _partitions(self, topic: str) -> tuple[PartitionDetail, ...]:
        with Admin(self._settings) as admin:
            return admin.partitions(topic)

    def _reader(self) -> closing[RangeReader]:
        return closing(RangeReader(self._reading, skip_lost=True))

    def replay_rest(
        self,
        topic: str,
        writing: ProducerSettings,
        target: str | None,
        group: str,
        *,
        dry_run: bool = False,
        read: Callable[[], object] = bool,
    ) -> int:
        """Send all letters of a topic that the group does not remember; return their number. The group remembers each as soon as it is stored.
        `read` is called for each record that was read."""

        def letter_of(record: ConsumerRecord) -> StoredLetter | None:
            read()
            return StoredLetter.read(record.key, record.value, record.headers)

        settings = self._reading.with_group_id(group)
        make = Consumer.plain_source if dry_run else Consumer.source
        found = (
            make(settings, Subscriptions.topics(topic), until="end")
            .map(letter_of)
            .filter(lambda letter: letter is not None)
        )
        counting: Sink[Any, Any] = Sink.fold(0, lambda count, _: count + 1)
        if dry_run:
            count: int = found.run_with(counting).result()
            return count
        graph = (
            found.map(lambda letter: letter.to_record(target))  # type: ignore[union-attr]  # filtered above
            .also_to(counting, mat=Keep.both)
            .to_mat(Producer.plain_sink(writing), Keep.both)
        )
        (control, counted), sent = graph.run()
        sent.result()
        control.is_shutdown.result()
        count = counted.result()
        return int(count)


def refuse_retries(topic: str, letters: Iterable[Found]) -> None:
    """Raise NoSuchLetter if one of the letters is tried again by itself."""
    if any(letter.due_ms is not None for _, letter in letters):
        raise NoSuchLetter(
            f"{topic} is a retry topic: its records are tried again by themselves when they are due; "
            "replay the topic of the dead letters"
        )


def send_again(writing: ProducerSettings, letters: Iterable[StoredLetter], target: str | None = None) -> list[Sent]:
    """Send letters to where they came from, or to `target`; return what became of each, in order. Nothing is remembered."""
    with SendProducer(writing) as producer:
        return [_sent(future) for future in [producer.send(letter.to_record(target)) for letter in letters]]


def _sent(future: StreamFuture[RecordMetadata]) -> Sent:
    error = future.exception()
    if error is not None:
        return Sent("", error)
    stored = future.result()
    return Sent(f"{stored.topic}-{stored.partition}@{stored.offset}")


def _read(reader: RangeReader, key: TopicPartition, start: int, end: int) -> Iterator[Found]:
    for chunk in reader.read(key, start, end):
        for record in wrapped(chunk):
            letter = StoredLetter.read(record.key, record.value, record.headers)
            if letter is not None:
                yield record, letter


def _ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return the ranges to read for some offsets: neighbours are read together. Pure."""
    ranges: list[tuple[int, int]] = []
    for at in sorted(offsets):
        if ranges and at - ranges[-1][1] < NEIGHBOURS:
            ranges[-1] = (ranges[-1][0], at + 1)
        else:
            ranges.append((at, at + 1))
    return ranges
