"""ConsumerRecord: a light wrapper of librdkafka's message. Only the value is stored; other fields are read from the message on access.

A record of a batch is a tuple (value, message): its value is a C tuple getter, and wrapping a batch costs no Python call per record.
Fused steps inside a source see one record after the other and mostly keep none, so they refill one wrapper
(`engine/fusing/loop.py`), which halves the cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from streamactors.engine.fusing.loop import Refilled

_NO_TIMESTAMP = 0


class ConsumerRecord:
    """A record of a topic. Immutable."""

    __slots__ = ()

    value: bytes | Any
    """The value as bytes, or None for a tombstone. The type is Any, so that type checkers do not ask for a test against None."""
    message: Any
    """librdkafka's."""

    @property
    def key(self) -> bytes | None:
        """The key as bytes."""
        key: bytes | None = self.message.key()
        return key

    @property
    def topic(self) -> str:
        topic: str = self.message.topic()
        return topic

    @property
    def partition(self) -> int:
        partition: int = self.message.partition()
        return partition

    @property
    def offset(self) -> int:
        offset: int = self.message.offset()
        return offset

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since 1970; None where the record has none."""
        kind, timestamp = self.message.timestamp()
        return None if kind == _NO_TIMESTAMP else timestamp

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers in order; names may repeat."""
        return tuple(self.message.headers() or ())

    def __repr__(self) -> str:
        return f"ConsumerRecord({self.topic}-{self.partition}@{self.offset}, key={self.key!r}, value={self.value!r})"


class _Fields(NamedTuple):
    value: Any
    message: Any


class KeptRecord(ConsumerRecord, tuple[Any, Any]):
    """A record of a batch."""

    __slots__ = ()

    value: bytes | None = _Fields.value  # getters in C; a property would cost as much again as the tuple
    message: Any = _Fields.message


class PassingRecord(ConsumerRecord):
    """A record that is refilled with the next message, unless a reference to it remains."""

    __slots__ = ("message", "value")


PASSING: Final = Refilled(PassingRecord, ("r.message = m", "r.value = m.value()"))
"""How a fused loop wraps librdkafka's messages."""


def wrap(values: Iterable[Any], messages: Iterable[Any]) -> list[ConsumerRecord]:
    """Return the records of a batch."""
    return list(map(KeptRecord, zip(values, messages, strict=True)))


def wrap_lazily(values: Iterable[Any], messages: Iterable[Any]) -> Iterator[ConsumerRecord]:
    """As `wrap`, but make each record on demand, so that a short-lived record stays in the CPU cache."""
    return map(KeptRecord, zip(values, messages, strict=False))  # strict would look one ahead
