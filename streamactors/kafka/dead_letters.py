"""Dead letters: a record that could not be read, kept in a topic with its own key, value and headers, and where and why.

A dead letter is done when it is stored: the offset of the record behind it is not committed before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from streamactors.errors import BuildError
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.windows.record import RecordContext

PREFIX: Final = "dead-letter."


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record and what it died of."""

    record: ConsumerRecord
    error: BaseException
    stage: str

    def to_record(self, topic: str) -> ProducerRecord:
        """Return it as a record for the dead letters' topic; source and cause are headers beginning with "dead-letter."."""
        record = self.record
        told = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "timestamp": "" if record.timestamp is None else str(record.timestamp),
            "error": f"{type(self.error).__name__}: {self.error}",
            "stage": self.stage,
        }
        headers = [*record.headers, *((PREFIX + name, text.encode()) for name, text in told.items())]
        return ProducerRecord(topic, record.value, record.key, None, None, headers)


@dataclass(frozen=True, slots=True)
class Err(DeadLetter):
    """An element that stands for a record which could not be read: `record` as it came, the `error`, and the `stage` that raised it.

    It keeps its place in the stream: the record's offset is committed when this element is done."""

    @property
    def context(self) -> RecordContext:
        """Where the record came from."""
        record = self.record
        return RecordContext(record.topic, record.partition, record.offset, record.headers)


@dataclass(frozen=True)
class DeadLetters:
    """Where dead letters go: a topic, and how to write to it (default: the broker the records come from)."""

    topic: str
    producer: ProducerSettings | None = None

    def settings(self, consumer: ConsumerSettings) -> ProducerSettings:
        """Return the settings to write with."""
        if self.producer is not None:
            return self.producer
        return ProducerSettings(consumer.bootstrap_servers, properties=consumer.security())


def dead_letters_of(where: str, given: Any) -> DeadLetters | None:
    """Return where dead letters go; a text is a topic's name. Raises BuildError naming what was given."""
    if given is None or isinstance(given, DeadLetters):
        return given
    if isinstance(given, str) and given:
        return DeadLetters(given)
    raise BuildError(f"{where}: dead_letters must be a topic's name or DeadLetters(topic, producer=…), got {given!r}")
