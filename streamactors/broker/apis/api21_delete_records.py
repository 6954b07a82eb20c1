"""DeleteRecords: moves the start of partitions forward and deletes the records before it.

Versions: 0-2 (2 flexible).   Authorised: DELETE of each TOPIC.
Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE (beyond the high watermark), POLICY_VIOLATION (a topic that is
only compacted), INVALID_TOPIC_EXCEPTION (an internal topic), KAFKA_STORAGE_ERROR.   Differs from Apache Kafka: answered when the leader has deleted them; here the followers delete them with their next fetch, while Apache Kafka waits for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.metadata.topic_name import INTERNAL_TOPICS
from streamactors.broker.protocol.fetch import NO_EPOCH
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_NO_WATERMARK: Final = -1


def handle(request: Request) -> Body:
    return _answer(request, partial(_delete, request))


def refuse(request: Request, code: ErrorCode) -> Body:
    return _answer(request, lambda _, asked: _refused(asked.partition_index, code))


def _answer(request: Request, partition: Callable[[str, Any], dict[str, Any]]) -> Body:
    topics = request.message.topics
    return {
        "topics": [{"name": t.name, "partitions": [partition(t.name, asked) for asked in t.partitions]} for t in topics]
    }


def _delete(request: Request, topic: str, asked: Any) -> dict[str, Any]:
    index = asked.partition_index
    if not request.allowed(Operation.DELETE, ResourceType.TOPIC, topic):
        return _refused(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = request.node.partitions.get(topic, index)
    if partition is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic in INTERNAL_TOPICS:
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    refusal = partition.client_error(NO_EPOCH)
    if refusal:
        return _refused(index, refusal)
    config = partition.log.config
    if config.compacts and not config.deletes:
        return _refused(index, ErrorCode.POLICY_VIOLATION)
    try:
        low_watermark = partition.log.trim.delete_records(asked.offset, request.node.clock.wall_ms())
    except BrokerError as error:
        return _refused(index, error.code)
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": ErrorCode.NONE}


def _refused(index: int, code: ErrorCode) -> dict[str, Any]:
    return {"partition_index": index, "low_watermark": _NO_WATERMARK, "error_code": code}


API: Final = Api(key=21, versions=(0, 2), authorise=each, handle=handle, refuse=refuse)
