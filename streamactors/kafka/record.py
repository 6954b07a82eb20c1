"""ConsumerRecord: one light wrapper per record; everything but the value is looked up in librdkafka's message when asked for.

A tuple of (value, message): the value is a C tuple getter, and a batch is wrapped without a Python call per record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_NO_TIMESTAMP = 0


class _Fields(NamedTuple):
    value: Any
    message: Any


class ConsumerRecord(tuple[Any, Any]):
    """A record as it was read. Immutable."""

    __slots__ = ()

    value: bytes | None = _Fields.value  # a getter in C; a property would cost as much again as the tuple
    """The value as bytes, None for a tombstone."""

    @property
    def key(self) -> bytes | None:
        """The key as bytes."""
        key: bytes | None = self[1].key()
        return key

    @property
    def topic(self) -> str:
        topic: str = self[1].topic()
        return topic

    @property
    def partition(self) -> int:
        partition: int = self[1].partition()
        return partition

    @property
    def offset(self) -> int:
        offset: int = self[1].offset()
        return offset

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since 1970; None where the record has none."""
        kind, timestamp = self[1].timestamp()
        return None if kind == _NO_TIMESTAMP else timestamp

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers in order; a name may come more than once."""
        return tuple(self[1].headers() or ())

    def __repr__(self) -> str:
        return f"ConsumerRecord({self.topic}-{self.partition}@{self.offset}, key={self.key!r}, value={self.value!r})"


def wrap(values: Iterable[Any], messages: Iterable[Any]) -> list[ConsumerRecord]:
    """Return the records of a batch."""
    return list(map(ConsumerRecord, zip(values, messages, strict=True)))


def wrap_lazily(values: Iterable[Any], messages: Iterable[Any]) -> Iterator[ConsumerRecord]:
    """As `wrap`, each record when it is asked for, so that it dies young and in the cache."""
    return map(ConsumerRecord, zip(values, messages, strict=False))  # strict would look one ahead
