"""Fetch: returns records from an offset, and waits until there are enough.

Versions: 4-18 (7 sessions KIP-227; 9 leader epoch KIP-320; 11 rack KIP-392; 12 flexible, diverging epoch KIP-595; 13
topic ids KIP-516; 15 replica state KIP-903).   Authorised: READ TOPIC each. Answers at once if a partition has an error, if there are min.bytes, or if max.wait is 0; otherwise
waits. The first non-empty partition returns its first batch even if the batch is larger than the limits (KIP-74). A fetch offset
inside a batch returns the whole batch. From version 11 on a follower answers consumers, too, up to its own high watermark, and with
replica.selector.class a leader sends them to a replica of their rack (KIP-392). Errors: UNKNOWN_TOPIC_OR_PARTITION,
UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
TOPIC_AUTHORIZATION_FAILED, FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR. Differs
from Apache Kafka: a fetch of a session reads only the partitions that have changed; a helper thread reads records that are not
in the page cache, so that other clients do not wait for the disk."""

from __future__ import annotations

import logging
from typing import Any, Final

from streamactors.broker.apis.fetch_context import SessionFetch, WholeFetch, context_of
from streamactors.broker.errors import ErrorCode
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.log.partition.log_read import LogSlice
from streamactors.broker.network.output import Part
from streamactors.broker.protocol.fetch import (
    FetchRequest,
    FetchResponse,
    PartitionFetched,
    TopicFetched,
    decode_fetch_request,
    encode_fetch_response,
)
from streamactors.broker.replication.delayed_fetch import DelayedFetch
from streamactors.broker.replication.follower_reads import note_follower
from streamactors.broker.replication.read_replica import RACK_AWARE
from streamactors.broker.replication.reading import Reading, ReadLimits, WantedTopic, read_all
from streamactors.broker.replication.warming import is_cold, warm
from streamactors.broker.requests.api import LATER, Api, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import each
from streamactors.log_limit import alike, log_limited

_log = logging.getLogger("streamactors.broker.fetch")

_FIRST_WITH_RACK: Final = 11
_FIRST_WITH_LEADER: Final = 16

Context = WholeFetch | SessionFetch


def handle(request: Request) -> Any:
    message: FetchRequest = request.message
    context = context_of(request)
    if isinstance(context, ErrorCode):
        return FetchResponse([], context)
    topics = context.wanted()
    max_bytes = min(message.max_bytes, request.node.config.fetch_max_bytes)
    if request.node.charging is not None and message.replica_id < 0:
        max_bytes = request.node.charging.most_bytes(request, max_bytes)
    by_consumer = message.replica_id < 0 and request.version >= _FIRST_WITH_RACK
    limits = ReadLimits(
        min(message.min_bytes, max_bytes),
        max_bytes,
        message.isolation_level,
        message.replica_id,
        at_followers=by_consumer,
        names_leader=request.version >= _FIRST_WITH_LEADER,
        rack=message.rack_id if by_consumer and request.node.config.replica_selector_class == RACK_AWARE else "",
    )
    if message.replica_id >= 0:
        # With the send buffer of clients, a large batch leaves in five pieces, and other work of the leader comes between them.
        request.connection.take_at_once(request.node.config.replica_fetch_max_bytes)
        note_follower(request.node, topics, message.replica_id, message.replica_epoch)
        _hold_back(request, topics)
    reading = read_all(topics, limits)
    if reading.size >= limits.min_bytes or reading.ends_wait or message.max_wait_ms <= 0 or context.is_empty:
        return _answer(request, context, topics, reading, limits)
    reading.release()
    _wait(request, context, topics, limits, message.max_wait_ms)
    return LATER


def _wait(request: Request, context: Context, topics: list[WantedTopic], limits: ReadLimits, max_wait_ms: int) -> None:
    unfinished = request.connection.unfinished

    @request.answer_with
    def done() -> FetchResponse[LogSlice] | None:
        unfinished.discard(delayed)
        if request.connection.closed:
            return None
        now = topics
        if context.session is not None:
            if not context.is_current:  # the session has continued, or has ended, without this request
                return context.answer(FetchResponse([]))
            now = context.wanted()  # more partitions may have been touched
            _hold_back(request, now)
        answer = _answer(request, context, now, read_all(now, limits), limits)
        return answer if isinstance(answer, FetchResponse) else None

    delayed = DelayedFetch(topics, limits, max_wait_ms, done, context.session)
    unfinished.add(delayed)
    delayed.wait(request.node)


def _hold_back(request: Request, topics: list[WantedTopic]) -> None:
    if request.message.replica_id >= 0:
        request.node.replication.throttles.hold_back(topics, request.message.replica_id)


def _counted(request: Request, topics: list[WantedTopic], reading: Reading) -> None:
    """Count what goes to throttled followers."""
    if request.message.replica_id >= 0:
        request.node.replication.throttles.count(topics, reading)


def _answer(
    request: Request, context: Context, topics: list[WantedTopic], reading: Reading, limits: ReadLimits
) -> FetchResponse[LogSlice] | Later:
    _counted(request, topics, reading)
    context.settle(topics, reading, limits)
    cold = [piece for piece in reading.slices if is_cold(piece)]
    if not cold:
        return context.answer(reading.response)

    @request.answer_with
    def warmed(outcome: HelperOutcome[None]) -> FetchResponse[LogSlice]:
        if outcome.error is None:
            return context.answer(reading.response)
        log_limited(
            _log, logging.ERROR, alike(outcome.error),
            "%r: reading %d slices failed: %s", request, len(cold), outcome.error,
        )  # fmt: skip
        return context.answer(reading.without(cold))

    request.node.helpers.run(lambda: warm(cold), warmed)
    return LATER


def _encode(answer: FetchResponse[LogSlice], version: int, correlation_id: int) -> list[Part]:
    return [*encode_fetch_response(answer, version, correlation_id)]


def _refuse(request: Request, code: ErrorCode) -> Any:
    message: FetchRequest = request.message
    return FetchResponse(
        [
            TopicFetched(
                topic.name,
                topic.topic_id,
                [PartitionFetched(each.partition, code, aborted=()) for each in topic.partitions],
            )
            for topic in message.topics
        ],
        code if request.version >= 7 else 0,
    )


API: Final = Api(
    key=1,
    versions=(4, 18),
    authorise=each,
    handle=handle,
    refuse=_refuse,
    decode=decode_fetch_request,
    encode=_encode,
    between_nodes=True,
)
