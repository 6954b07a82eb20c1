"""The errors of producers. That of a record which was not delivered names the record, the reason, and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from streamactors.engine.user_code import shortened
from streamactors.kafka.client.connection import NO_TOPIC, ck, did_you_mean
from streamactors.kafka.errors import ProducerFailed, RecordError
from streamactors.kafka.producer_record import ProducerRecord

OLD_EPOCH: Final = (ck.KafkaError.INVALID_PRODUCER_EPOCH, ck.KafkaError.PRODUCER_FENCED, ck.KafkaError._FENCED)
"""The errors of a producer that has lost its transactional id. That of a record may come before the fatal one."""
LOST_ID: Final = ": a newer producer has this id, or the transaction lasted longer than transaction.timeout.ms, a property of the producer"

_PURGED = (ck.KafkaError._PURGE_QUEUE, ck.KafkaError._PURGE_INFLIGHT)


class NotDeliveredInTime(RecordError):
    """No broker has acknowledged or refused a record in time: none was there, or this process did not run. Or the record was not taken
    because the transaction has failed, such as of another record's time limit (_STATE)."""


def is_purged(error: Any) -> bool:
    """True for a record that was purged with its aborted transaction; the cause of the abort is another error."""
    return not isinstance(error, BaseException) and error.code() in _PURGED


def not_delivered(
    record: ProducerRecord, error: Any, topics: Iterable[str] = (), why: str = "", late: str = ""
) -> BaseException:
    """Return the error of a record that librdkafka, or the client before it, could not deliver. `topics`: the ones that exist; `why`: a
    reason that tells more than librdkafka's; `late`: who has not acknowledged the record in time."""
    if isinstance(error, BaseException):
        return error
    where = record.topic if record.partition is None else f"{record.topic}-{record.partition}"
    if why:
        return RecordError(f"topic {where}: a record of {_size(record)} bytes was not delivered: {why}")
    way_out = _way_out(record, error.code(), "the broker's limit, max.message.bytes of the topic", topics)
    kind = RecordError
    if error.code() == ck.KafkaError._MSG_TIMED_OUT:
        kind, way_out = NotDeliveredInTime, f"; {late}" if late else ""
    return kind(
        f"topic {where}: a record of {_size(record)} bytes was not delivered: {error.str()} ({error.name()}){way_out}"
    )


def not_sent(record: ProducerRecord, error: Any, why: str = "") -> RecordError:
    """Return the error of a record that librdkafka refused. `why`: a reason that tells more than librdkafka's."""
    if why:
        return RecordError(f"topic {record.topic}: a record of {_size(record)} bytes cannot be sent: {why}")
    way_out = _way_out(record, error.code(), "the producer's limit, message.max.bytes of its properties", ())
    kind = NotDeliveredInTime if error.code() == ck.KafkaError._STATE else RecordError
    return kind(
        f"topic {record.topic}: a record of {_size(record)} bytes cannot be sent: {error.str()} ({error.name()}){way_out}"
    )


def unsendable(record: ProducerRecord, error: Exception) -> RecordError:
    """Return the error of a record whose fields have types that librdkafka does not take."""
    topic, value, key, partition, timestamp, headers = record
    if timestamp is not None and not isinstance(timestamp, int):
        advice = "int(when.timestamp() * 1000)" if hasattr(timestamp, "timestamp") else "None for now"
        kind = type(timestamp).__name__
        return RecordError(
            f"topic {topic}: a record whose timestamp is a {kind} cannot be sent; it is ms since 1970: {advice}"
        )
    if partition is not None and not isinstance(partition, int):
        return RecordError(
            f"topic {topic}: a record whose partition is {partition!r} cannot be sent; it is a number or None"
        )
    if headers is not None and not isinstance(headers, list | tuple):
        way_out = "; use list(headers.items())" if isinstance(headers, Mapping) else ""
        return RecordError(
            f"topic {topic}: a record whose headers are a {type(headers).__name__}, {shortened(headers, 60)}, cannot be sent; they are a "
            f"list of pairs of a name and bytes, a str or None{way_out}"
        )
    return RecordError(
        f"topic {topic}: a record with a value of {type(value).__name__} and a key of {type(key).__name__} cannot "
        f"be sent: {error}; values and keys are bytes, str or None, headers pairs of a name and a value; a sink with "
        "key=… and value=… serialises other types"
    )


def _way_out(record: ProducerRecord, code: int, limit: str, topics: Iterable[str]) -> str:
    topic = record.topic
    if code in NO_TOPIC:
        return f"; {did_you_mean(topic, topics)}create it with: streamactors topics create {topic}"
    if code == ck.KafkaError.TOPIC_EXCEPTION:
        return f"; {topic!r} is not a valid name: a topic's name has letters, digits, . _ and -, at most 249 of them"
    if code == ck.KafkaError._UNKNOWN_PARTITION:
        return (
            f"; {topic} has no partition {record.partition}: partitions are numbered from 0 (streamactors topics describe {topic}); "
            "None chooses one by the key"
        )
    if code in (ck.KafkaError.MSG_SIZE_TOO_LARGE, ck.KafkaError.RECORD_LIST_TOO_LARGE):
        return (
            f"; it exceeds {limit}. Raise both limits: ProducerSettings(…, properties={{'message.max.bytes': N}}) and "
            f"streamactors topics alter {topic} --set max.message.bytes=N"
        )
    return ""


def _size(record: ProducerRecord) -> int:
    return len(record.value or b"") + len(record.key or b"")


class StaleMembership(ProducerFailed):
    """The group has a new generation that the transaction's consumer does not know yet, or the consumer is no member any more."""


class NotInTime(ProducerFailed):
    """A call of the transaction had no answer in its time: no coordinator was there, or this process did not run."""


class LostId(ProducerFailed):
    """A newer producer has the transactional id, or the broker has aborted a transaction that lasted too long."""


_STALE = (
    ck.KafkaError.ILLEGAL_GENERATION,
    ck.KafkaError.UNKNOWN_MEMBER_ID,
    ck.KafkaError.REBALANCE_IN_PROGRESS,
    ck.KafkaError.STALE_MEMBER_EPOCH,
    ck.KafkaError.FENCED_MEMBER_EPOCH,
)


def producer_failed(cause: Any, who: str) -> ProducerFailed:
    """Return what an error of librdkafka's producer means."""
    code, kind = cause.code(), ProducerFailed
    if code in _STALE:
        kind = StaleMembership
    elif code in OLD_EPOCH:
        kind = LostId
    elif code == ck.KafkaError._TIMED_OUT:
        kind = NotInTime
    return kind(f"{who}: {cause.str()} ({cause.name()}){LOST_ID if cause.code() in OLD_EPOCH else ''}")


class ClosedProducer:
    """Replaces the client of a closed producer: no record is in flight, and none can be sent."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def __len__(self) -> int:
        return 0

    def poll(self, _: float) -> int:
        return 0

    flush = poll

    def list_topics(self, **_: Any) -> Any:
        self()

    def __call__(self, *_: Any, **__: Any) -> None:
        raise ProducerFailed(f"the producer of {self._servers} is closed")
