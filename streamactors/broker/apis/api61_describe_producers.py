"""DescribeProducers: the active idempotent and transactional producers of partitions.

Versions: 0.   Authorised: READ of each TOPIC.
Errors: INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.topic_name import topic_name_complaint
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_UNKNOWN: Final = "This server does not host this topic-partition."


def handle(request: Request) -> Body:
    return _answer(request, partial(_partition, request))


def refuse(request: Request, code: ErrorCode) -> Body:
    return _answer(request, lambda _, number: _refused(number, code))


def _answer(request: Request, partition: Callable[[str, int], dict[str, Any]]) -> Body:
    topics = request.message.topics
    return {
        "topics": [{"name": t.name, "partitions": [partition(t.name, n) for n in t.partition_indexes]} for t in topics]
    }


def _partition(request: Request, topic: str, number: int) -> dict[str, Any]:
    node = request.node
    if not request.allowed(Operation.READ, ResourceType.TOPIC, topic):
        return _refused(number, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    complaint = topic_name_complaint(topic)
    if complaint is not None:
        return _refused(number, ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {complaint}")
    if topic not in node.metadata.image.topics:
        return _refused(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN)
    partition = node.partitions.get(topic, number)
    if partition is None:
        return _refused(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not partition.is_leader or not partition.has_lease:
        return _refused(number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return {
        "partition_index": number,
        "error_code": ErrorCode.NONE,
        "active_producers": [_producer(entry) for entry in partition.log.producers()],
    }


def _producer(entry: Any) -> dict[str, Any]:
    return {
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "last_sequence": entry.last_sequence,
        "last_timestamp": entry.last_timestamp,
        "coordinator_epoch": entry.coordinator_epoch,
        "current_txn_start_offset": entry.transaction_first_offset,
    }


def _refused(number: int, code: ErrorCode, message: str | None = None) -> dict[str, Any]:
    return {"partition_index": number, "error_code": code, "error_message": message, "active_producers": ()}


API: Final = Api(key=61, versions=(0, 0), authorise=each, handle=handle, refuse=refuse)
