"""What goes into a producer and what comes out: records, envelopes with something that passes through, and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from streamactors.errors import BuildError

Headers: TypeAlias = Sequence[tuple[str, bytes | str | None]]


class ProducerRecord(NamedTuple):
    """A record to write.

    `value`, `key`: bytes, text or None, or what the serdes of the writer take. `partition` None: chosen by the key (Java's murmur2).
    `timestamp`: ms since 1970, None: now; 0, which librdkafka takes for now, is written as 1, and a negative one is refused."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers | None = None


new_record: Final[Callable[[tuple[Any, ...]], ProducerRecord]] = partial(tuple.__new__, ProducerRecord)
"""Makes a ProducerRecord of all its fields, in half the time of `ProducerRecord(…)`."""


class Message(NamedTuple):
    """One record to write, and something that comes out with its result."""

    record: ProducerRecord
    pass_through: Any = None


class MultiMessage(NamedTuple):
    """Several records to write; the result comes when all are acknowledged."""

    records: tuple[ProducerRecord, ...]
    pass_through: Any = None


class PassThroughMessage(NamedTuple):
    """Nothing to write; comes out in its turn."""

    pass_through: Any


Envelope: TypeAlias = Message | MultiMessage | PassThroughMessage


class ProducerMessage:
    """Makes the three kinds of envelopes."""

    @staticmethod
    def message(record: ProducerRecord, pass_through: Any = None) -> Message:
        """Return an envelope of one record."""
        return Message(record, pass_through)

    @staticmethod
    def multi(records: Iterable[ProducerRecord], pass_through: Any = None) -> MultiMessage:
        """Return an envelope of several records, or of none."""
        return MultiMessage(tuple(records), pass_through)

    @staticmethod
    def pass_through(value: Any) -> PassThroughMessage:
        """Return an envelope of no record."""
        return PassThroughMessage(value)


class RecordMetadata(tuple[Any]):
    """Where a record was stored; read from librdkafka's report when asked for."""

    __slots__ = ()

    @property
    def topic(self) -> str:
        topic: str = self[0].topic()
        return topic

    @property
    def partition(self) -> int:
        partition: int = self[0].partition()
        return partition

    @property
    def offset(self) -> int:
        offset: int = self[0].offset()
        return offset

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""
        timestamp: int = self[0].timestamp()[1]
        return timestamp

    def __repr__(self) -> str:
        return f"RecordMetadata({self.topic}-{self.partition}@{self.offset})"


class _Sent(NamedTuple):
    message: Any
    report: Any


class Result(tuple[Message, Mapping[Any, Any]]):
    """A stored record: a tuple of the `Message` and {None: librdkafka's report}."""

    __slots__ = ()

    message: Message = _Sent.message

    @property
    def metadata(self) -> RecordMetadata:
        """Where it was stored."""
        return RecordMetadata((self[1][None],))

    def __repr__(self) -> str:
        return f"Result({self.metadata!r}, {self.message!r})"

    @property
    def pass_through(self) -> Any:
        return self.message.pass_through


class MultiResult(NamedTuple):
    """The stored records of a `MultiMessage`, as `parts` in its order."""

    parts: tuple[RecordMetadata, ...]
    message: MultiMessage

    @property
    def pass_through(self) -> Any:
        return self.message.pass_through


class PassThroughResult(NamedTuple):
    """The result of a `PassThroughMessage`."""

    pass_through: Any


def checked_record(record: Any) -> ProducerRecord:
    """Return `record`. Raises BuildError, naming it, if it is not one."""
    if isinstance(record, ProducerRecord):
        return record
    raise BuildError(f"a producer takes ProducerRecord(topic, value, key, …), got {type(record).__name__}")
