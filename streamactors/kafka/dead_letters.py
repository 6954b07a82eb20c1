"""Dead letters: records that could not be read or processed, stored in a topic with their key, value and headers, their source and the error.

A dead letter is done when it is stored; the offset of its record is committed after that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from streamactors.errors import BuildError
from streamactors.kafka.errors import RecordError
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.stages.errors.failed_element import FailedElement
from streamactors.windows.record import Record, RecordContext

PREFIX: Final = "dead-letter."
WRITTEN: Final[Counter[str]] = Counter()
"""The number of letters made in this process, by topic."""

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be read or processed."""

    record: ConsumerRecord
    """The record."""
    error: BaseException
    """The error of the last attempt."""
    stage: str
    """The name of the stage that failed."""
    attempts: int = 1
    """The number of attempts."""

    def to_record(self, topic: str, due_ms: int | None = None) -> ProducerRecord:
        """Return the record for the dead-letter topic; headers that begin with "dead-letter." hold source and error.

        `due_ms` (since 1970): the record is for a retry topic, and must not be tried before."""
        record = self.record
        WRITTEN[topic] += 1
        told = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "timestamp": "" if record.timestamp is None else str(record.timestamp),
            "error": f"{type(self.error).__name__}: {self.error}",
            "stage": self.stage,
        }
        if self.attempts > 1 or due_ms is not None:
            told["attempts"] = str(self.attempts)
        if due_ms is not None:
            told["due"] = str(due_ms)
        headers = [*record.headers, *((PREFIX + name, text.encode()) for name, text in told.items())]
        return ProducerRecord(topic, record.value, record.key, None, None, headers)


@dataclass(frozen=True, slots=True)
class Err(DeadLetter):
    """An element for a record that could not be read: the `record`, the `error`, and the `stage` that raised it.

    It takes the record's place in the stream: the record's offset is committed when this element is done."""

    @property
    def context(self) -> RecordContext:
        """Where the record came from."""
        record = self.record
        return RecordContext(record.topic, record.partition, record.offset, record.headers)


@dataclass(frozen=True)
class DeadLetters:
    """The topic of the dead letters, and the settings to write to it (default: the broker of the failed records)."""

    topic: str
    """The topic of the dead letters."""
    producer: ProducerSettings | None = None
    """How they are written. None: to the broker of the records."""

    def settings(self, consumer: ConsumerSettings) -> ProducerSettings:
        """Return the settings to write with."""
        if self.producer is not None:
            return self.producer
        return consumer.as_producer()


def dead_letters_of(where: str, given: Any) -> DeadLetters | None:
    """Return where dead letters go; a string is a topic's name. Raises BuildError naming what was given."""
    if given is None or isinstance(given, DeadLetters):
        return given
    if isinstance(given, str) and given:
        return DeadLetters(given)
    raise BuildError(f"{where}: dead_letters must be a topic's name or DeadLetters(topic, producer=…), got {given!r}")


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter as stored in its topic. `timestamp_ms` (since 1970) is that of the failed record, None if it had none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    error: str
    stage: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    attempts: int = 1
    due_ms: int | None = None
    """In a retry topic: the record must not be tried before; ms since 1970."""

    @property
    def source(self) -> str:
        """Where the record came from: topic-partition@offset."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @staticmethod
    def read(
        key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
    ) -> StoredLetter | None:
        """Return the dead letter in a record of a dead-letter topic; None for a record that is not a dead letter."""
        own = []
        told: dict[str, str] = {}
        for name, data in headers:
            if name.startswith(PREFIX):
                told[name.removeprefix(PREFIX)] = (data or b"").decode(errors="replace")
            else:
                own.append((name, data))
        try:
            topic, partition, offset = told["topic"], int(told["partition"]), int(told["offset"])
            timestamp = int(told["timestamp"]) if told.get("timestamp") else None
            attempts, due = int(told.get("attempts", 1)), int(told["due"]) if "due" in told else None
        except (KeyError, ValueError):
            return None
        return StoredLetter(
            topic,
            partition,
            offset,
            timestamp,
            told.get("error", ""),
            told.get("stage", ""),
            key,
            value,
            tuple(own),
            attempts,
            due,
        )

    def to_record(self, topic: str | None = None) -> ProducerRecord:
        """Return the record to send again: to the topic and partition it came from, or to another topic, by its key."""
        partition = self.partition if topic is None else None
        return ProducerRecord(topic or self.topic, self.value, self.key, partition, self.timestamp_ms, self.headers)


# ── what retry and validate give up ──────────────────────────────────────────────────────────────────────────────────────────


class _Origin(NamedTuple):
    """The fields of a ConsumerRecord, for a record that came another way."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: Any
    value: Any
    headers: Headers


def letter_of(where: str, failed: Any) -> DeadLetter:
    """Return the dead letter of a FailedElement. Raises RecordError for an element that is not a record of a topic."""
    if not isinstance(failed, FailedElement):
        raise RecordError(f"{where} takes what retry and validate give up (FailedElement), got {type(failed).__name__}")
    found = record_of(failed.element)
    if found is None:
        raise RecordError(
            f"{where}: a {type(failed.element).__name__} is not a record of a topic; retry a flow of ConsumerRecord, CommittableMessage or "
            "Record, or give a sink of your own: Flow.map(to_record).to(Producer.plain_sink(…))"
        )
    record: Any = found
    attempts = failed.attempts
    stored = StoredLetter.read(record.key, record.value, record.headers)
    if stored is not None and stored.due_ms is not None:  # out of a retry topic
        attempts += stored.attempts
        record = _Origin(
            stored.topic,
            stored.partition,
            stored.offset,
            stored.timestamp_ms,
            record.key,
            record.value,
            stored.headers,
        )
    return DeadLetter(record, failed.error, failed.stage, attempts)


def record_of(element: Any) -> Any:
    """Return the record of a topic that an element is, or holds; None for other elements."""
    if isinstance(element, ConsumerRecord):
        return element
    inner = getattr(element, "record", None)
    if isinstance(inner, ConsumerRecord):
        return inner
    if isinstance(element, Record) and element.context is not None:
        at = element.context
        return _Origin(at.topic, at.partition, at.offset, element.timestamp, element.key, element.value, at.headers)
    return None
