"""A dead letter as it lies in its topic: where its record came from, what it died of, and the record to send again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamactors.kafka.dead_letters import PREFIX
from streamactors.kafka.producer_record import ProducerRecord

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """`timestamp_ms`, since 1970, is that of the record it stands for; None where that had none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    error: str
    stage: str
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def source(self) -> str:
        """Where the record came from: topic-partition@offset."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @staticmethod
    def read(
        key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
    ) -> StoredLetter | None:
        """Return the letter that a record of a dead-letter topic is; None for a record that is no dead letter."""
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
        except (KeyError, ValueError):
            return None
        return StoredLetter(
            topic, partition, offset, timestamp, told.get("error", ""), told.get("stage", ""), key, value, tuple(own)
        )

    def to_record(self, topic: str | None = None) -> ProducerRecord:
        """Return the record to send again: to the topic and partition it came from, or to another topic, by its key."""
        partition = self.partition if topic is None else None
        return ProducerRecord(topic or self.topic, self.value, self.key, partition, self.timestamp_ms, self.headers)
