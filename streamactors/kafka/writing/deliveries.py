"""The elements that a producer's stage has sent and the broker has not acknowledged yet, as runs in their order.

Owner: the producer's stage, on its island. The thread that serves the reports (`StreamProducer`) writes them, one thread at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, Protocol

from streamactors.kafka.producer_record import (
    Message,
    MultiMessage,
    MultiResult,
    PassThroughMessage,
    PassThroughResult,
    ProducerRecord,
    RecordMetadata,
    Result,
)

Slot = dict[Any, Any]
"""The outcome of one record: {None: report} when stored, {error: report or None} when it failed, {} while it is unknown."""

_UNKNOWN: Slot = {}
_HAS = dict.__contains__

Failure = tuple[Any, Any, Any]
"""(element, its record, the error: an exception or librdkafka's KafkaError)."""


class Sent(Protocol):
    """A run of sent elements."""

    def take(self, limit: int) -> tuple[list[Any], int, list[Failure]]:
        """Return at most `limit` results that are due, the number of their elements, and the failures.

        No element after a failure is taken together with it."""

    @property
    def over(self) -> bool:
        """True when every element is done."""


class SentMessages:
    """Consecutive messages with a slot each. librdkafka puts each report into its slot without running a Python function."""

    __slots__ = ("_at", "_messages", "_slots")

    def __init__(self, messages: list[Message], slots: list[Slot]) -> None:
        self._messages = messages
        self._slots = slots
        self._at = 0

    def take(self, limit: int) -> tuple[list[Any], int, list[Failure]]:
        at, slots = self._at, self._slots
        try:
            end = slots.index(_UNKNOWN, at, at + limit)
        except ValueError:
            end = min(len(slots), at + limit)
        failed: list[Failure] = []
        stored = slots[at:end]
        if not all(map(_HAS, stored, repeat(None))):
            n = next(n for n, slot in enumerate(stored) if None not in slot)
            end = at + n + 1
            message = self._messages[end - 1]
            failed = [(message, message.record, next(iter(stored[n])))]
            stored = stored[:n]
        self._at = end
        return list(map(Result, zip(self._messages[at:], stored, strict=False))), end - at, failed

    @property
    def over(self) -> bool:
        return self._at == len(self._slots)


class SentSeveral:
    """An envelope of several records or of none."""

    __slots__ = ("_envelope", "_slots", "over")

    def __init__(self, envelope: Any, slots: list[Slot]) -> None:
        self._envelope = envelope
        self._slots = slots
        self.over = False

    def take(self, limit: int) -> tuple[list[Any], int, list[Failure]]:
        slots, envelope = self._slots, self._envelope
        if not limit or not all(slots):
            return [], 0, []
        self.over = True
        if type(envelope) is PassThroughMessage:
            return [PassThroughResult(envelope.pass_through)], 1, []
        for n, slot in enumerate(slots):
            if None not in slot:
                record = envelope.records[n] if type(envelope) is MultiMessage else None
                return [], 1, [(envelope, record, next(iter(slot)))]
        return [MultiResult(tuple(RecordMetadata((slot[None],)) for slot in slots), envelope)], 1, []


class SentRecords:
    """Consecutive records without results: their reports are only counted."""

    __slots__ = ("_due", "_failed", "_n", "_refused", "_reported", "over")

    def __init__(self) -> None:
        self._n = 0
        self._due = -1  # number of expected reports; unknown while records are being sent
        self._refused = 0
        self._reported = 0
        self._failed: list[Failure] = []
        self.over = False

    def report(self, error: Any, message: Any) -> None:
        """librdkafka's report of one record."""
        if error is not None:
            record = as_record(message)
            self._failed.append((record, record, error))
        self._reported += 1  # after the failure: the island takes the run as soon as all are counted

    def refused(self, record: Any, error: BaseException) -> None:
        """A record could not be sent."""
        self._refused += 1
        self._failed.append((record, record, error))

    def sent(self, n: int) -> None:
        """All n records are sent."""
        self._n = n
        self._due = n - self._refused

    def take(self, limit: int) -> tuple[list[Any], int, list[Failure]]:
        if self._reported != self._due:
            return [], 0, []
        self.over = True
        return [], self._n, self._failed


def as_record(message: Any) -> ProducerRecord:
    """Return the record of a librdkafka message that was sent."""
    return ProducerRecord(message.topic(), message.value(), message.key(), message.partition())


def runs_of(chunk: Sequence[Any]) -> Iterator[tuple[bool, list[Any]]]:
    """Split envelopes into runs: (True, messages in a row) or (False, [another envelope])."""
    messages: list[Any] = []
    for envelope in chunk:
        if type(envelope) is Message:
            messages.append(envelope)
            continue
        if messages:
            yield True, messages
            messages = []
        yield False, [envelope]
    if messages:
        yield True, messages
