"""WriteTxnMarkers: a transaction coordinator commits or aborts on the partitions, or an administrator aborts a hanging
transaction.

Versions: 1-2 (2 the transaction's version: from 2 on the epoch of a marker must be newer than that of the open transaction).   Authorised: CLUSTER_ACTION or ALTER CLUSTER.
Errors: by partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH,
TRANSACTION_COORDINATOR_FENCED, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster, cluster_action
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers

_HAS_VERSION: Final = 2

Place = tuple[int, TopicPartition]  # index of the marker in the request, and its partition


def authorise(request: Request) -> ErrorCode:
    """Brokers have CLUSTER_ACTION; an administrator who aborts a hanging transaction has ALTER."""
    return alter_cluster(request) and cluster_action(request)


def handle(request: Request) -> Later:
    markers = request.message.markers
    places = list(dict.fromkeys(_places(request)))

    @request.answer_with
    def reply(errors: list[ErrorCode]) -> Body:
        return _body(request, dict(zip(places, errors, strict=True)))

    gather([partial(_write, request, markers[at], where) for at, where in places], reply)
    return LATER


def _places(request: Request) -> Iterator[Place]:
    for at, marker in enumerate(request.message.markers):
        for topic in marker.topics:
            for index in topic.partition_indexes:
                yield at, TopicPartition(topic.name, index)


def _write(request: Request, marker: Any, where: TopicPartition, then: Callable[[ErrorCode], object]) -> None:
    topic = request.node.metadata.image.topics.get(where.topic)
    if topic is None or not 0 <= where.partition < len(topic.partitions):
        then(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return
    version = marker.transaction_version if request.version >= _HAS_VERSION else 0
    send = SendMarkers(marker.producer_id, marker.producer_epoch, marker.transaction_result, frozenset(), version)
    request.node.transactions.markers.write(where, send, marker.coordinator_epoch, then)


def _body(request: Request, errors: dict[Place, ErrorCode]) -> Body:
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {"partition_index": index, "error_code": errors[at, TopicPartition(topic.name, index)]}
                            for index in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for at, marker in enumerate(request.message.markers)
        ]
    }


def refuse(request: Request, code: ErrorCode) -> Body:
    return _body(request, dict.fromkeys(_places(request), code))


API: Final = Api(
    key=27, versions=(1, 2), authorise=authorise, handle=handle, refuse=refuse, between_nodes=True, charged=False
)
