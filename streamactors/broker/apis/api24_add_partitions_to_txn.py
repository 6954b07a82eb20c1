"""AddPartitionsToTxn: adds partitions to a producer's transaction, before the producer writes to them.

Versions: 0-5 (2 PRODUCER_FENCED KIP-588, 3 flexible; 4 for brokers: several transactions, and verify_only; a broker that
adds partitions does it for producers of transaction.version 2, KIP-890; 5 TRANSACTION_ABORTABLE).   Authorised: to version 3 WRITE TRANSACTIONAL_ID and WRITE each
TOPIC, from 4 CLUSTER_ACTION.
Errors: UNKNOWN_TOPIC_OR_PARTITION (all other partitions then have OPERATION_NOT_ATTEMPTED), INVALID_PRODUCER_ID_MAPPING,
PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before 2), CONCURRENT_TRANSACTIONS, INVALID_REQUEST, TRANSACTION_ABORTABLE
(from 4 on), COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE.   Differs from Apache Kafka:
nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from streamactors.broker.apis.transaction_requests import for_old_clients, transactional_id_error
from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, cluster_action
from streamactors.broker.transaction.transaction import BUMPS_EPOCH, TopicPartition
from streamactors.broker.transaction.transaction_events import (
    AddPartitions,
    ErrorAnswer,
    VerifyAnswer,
    VerifyPartitions,
)

_KNOWS_FENCED: Final = 2
_OF_BROKERS: Final = 4

Errors = dict[TopicPartition, ErrorCode]


class AskedTransaction(NamedTuple):
    """One transaction of a request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: tuple[TopicPartition, ...]


def authorise(request: Request) -> ErrorCode:
    """Require WRITE on the transactional id of a client, or CLUSTER_ACTION of a broker."""
    if request.version >= _OF_BROKERS:
        return cluster_action(request)
    name = request.message.v3_and_below_transactional_id
    allowed = request.allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
    return ErrorCode.NONE if allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def handle(request: Request) -> Later:
    asked = _asked(request)

    @request.answer_with
    def reply(answers: list[ErrorAnswer | VerifyAnswer]) -> Body:
        results = [_errors(request, *each) for each in zip(asked, answers, strict=True)]
        return _body(request, asked, results)

    gather([partial(_add, request, transaction) for transaction in asked], reply)
    return LATER


def _add(request: Request, asked: AskedTransaction, then: Callable[[ErrorAnswer | VerifyAnswer], object]) -> None:
    error = transactional_id_error(asked.transactional_id)
    if error is not ErrorCode.NONE:
        then(ErrorAnswer(error))
        return
    refused = {partition: _why_not(request, partition) for partition in asked.partitions}
    if any(refused.values()):
        then(VerifyAnswer(tuple((p, error or ErrorCode.OPERATION_NOT_ATTEMPTED) for p, error in refused.items())))
        return
    event: VerifyPartitions | AddPartitions
    about = (then, asked.producer_id, asked.producer_epoch, frozenset(asked.partitions))
    if asked.verify_only:
        event = VerifyPartitions(*about)
    else:
        event = AddPartitions(*about, client_version=BUMPS_EPOCH if request.version >= _OF_BROKERS else 0)
    request.node.transactions.tell(asked.transactional_id, event)


def _errors(request: Request, asked: AskedTransaction, answer: ErrorAnswer | VerifyAnswer) -> Errors:
    if isinstance(answer, VerifyAnswer):
        return dict(answer.errors)
    return dict.fromkeys(asked.partitions, for_old_clients(answer.error, request.version, _KNOWS_FENCED))


def _why_not(request: Request, where: TopicPartition) -> ErrorCode:
    topic = request.node.metadata.image.topics.get(where.topic)
    if request.version < _OF_BROKERS and not request.allowed(Operation.WRITE, ResourceType.TOPIC, where.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None or not 0 <= where.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _asked(request: Request) -> list[AskedTransaction]:
    message = request.message
    if request.version >= _OF_BROKERS:
        return [
            AskedTransaction(t.transactional_id, t.producer_id, t.producer_epoch, t.verify_only, _partitions(t.topics))
            for t in message.transactions
        ]
    producer = (
        message.v3_and_below_transactional_id,
        message.v3_and_below_producer_id,
        message.v3_and_below_producer_epoch,
    )
    return [AskedTransaction(*producer, False, _partitions(message.v3_and_below_topics))]


def _partitions(topics: Sequence[Any]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions)


def _body(request: Request, asked: Sequence[AskedTransaction], results: Sequence[Errors]) -> Body:
    if request.version < _OF_BROKERS:
        return {"results_by_topic_v3_and_below": _by_topic(results[0])}
    return {
        "error_code": ErrorCode.NONE,
        "results_by_transaction": [
            {"transactional_id": transaction.transactional_id, "topic_results": _by_topic(errors)}
            for transaction, errors in zip(asked, results, strict=True)
        ],
    }


def _by_topic(errors: Errors) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, partition), error in errors.items():
        topics.setdefault(topic, []).append({"partition_index": partition, "partition_error_code": error})
    return [{"name": topic, "results_by_partition": results} for topic, results in topics.items()]


def refuse(request: Request, code: ErrorCode) -> Body:
    if request.version >= _OF_BROKERS:
        return {"error_code": code}
    asked = _asked(request)
    return _body(request, asked, [dict.fromkeys(each.partitions, code) for each in asked])


API: Final = Api(key=24, versions=(0, 5), authorise=authorise, handle=handle, refuse=refuse, between_nodes=True)
