"""Builds the errors of a producer: the record, the reason and the way out.

librdkafka gives the reason in three places: in the error itself, in an earlier fatal error, and in its log. `ClientConnection` keeps the last two; the
errors here combine all three."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from streamactors.kafka.client.connection import NO_TOPIC, ClientConnection, ck
from streamactors.kafka.client.diagnosis.delivery_errors import (
    LOST_ID,
    OLD_EPOCH,
    LostId,
    is_purged,
    not_delivered,
    not_sent,
    producer_failed,
    unsendable,
)
from streamactors.kafka.client.diagnosis.rights import DENIED, Right, of_producer
from streamactors.kafka.errors import ProducerFailed, RecordError
from streamactors.kafka.producer_record import ProducerRecord, checked_record

REFUSALS: Final = (ck.KafkaException, TypeError, ValueError, OverflowError)
"""What librdkafka raises for a record that it does not accept."""


class ProducerErrors:
    """Finds the reason of a producer's error. `hear()` serves librdkafka's callbacks, `topics()` returns the topics that exist. `ask`: calls that a transactional
    producer refuses after a fatal error."""

    def __init__(
        self,
        connection: ClientConnection,
        transactional_id: str | None,
        hear: Callable[[], None],
        topics: Callable[[], Iterable[str]],
        ask: Sequence[Callable[[], object]],
    ) -> None:
        self._connection = connection
        self._transactional_id = transactional_id
        self._hear = hear
        self._topics = topics
        self._ask = ask
        self._who = f"transactional id {transactional_id or 'none'}"

    @property
    def writes_nothing(self) -> bool:
        """True when the user may write no topic: the producer gets no id, and librdkafka ends it."""
        fatal = self._connection.fatal
        return self._transactional_id is None and fatal is not None and fatal.code() in DENIED

    def refusal(self, record: Any, error: Exception) -> BaseException:
        """Return the error of a record that librdkafka did not take: RecordError, or ProducerFailed when no record can be sent.

        Neither error has a traceback, whose frames would keep the producer: librdkafka keeps the report of a refused record, and its exception lives
        as long as a thread has it for its last one."""
        error.__traceback__ = None
        try:
            given = checked_record(record)
        except Exception as better:  # noqa: BLE001  # no record at all
            error = better
        else:
            if isinstance(error, ck.KafkaException):
                error = self._refused(given, error.args[0])
            elif isinstance(error, REFUSALS):
                error = unsendable(given, error)
        error.__context__ = None
        return error.with_traceback(None)

    def _refused(self, record: ProducerRecord, cause: Any) -> RecordError | ProducerFailed:
        if cause.code() != ck.KafkaError._FATAL:
            return not_sent(record, cause)
        fatal = self._fatal(cause)
        if self.writes_nothing:
            return not_sent(record, cause, self._connection.not_allowed(Right("WRITE", "TOPIC", record.topic)))
        return self._ended(fatal)

    def _fatal(self, cause: Any) -> Any:
        """Return the fatal error that librdkafka calls only "Local: Fatal error" in `cause`; the cause itself if it names its reason.

        The reason comes in a callback, which may still be on its way: a record is refused before. A transactional producer names it in its
        calls, except those that must wait for the repetition of another one."""
        connection = self._connection
        if cause.code() != ck.KafkaError._FATAL:
            if cause.fatal():
                connection.fatal = cause
            return cause
        if connection.fatal is None:
            self._hear()
        for call in self._ask if self._transactional_id is not None else ():
            if connection.fatal is not None:
                break
            try:
                call()
            except ck.KafkaException as error:
                if error.args[0].fatal():
                    connection.fatal = error.args[0]
        return connection.fatal or cause

    def _ended(self, fatal: Any) -> ProducerFailed:
        """Return the error of a producer that a fatal error has ended."""
        if fatal.code() == ck.KafkaError._FATAL and self._connection.complaint:
            return ProducerFailed(f"{self._who}: {self._connection.complaint}")
        kind = LostId if fatal.code() in OLD_EPOCH else ProducerFailed
        return kind(
            f"{self._who}: {self._connection.shown(fatal)} ({fatal.name()}){LOST_ID if fatal.code() in OLD_EPOCH else ''}"
        )

    def not_delivered(self, record: ProducerRecord, error: Any) -> BaseException:
        """Return the error of a record that was not delivered. It names topics with similar names, or the missing right.

        It is ProducerFailed when the producer has lost its transactional id: then no record can be delivered."""
        topics: Iterable[str] = ()
        if self._transactional_id is not None and not isinstance(error, BaseException):
            fatal = self._connection.fatal if is_purged(error) else self._fatal(error)
            if fatal is not None and fatal.code() in OLD_EPOCH:
                return self._ended(fatal)
        if not isinstance(error, BaseException) and (why := self._reason(record, error)):
            return not_delivered(record, error, why=why)
        if not isinstance(error, BaseException) and error.code() in NO_TOPIC:
            with contextlib.suppress(ck.KafkaException):
                topics = self._topics()
        return not_delivered(record, error, topics, late=self._connection.why_late())

    def _reason(self, record: ProducerRecord, error: Any) -> str:
        """Return why a record was not delivered, if librdkafka's error does not say it."""
        fatal = self._connection.fatal
        if error.code() in DENIED or (is_purged(error) and self.writes_nothing):
            return self._connection.not_allowed(Right("WRITE", "TOPIC", record.topic))
        if error.code() == ck.KafkaError._MSG_TIMED_OUT:
            return self._connection.refusal_of(record)
        return self._connection.shown(fatal) if is_purged(error) and fatal is not None else ""

    def failed(self, error: Any, *, hear: bool = False) -> ProducerFailed:
        """Return what an exception of librdkafka means for the whole producer. The exception loses its traceback, whose frames would keep the producer.

        `hear`: the name of a topic that a transaction must not write may still be in a line of the log that no thread has read yet."""
        error.__traceback__ = None
        cause = self._fatal(error.args[0])
        code = cause.code()
        if code == ck.KafkaError._TIMED_OUT and (why := self._connection.refusal_of(None)):
            return ProducerFailed(f"{self._who}: the transaction timed out; {why}")
        if code not in DENIED:
            return producer_failed(cause, self._who)
        if hear and DENIED[code] == "TOPIC" and not self._connection.refused_topic:
            self._hear()
        right = of_producer(DENIED[code], self._transactional_id or "", self._connection.refused_topic)
        return ProducerFailed(f"{self._who}: {self._connection.not_allowed(right)}")
