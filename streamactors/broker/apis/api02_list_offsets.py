"""ListOffsets: the offset of a timestamp, the first or last offset, or the offset with the largest timestamp.

Versions: 1-11 (2 isolation level; 4 leader epoch KIP-320; 6 flexible; 7 max timestamp KIP-734; 8 earliest local, 9
latest tiered KIP-405; 11 earliest pending upload).   Authorised: DESCRIBE TOPIC each. Errors:
UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, INVALID_REQUEST (a
partition named twice), UNSUPPORTED_VERSION (a special timestamp of a newer version), CORRUPT_MESSAGE,
KAFKA_STORAGE_ERROR, OFFSET_NOT_AVAILABLE (KIP-207: a new leader that does not know the high watermark yet; LEADER_NOT_AVAILABLE before
version 5). Differs from Apache Kafka: a leader without a lease
is none (`replication.lease_state`); the largest timestamp is that of the records that the client can read, where Apache Kafka gives none,
or a deleted record, if another record has a larger one. A timestamp of -2**62 - n, which Apache Kafka refuses with UNSUPPORTED_VERSION, asks when
the record at offset n was appended: the answer's offset is that time in ms since 1970, -1 if it is not known. It is known from a client's first
question on."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import Any, Final, NamedTuple

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.log.partition.log_read import ListedOffset
from streamactors.broker.protocol.fetch import READ_COMMITTED
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.list_offsets")

_LATEST: Final = -1
_EARLIEST: Final = -2
_EARLIEST_PENDING_UPLOAD: Final = -6
ASKS_APPEND_TIME: Final = -(2**62)
"""`kafka/client/offsets/append_times.py` asks."""
_LAST_APPEND_TIME: Final = ASKS_APPEND_TIME - 2**61  # of an offset that no partition reaches
_NOTHING: Final = ListedOffset(-1, -1, -1)
_FIRST_VERSION: Final = {-3: 7, -4: 8, -5: 9, -6: 11}
"""The first version of each special timestamp that older versions lack."""


def handle(request: Request) -> Body | Later:
    asked = Counter(
        (topic.name, partition.partition_index) for topic in request.message.topics for partition in topic.partitions
    )
    topics: list[Body] = []
    searches: list[_Search] = []
    for topic in request.message.topics:
        answers = []
        for wanted in topic.partitions:
            answer: dict[str, Any] = {"partition_index": wanted.partition_index, "timestamp": -1, "offset": -1}
            partition, error = _find(request, topic.name, wanted, asked[topic.name, wanted.partition_index])
            answer["error_code"] = error
            if partition is not None and not error:
                bound, unknown = _bound(request, partition)
                if _LAST_APPEND_TIME <= wanted.timestamp <= ASKS_APPEND_TIME:
                    appended_ms = partition.appended_ms(ASKS_APPEND_TIME - wanted.timestamp)
                    answer["offset"] = -1 if appended_ms is None else appended_ms
                elif wanted.timestamp == _LATEST and unknown:
                    answer["error_code"] = unknown
                elif wanted.timestamp in (_LATEST, _EARLIEST):
                    _fill(answer, partition.log.reader.list_offset(wanted.timestamp, bound))
                else:
                    searches.append(_Search(answer, partition, wanted.timestamp, bound, unknown))
            answers.append(answer)
        topics.append({"name": topic.name, "partitions": answers})
    body: Body = {"topics": topics}
    if not searches:
        return body

    @request.answer_with
    def found(outcome: HelperOutcome[None]) -> Body:
        outcome.get()  # raises what the search raised
        return body

    # A search by time reads indexes and batches, perhaps from a cold disk.
    request.node.helpers.run(partial(_search, searches), found)
    return LATER


def _find(request: Request, name: str, wanted: Any, times: int) -> tuple[HostedPartition | None, ErrorCode]:
    if not request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if times > 1:
        return None, ErrorCode.INVALID_REQUEST
    first_version = _FIRST_VERSION.get(wanted.timestamp, 0)
    asks_append_time = _LAST_APPEND_TIME <= wanted.timestamp <= ASKS_APPEND_TIME
    unknown = wanted.timestamp < _EARLIEST_PENDING_UPLOAD and not asks_append_time
    if unknown or request.version < first_version:
        return None, ErrorCode.UNSUPPORTED_VERSION
    partition = request.node.partitions.get(name, wanted.partition_index)
    if partition is None:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_broker = request.message.replica_id >= 0
    error_of = partition.epoch_error if by_broker else partition.client_error
    return partition, error_of(wanted.current_leader_epoch)


def _bound(request: Request, partition: HostedPartition) -> tuple[int, ErrorCode]:
    """Return the end of the partition for this client, and the error for an offset at or after this end (NONE: such an offset is allowed)."""
    if request.message.replica_id >= 0:
        return partition.log_end_offset, ErrorCode.NONE  # a follower compares whole logs
    unknown = ErrorCode.NONE
    if partition.awaits_high_watermark:
        unknown = ErrorCode.OFFSET_NOT_AVAILABLE if request.version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
    if request.message.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset, unknown
    return partition.high_watermark, unknown


class _Search(NamedTuple):
    """A search for a timestamp: the answer to fill, and what `_bound` returned."""

    answer: dict[str, Any]
    partition: HostedPartition
    timestamp: int
    bound: int
    unknown: ErrorCode

    def listed(self) -> ListedOffset:
        if self.timestamp == _EARLIEST_PENDING_UPLOAD:
            return _NOTHING
        end = self.partition.log_end_offset if self.unknown else self.bound
        return self.partition.log.reader.list_offset(self.timestamp, end)


def _search(searches: list[_Search]) -> None:
    for search in searches:
        answer = search.answer
        try:
            listed = search.listed()
        except BrokerError as error:
            answer["error_code"] = error.code
        except OSError as error:
            log_limited(
                _log, logging.ERROR, (search.partition.topic, error.errno),
                "%s: the search for timestamp %d failed: %s", search.partition, search.timestamp, error,
            )  # fmt: skip
            search.partition.read_failed(error)
            answer["error_code"] = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            if search.unknown and listed.offset >= search.bound:
                answer["error_code"] = search.unknown
            else:
                _fill(answer, listed)


def _fill(answer: dict[str, Any], listed: ListedOffset) -> None:
    answer["offset"] = listed.offset
    answer["leader_epoch"] = listed.leader_epoch
    answer["timestamp"] = listed.timestamp_ms


def _refuse(request: Request, code: ErrorCode) -> Body:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": wanted.partition_index, "error_code": code, "timestamp": -1, "offset": -1}
                    for wanted in topic.partitions
                ],
            }
            for topic in request.message.topics
        ]
    }


API: Final = Api(key=2, versions=(1, 11), authorise=each, handle=handle, refuse=_refuse)
