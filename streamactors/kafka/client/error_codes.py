"""Groups of librdkafka's error codes: the client treats all codes of a group alike."""

from __future__ import annotations

from typing import Final

from streamactors.kafka.client.connection import ck

PASSING: Final = (
    ck.KafkaError._ALL_BROKERS_DOWN,
    ck.KafkaError._TRANSPORT,
    ck.KafkaError._TIMED_OUT,
    ck.KafkaError._RESOLVE,
    ck.KafkaError._MAX_POLL_EXCEEDED,  # the member has left; the poll that reports it lets the member join again
)
"""Errors of a poll that librdkafka recovers from: logged as warnings."""

MOVING_COORDINATOR: Final = (
    ck.KafkaError.NOT_COORDINATOR,
    ck.KafkaError.COORDINATOR_NOT_AVAILABLE,
    ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Answers of a broker that does not coordinate the group any more, or not yet."""

RETRIABLE_COMMIT: Final = (
    *MOVING_COORDINATOR,
    ck.KafkaError.REBALANCE_IN_PROGRESS,
    ck.KafkaError.REQUEST_TIMED_OUT,
    ck.KafkaError._TIMED_OUT,
    ck.KafkaError._TRANSPORT,
    ck.KafkaError._WAIT_COORD,
    ck.KafkaError.STALE_MEMBER_EPOCH,  # the next heartbeat brings the member its new epoch
)
"""Refused commits that may succeed later."""

NOT_A_MEMBER: Final = (
    ck.KafkaError.ILLEGAL_GENERATION,
    ck.KafkaError.UNKNOWN_MEMBER_ID,
    ck.KafkaError.FENCED_MEMBER_EPOCH,
)
"""The group has removed this member: the member is about to lose its partitions, and with them the offsets to commit."""

RETRIABLE_SEEK: Final = (
    ck.KafkaError._STATE,
    ck.KafkaError._UNKNOWN_PARTITION,
    ck.KafkaError._PREV_IN_PROGRESS,
    ck.KafkaError._OUTDATED,  # librdkafka began to fetch the partition, or stopped, while the request to seek waited
)
"""Refused requests to seek that succeed after a further poll."""
