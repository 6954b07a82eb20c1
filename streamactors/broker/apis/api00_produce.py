"""Produce: appends one batch per partition and answers when acks says so.

Versions: 0-13 (0-2 for record batches only; 7 zstd KIP-110; 8 record errors KIP-467; 9 flexible; 10 current leader
KIP-951; 13 topic ids KIP-516).   Authorised: WRITE TOPIC each, WRITE TRANSACTIONAL_ID where there is one. acks 0: no
answer; an error closes the connection, for there is no other way to tell. acks 1: when the leader has it, and has
flushed it where flush.messages asks for that. acks -1: when it is below the high watermark. Errors:
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, INVALID_REQUIRED_ACKS, NOT_ENOUGH_REPLICAS,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP,
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE, OUT_OF_ORDER_SEQUENCE_NUMBER,
INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR. Differs from Apache Kafka: up to 64 requests of a connection are in service
at once, appended and answered in their order; messages of formats 0 and 1 are refused."""

from __future__ import annotations

import logging
from typing import Any, Final

from streamactors.broker.api import LATER, NO_ANSWER, Api, Later
from streamactors.broker.errors import BrokerError, ErrorCode, InvalidRecord, UnsupportedCompressionType
from streamactors.broker.log.log_append import AppendResult
from streamactors.broker.network.output import Part
from streamactors.broker.protocol.produce import (
    PartitionProduced,
    PartitionRecords,
    ProduceRequest,
    ProduceResponse,
    RecordProblem,
    TopicProduced,
    decode_produce_request,
    encode_produce_response,
)
from streamactors.broker.replication.partition import Partition
from streamactors.broker.replication.pending_produce import Appended, PendingProduce
from streamactors.broker.replication.reading import find
from streamactors.broker.request import Request
from streamactors.broker.security import Operation, ResourceType, each

_log = logging.getLogger("streamactors.broker.produce")

_ALL: Final = -1
_FIRST_WITH_ZSTD: Final = 7
_ATTRIBUTES: Final = 22  # position of a batch's codec
_CODEC_MASK: Final = 7
_ZSTD: Final = 4

Answer = PartitionProduced | Appended


def handle(request: Request) -> ProduceResponse | Later:
    message: ProduceRequest = request.message
    refusal = _refusal(request, message)
    now_ms = request.node.clock.wall_ms()
    waiting: list[Appended] = []
    answers: list[tuple[str, bytes | None, list[tuple[int, Answer]]]] = []
    for topic in message.topics:
        parts: list[tuple[int, Answer]] = []
        for records in topic.partitions:
            answer: Answer
            if refusal:
                answer = PartitionProduced(records.partition, refusal)
            else:
                answer = _append(request, topic.name, topic.topic_id, records, now_ms)
                if isinstance(answer, Appended):
                    waiting.append(answer)
            parts.append((records.partition, answer))
        answers.append((topic.name, topic.topic_id, parts))
    request.message = None  # views of the frame must not outlive this call
    if message.acks == 0:
        return _no_answer(request, answers)
    if waiting:
        pending = PendingProduce(
            request.node,
            waiting,
            message.timeout_ms,
            lambda: request.answer(_response(answers)),
            all_replicas=message.acks == _ALL,
        )
        pending.wait()
        return LATER
    return _response(answers)


def _refusal(request: Request, message: ProduceRequest) -> ErrorCode:
    if not -1 <= message.acks <= 1:
        return ErrorCode.INVALID_REQUIRED_ACKS
    transactional_id = message.transactional_id
    if transactional_id is not None and not request.allowed(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _append(request: Request, name: str, topic_id: bytes | None, wanted: PartitionRecords, now_ms: int) -> Answer:
    index, records = wanted
    partition, name, error = find(request.node, name, topic_id, index)
    if name and not request.allowed(Operation.WRITE, ResourceType.TOPIC, name):
        return PartitionProduced(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if partition is None:
        return PartitionProduced(index, error)
    acks = request.message.acks
    error = _why_not(partition, acks)
    if error:
        return PartitionProduced(index, error)
    try:
        if records is None:
            raise InvalidRecord("a produce request must have a batch of records for each of its partitions")
        if request.version < _FIRST_WITH_ZSTD:
            _check_codec(records, request.version)
        result = partition.append(records, now_ms)
    except BrokerError as cause:
        return _refused(index, partition, cause)
    if acks == 0 or partition.settled(result):
        return _produced(index, result)
    return Appended(partition, result)


def _why_not(partition: Partition, acks: int) -> ErrorCode:
    if not partition.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if acks == _ALL and len(partition.isr) < partition.state.min_insync_replicas:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.NONE


def _check_codec(records: memoryview, version: int) -> None:
    if len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & _CODEC_MASK == _ZSTD:
        raise UnsupportedCompressionType(f"Produce v{version} cannot carry zstd; it needs version {_FIRST_WITH_ZSTD}")


def _refused(index: int, partition: Partition, cause: BrokerError) -> PartitionProduced:
    problems = cause.record_errors if isinstance(cause, InvalidRecord) else ()
    return PartitionProduced(
        index,
        cause.code,
        log_start_offset=partition.log_start_offset if isinstance(cause, InvalidRecord) else -1,
        record_errors=[RecordProblem(problem.batch_index, problem.message) for problem in problems],
        error_message=str(cause),
    )


def _produced(index: int, result: AppendResult) -> PartitionProduced:
    return PartitionProduced(index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset)


def _response(answers: list[tuple[str, bytes | None, list[tuple[int, Answer]]]]) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicProduced(name, topic_id, [_final(index, answer) for index, answer in parts])
            for name, topic_id, parts in answers
        ]
    )


def _final(index: int, answer: Answer) -> PartitionProduced:
    if isinstance(answer, PartitionProduced):
        return answer
    return PartitionProduced(index, answer.error) if answer.error else _produced(index, answer.result)


def _no_answer(request: Request, answers: list[tuple[str, bytes | None, list[tuple[int, Answer]]]]) -> Later:
    for name, _, parts in answers:
        for index, answer in parts:
            error = answer.error_code if isinstance(answer, PartitionProduced) else 0
            if error:
                # No answer can say so; a closed connection makes the producer ask for the metadata again.
                request.connection.close(f"produce to {name}-{index} with acks=0 failed: {ErrorCode(error).name}")
                return LATER
    return NO_ANSWER


def _refuse(request: Request, code: ErrorCode) -> Any:
    message: ProduceRequest | None = request.message
    topics = message.topics if message is not None else []
    return ProduceResponse(
        [
            TopicProduced(
                topic.name, topic.topic_id, [PartitionProduced(part.partition, code) for part in topic.partitions]
            )
            for topic in topics
        ]
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
