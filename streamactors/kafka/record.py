"""ConsumerRecord: one light wrapper per record; everything but the value is looked up in librdkafka's message when asked for.

Records that are kept are tuples of (value, message): the value is a C tuple getter, and a batch is wrapped without a Python call per
record. Steps inside a source see one record after the other, and mostly keep none: there one wrapper is filled again and again
(`engine/fused_loop.py`), which costs half."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from streamactors.engine.fused_loop import Refilled

_NO_TIMESTAMP = 0


class ConsumerRecord:
    """A record as it was read. Not to be changed."""

    __slots__ = ()

    value: bytes | None
    """The value as bytes, None for a tombstone."""
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
        """The headers in order; a name may come more than once."""
        return tuple(self.message.headers() or ())

    def __repr__(self) -> str:
        return f"ConsumerRecord({self.topic}-{self.partition}@{self.offset}, key={self.key!r}, value={self.value!r})"


class _Fields(NamedTuple):
    value: Any
    message: Any


class KeptRecord(ConsumerRecord, tuple[Any, Any]):
    """A record of a batch that is wrapped at once."""

    __slots__ = ()

    value: bytes | None = _Fields.value  # getters in C; a property would cost as much again as the tuple
    message: Any = _Fields.message


class PassingRecord(ConsumerRecord):
    """A record that is filled anew for the next message, unless somebody holds it."""

    __slots__ = ("message", "value")


PASSING: Final = Refilled(PassingRecord, ("r.message = m", "r.value = m.value()"))
"""How a loop wraps librdkafka's messages."""


def wrap(values: Iterable[Any], messages: Iterable[Any]) -> list[ConsumerRecord]:
    """Return the records of a batch."""
    return list(map(KeptRecord, zip(values, messages, strict=True)))


def wrap_lazily(values: Iterable[Any], messages: Iterable[Any]) -> Iterator[ConsumerRecord]:
    """As `wrap`, each record when it is asked for, so that it dies young and in the cache."""
    return map(KeptRecord, zip(values, messages, strict=False))  # strict would look one ahead
