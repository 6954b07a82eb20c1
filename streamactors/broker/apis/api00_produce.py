"""Produce: appends one batch per partition, and answers as acks demands.

Versions: 0-13 (0-2 for record batches only; 7 zstd KIP-110; 8 record errors KIP-467; 9 flexible; 10 current leader
KIP-951; 12 adds partitions to the producer's transaction: transaction.version 2, KIP-890; 13 topic ids KIP-516).   Authorised: WRITE TOPIC each, WRITE TRANSACTIONAL_ID if there is one. acks 0:
no answer; an error closes the connection, except the error of a later flush. acks 1: answered when the leader has
appended the batch, and has flushed it if flush.messages demands a flush. acks -1: answered when the batch is below the
high watermark. Errors:
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION (an internal topic, except for clients named
__admin_client), NOT_LEADER_OR_FOLLOWER, INVALID_REQUIRED_ACKS, NOT_ENOUGH_REPLICAS,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP,
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE, OUT_OF_ORDER_SEQUENCE_NUMBER,
INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE (TRANSACTION_ABORTABLE from 11), CONCURRENT_TRANSACTIONS and
INVALID_PRODUCER_ID_MAPPING (from 12), KAFKA_STORAGE_ERROR. Differs from Apache
Kafka: up to 64 requests of a connection are in progress at once, and are appended and answered in their order; messages of
formats 0 and 1 are refused; a batch of an idempotent producer that follows one that was refused temporarily (too few replicas in sync, no leader)
gets the same error until that one comes again, or for 10 s, instead of OUT_OF_ORDER_SEQUENCE_NUMBER; a new leader of several replicas answers
NOT_LEADER_OR_FOLLOWER for 10 s where a batch of the producer is missing, because the former leader may have refused it."""

from __future__ import annotations

from functools import partial
from typing import Final

from streamactors.broker.apis.transaction_verification import (
    NOT_ASKED,
    check_transactional,
    questions,
)
from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import (
    BrokerError,
    ErrorCode,
    InvalidRecord,
    NotOneBatch,
    Refusal,
    UnsupportedCompressionType,
)
from streamactors.broker.log.producers.refused_batches import MOMENTARY, Place, batch_of
from streamactors.broker.metadata.topic_name import INTERNAL_TOPICS
from streamactors.broker.network.connection import Mute
from streamactors.broker.network.output import Part
from streamactors.broker.node import Node
from streamactors.broker.protocol.produce import (
    PartitionProduced,
    ProduceRequest,
    ProduceResponse,
    RecordProblem,
    TopicRecords,
    decode_produce_request,
    encode_produce_response,
    produced,
    succeeded,
)
from streamactors.broker.records.header import TRANSACTIONAL
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.pending_produce import PendingProduce, UnsettledAppend
from streamactors.broker.requests.api import LATER, NO_ANSWER, Api, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each
from streamactors.broker.transaction.transaction_messages import Errors, VerificationRequest

_ALL: Final = -1
_ADMIN_CLIENT: Final = "__admin_client"  # Apache Kafka's way for tools that repair internal topics
_ACKS: Final = (1, _ALL, 0)
_FIRST_WITH_ZSTD: Final = 7
_ATTRIBUTES: Final = 22  # position of a batch's codec
_CODEC_MASK: Final = 7
_ZSTD: Final = 4

_FOUND_IN_LOG: Final = (
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)
_WRITE: Final = Operation.WRITE  # the look-up of a member in an enum's class costs a call
_TOPIC: Final = ResourceType.TOPIC

Answer = PartitionProduced | UnsettledAppend
Answers = list[tuple[str, bytes | None, list[Answer]]]


def handle(request: Request) -> ProduceResponse | Later:
    transactional_id, acks, _, topics = message = request.message
    refusal = None
    if transactional_id is not None or acks not in _ACKS:
        refusal = _refusal(request, message)
        if transactional_id is not None and refusal is None and acks:
            asked = questions(request.node, transactional_id, topics, request.version)
            if asked:
                return _ask_first(request, message, asked)
    return _append(request, message, refusal, NOT_ASKED)


def _ask_first(request: Request, message: ProduceRequest, asked: list[VerificationRequest]) -> Later:
    """Ask the coordinator of the transaction, then append. The records are copied: the frame does not outlive this call.

    The next request of the connection waits, because it may have the next batch of a partition that needs no verification, and would be appended
    first. A partition that was to be added while the transaction before is still ending is asked for again for a short time: the producer gets
    the answer to EndTxn before the markers are written."""
    topics = [
        (name, topic_id, [(index, records and memoryview(bytearray(records))) for index, records in wanted])
        for name, topic_id, wanted in message.topics
    ]
    request.message = kept = message._replace(topics=topics)
    node, connection = request.node, request.connection
    connection.mute(Mute.HANDLER)
    give_up_ms = node.clock.now_ms() + node.config.add_partitions_to_txn_retry_backoff_max_ms

    def ask() -> None:
        gather([partial(node.transactions.ask, each) for each in asked], answered)

    @request.answer_with
    def answered(answers: list[Errors]) -> ProduceResponse | None:
        errors = {where: error for each in answers for where, error in each.items()}
        concurrent = asked[0].adds and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
        if concurrent and node.clock.now_ms() < give_up_ms:
            node.data_plane.call_later(node.config.add_partitions_to_txn_retry_backoff_ms, ask)
            return None
        try:
            answer = _append(request, kept, None, errors)
        finally:
            connection.unmute(Mute.HANDLER)
        return None if isinstance(answer, Later) else answer

    ask()
    return LATER


def _append(
    request: Request, message: ProduceRequest, refusal: ErrorCode | None, verified: Errors
) -> ProduceResponse | Later:
    """Append every batch, and answer now or when the appends are settled."""
    _, acks, timeout_ms, topics = message
    now_ms = request.node.clock.wall_ms()
    waiting: list[UnsettledAppend] = []
    answers: Answers = []
    for topic in topics:
        if refusal:
            parts: list[Answer] = [PartitionProduced(index, refusal) for index, _ in topic[2]]
        else:
            parts = _append_topic(request, topic, acks, now_ms, waiting, verified)
        answers.append((topic[0], topic[1], parts))
    request.message = None  # views of the frame must not outlive this call
    if acks == 0:
        return _no_answer(request, answers)
    if waiting:
        pending = PendingProduce(
            request.node,
            waiting,
            timeout_ms,
            request.answer_with(lambda: _settled(answers)),
            all_replicas=acks == _ALL,
        )
        request.connection.freed(request)  # the log has the records, and the followers' requests must find room
        pending.wait()
        return LATER
    return produced(answers)  # type: ignore[arg-type]  # nothing waits, so every answer is final


def _refusal(request: Request, message: ProduceRequest) -> ErrorCode | None:
    if message.acks not in _ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    name = message.transactional_id
    if name is not None and not request.allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None


def _append_topic(
    request: Request, topic: TopicRecords, acks: int, now_ms: int, waiting: list[UnsettledAppend], verified: Errors
) -> list[Answer]:
    """Append to each partition of a topic. `waiting` gets the appends that are not acknowledged yet."""
    named, topic_id, wanted = topic
    node, key = request.node, topic_id or named
    name, hosted, error = node.partitions.find(named, topic_id)
    if name and not request.allowed(_WRITE, _TOPIC, name):
        return [PartitionProduced(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for index, _ in wanted]
    if hosted and name in INTERNAL_TOPICS and request.header.client_id != _ADMIN_CLIENT:
        hosted, error = {}, ErrorCode.INVALID_TOPIC_EXCEPTION  # only coordinators write to internal topics
    version = request.version
    some_refused = bool(node.refused_batches)
    answers: list[Answer] = []
    for index, records in wanted:
        partition = hosted.get(index)
        if partition is None:
            _note_refused(node, (key, index), records, error)
            answers.append(PartitionProduced(index, error))
            continue
        try:
            if records is None:
                raise NotOneBatch("a produce request must have a batch of records for each of its partitions")
            if version < _FIRST_WITH_ZSTD:
                _check_codec(records, version)
            if len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & TRANSACTIONAL:
                name_of = request.message.transactional_id
                check_transactional(node, name_of, partition, records, version, verified)
            if some_refused and partition.is_leader:
                _check_order(node, (key, index), records, partition)
            result = partition.append_for(records, now_ms, acks)
        except BrokerError as cause:
            _note_refused(node, (key, index), records, cause.code)
            answers.append(_refused(index, partition, cause))
            continue
        if some_refused and (batch := batch_of(records)) is not None:
            node.refused_batches.forget((key, index), batch.producer_id)
        settled = partition.settled(result, acks)
        if settled or acks == 0:
            if not settled:
                partition.flush_unasked(result)
            answers.append(succeeded(index, result[0], result[2], result[3]))
        else:
            appended = UnsettledAppend(partition, result)
            waiting.append(appended)
            answers.append(appended)
    return answers


def _note_refused(node: Node, place: Place, records: memoryview | None, error: ErrorCode) -> None:
    """Remember the batch of an idempotent producer that was refused temporarily."""
    if error in MOMENTARY and records is not None and (batch := batch_of(records)) is not None:
        node.refused_batches.note(place, batch, error, node.clock.now_ms())


def _check_order(node: Node, place: Place, records: memoryview, partition: HostedPartition) -> None:
    """Raise Refusal if an earlier batch of the producer, that was refused temporarily, must come first."""
    batch = batch_of(records)
    if batch is None:
        return
    expected = partition.log.next_sequence(batch.producer_id, batch.epoch)
    error = node.refused_batches.error_of_earlier(place, batch, expected, node.clock.now_ms())
    if error is not None:
        raise Refusal(
            error,
            f"{partition}: sequence number {batch.first_sequence} of producer {batch.producer_id} follows a batch that was refused temporarily",
        )


def _check_codec(records: memoryview, version: int) -> None:
    if len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & _CODEC_MASK == _ZSTD:
        raise UnsupportedCompressionType(f"Produce v{version} cannot carry zstd; it needs version {_FIRST_WITH_ZSTD}")


def _refused(index: int, partition: HostedPartition, cause: BrokerError) -> PartitionProduced:
    problems = cause.record_errors if isinstance(cause, InvalidRecord) else ()
    return PartitionProduced(
        index,
        cause.code,
        log_start_offset=partition.log_start_offset if _found_in_log(cause) else -1,
        record_errors=[RecordProblem(problem.batch_index, problem.message) for problem in problems],
        error_message=str(cause) or None,
    )


def _found_in_log(cause: BrokerError) -> bool:
    """Whether the answer has the log's start offset: as in Apache Kafka, only if the log refused the batch."""
    return cause.code in _FOUND_IN_LOG and not isinstance(cause, NotOneBatch)


def _settled(answers: Answers) -> ProduceResponse:
    return ProduceResponse(
        [(name, topic_id, [_final(answer) for answer in parts]) for name, topic_id, parts in answers]
    )


def _final(answer: Answer) -> PartitionProduced:
    if isinstance(answer, PartitionProduced):
        return answer
    index, result = answer.partition.index, answer.result
    if answer.error:
        return PartitionProduced(index, answer.error)
    return succeeded(index, result.base_offset, result.log_append_time_ms, result.log_start_offset)


def _no_answer(request: Request, answers: Answers) -> Later:
    for name, _, parts in answers:
        for answer in parts:
            if isinstance(answer, PartitionProduced) and answer.error_code:
                # A closed connection makes the producer request the metadata again.
                error = ErrorCode(answer.error_code).name
                request.connection.close(f"produce to {name}-{answer.partition} with acks=0 failed: {error}")
                return LATER
    return NO_ANSWER


def _refuse(request: Request, code: ErrorCode) -> ProduceResponse:
    # After `handle` the message is gone: this raises, the connection is closed, and the producer sends again.
    topics = request.message.topics
    return ProduceResponse(
        [(name, topic_id, [PartitionProduced(index, code) for index, _ in wanted]) for name, topic_id, wanted in topics]
    )


def _encode(answer: ProduceResponse, version: int, correlation_id: int) -> list[Part]:
    return [encode_produce_response(answer, version, correlation_id)]


API: Final = Api(
    key=0,
    versions=(0, 13),
    authorise=each,
    handle=handle,
    refuse=_refuse,
    decode=decode_produce_request,
    encode=_encode,
)
