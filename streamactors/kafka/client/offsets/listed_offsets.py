"""Asks for offsets of partitions whose leaders may have died.

librdkafka sends the request to the leader that it knows and waits for the whole timeout. If that broker is its only connection, it also asks that
broker for the new leader. So the first attempt has a short timeout, and the next attempt has a new client, which connects to any of the brokers. Each
attempt has twice the time of the one before: a broker that is slow, and not dead, answers the second one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from streamactors.kafka.client.connection import REQUEST_TIMEOUT_MS, ck
from streamactors.kafka.subscriptions import TopicPartition

ATTEMPT_S: Final = 2.5
"""How long a leader is waited for before its partitions are looked up again, at first."""
_LAST_S: Final = 1.0
"""With less time left there is no further attempt."""
_AGAIN_S: Final = 0.2
_PASSING: Final = (
    ck.KafkaError._TIMED_OUT,
    ck.KafkaError._TRANSPORT,
    ck.KafkaError.REQUEST_TIMED_OUT,
    ck.KafkaError.NOT_LEADER_FOR_PARTITION,
    ck.KafkaError.LEADER_NOT_AVAILABLE,
    ck.KafkaError.FENCED_LEADER_EPOCH,
    ck.KafkaError.UNKNOWN_LEADER_EPOCH,
    ck.KafkaError.OFFSET_NOT_AVAILABLE,
)


class ListedOffset(NamedTuple):
    """An offset of a partition. `leader_epoch`: of the leader that answered, for the end of the partition; -1 if it names none."""

    offset: int
    leader_epoch: int


Listed = dict[TopicPartition, "ListedOffset | ck.KafkaException"]
"""The offset of each partition, or why there is none."""


def listed_offsets(
    client: Any, asked: Mapping[TopicPartition, Any], isolation: Any, *, again: Callable[[], Any] | None
) -> Listed:
    """Return the answers of ListOffsets. `asked`: an OffsetSpec for each partition. `again` makes another client, which asks for the partitions
    whose leaders did not answer; None: ask once."""
    give_up = time.monotonic() + REQUEST_TIMEOUT_MS / 1_000
    attempt_s = ATTEMPT_S
    found: Listed = {}
    left = dict(asked)
    while True:
        wanted = {ck.TopicPartition(*key): spec for key, spec in left.items()}
        for partition, future in client.list_offsets(
            wanted, isolation_level=isolation, request_timeout=attempt_s
        ).items():
            key = TopicPartition(partition.topic, partition.partition)
            try:
                found[key] = _named(answer(future, attempt_s))
            except ck.KafkaException as error:
                found[key] = error
        left = {key: spec for key, spec in left.items() if _passes(found[key])}
        attempt_s = min(2 * attempt_s, give_up - time.monotonic() - _AGAIN_S)
        if not left or again is None or attempt_s < _LAST_S:
            return found
        time.sleep(_AGAIN_S)
        client = again()


def answer(future: Any, timeout_s: float, *, grace_s: float = 5) -> Any:
    """Return the result of a request. Raises KafkaException, also if librdkafka does not report within `timeout_s` and `grace_s`: the grace lets a
    timeout of librdkafka come first."""
    try:
        return future.result(timeout_s + grace_s)
    except TimeoutError:
        raise ck.KafkaException(ck.KafkaError(ck.KafkaError._TIMED_OUT)) from None


def _named(found: Any) -> ListedOffset:
    """Return a real offset. Raises KafkaException for -1001, which librdkafka 2.16 gives without an error if the leader does not answer in time."""
    if found.offset == ck.OFFSET_INVALID:
        raise ck.KafkaException(ck.KafkaError(ck.KafkaError._TIMED_OUT))
    epoch = getattr(found, "leader_epoch", None)
    return ListedOffset(found.offset, -1 if epoch is None else epoch)


def _passes(found: Any) -> bool:
    return isinstance(found, ck.KafkaException) and found.args[0].code() in _PASSING
