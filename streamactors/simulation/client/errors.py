"""Errors and partitions as confluent-kafka makes them.

Owner: the clients. A code of the broker is the same number in confluent-kafka; librdkafka's own codes are negative."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.kafka.client.connection import ck

LOST: Final = None
"""The error of a request that got no answer."""


def kafka_error(
    code: int, text: str | None = None, *, fatal: bool = False, retriable: bool = False, abort: bool = False
) -> Any:
    """Return a KafkaError. `abort`: the transaction must be aborted. Without a text it has librdkafka's own."""
    if text is None and not (fatal or retriable or abort):
        return ck.KafkaError(int(code))
    return ck.KafkaError(
        int(code), text if text is not None else ck.KafkaError(int(code)).str(), fatal, retriable, abort
    )


def failure(code: int, text: str | None = None, **flags: bool) -> Any:
    """Return a KafkaException with one error."""
    return ck.KafkaException(kafka_error(code, text, **flags))


def answered(error: ErrorCode | None) -> int:
    """Return the code of an answer; a request without one has broken its connection."""
    return int(ck.KafkaError._TRANSPORT) if error is None else int(error)


class Told(ck.TopicPartition):  # type: ignore[misc]
    """A TopicPartition with an error. confluent-kafka's own can only be given one by librdkafka."""

    error: Any = None

    @classmethod
    def of(cls, topic: str, partition: int, offset: int, code: int = 0, metadata: str | None = None) -> Told:
        """Return a partition with the error of a code, 0 for none."""
        made = cls(topic, partition, offset) if metadata is None else cls(topic, partition, offset, metadata)
        if code:
            made.error = kafka_error(code)
        return made
