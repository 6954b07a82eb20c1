"""OffsetForLeaderEpoch: the end offset of a leader epoch, from which a client detects truncated records.

Versions: 2-4 (3 replica id; 4 flexible).   Authorised: CLUSTER_ACTION, or DESCRIBE of each TOPIC. Errors: UNKNOWN_TOPIC_OR_PARTITION,
NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, TOPIC_AUTHORIZATION_FAILED. Differs from Apache
Kafka: a leader without a lease does not answer as leader (`replication.lease_state`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, cluster_action, each

_FIRST_WITH_REPLICA: Final = 3


def handle(request: Request) -> Body:
    by_broker = cluster_action(request) is ErrorCode.NONE
    return _answer(request, partial(_end_of, request, by_broker))


def _answer(request: Request, partition: Callable[[str, Any], Body]) -> Body:
    topics = request.message.topics
    return {
        "topics": [
            {"topic": t.topic, "partitions": [partition(t.topic, asked) for asked in t.partitions]} for t in topics
        ]
    }


def _end_of(request: Request, by_broker: bool, topic: str, asked: Any) -> Body:
    if not by_broker and not request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic):
        return _error(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = request.node.partitions.get(topic, asked.partition)
    if partition is None:
        return _error(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    by_replica = request.version >= _FIRST_WITH_REPLICA and request.message.replica_id >= 0 and by_broker
    error_of = partition.epoch_error if by_replica else partition.client_error
    error = error_of(asked.current_leader_epoch)
    if error:
        return _error(asked, error)
    epoch, end_offset = partition.log.epoch_end_offset(asked.leader_epoch)
    return {"partition": asked.partition, "leader_epoch": epoch, "end_offset": end_offset}


def _error(asked: Any, code: ErrorCode) -> Body:
    return {"partition": asked.partition, "error_code": code, "leader_epoch": -1, "end_offset": -1}


def _refuse(request: Request, code: ErrorCode) -> Body:
    return _answer(request, lambda _, asked: _error(asked, code))


API: Final = Api(key=23, versions=(2, 4), authorise=each, handle=handle, refuse=_refuse, between_nodes=True)
