"""WriteTxnMarkers: a transaction coordinator's word to the leaders of partitions, and an administrator's against a
hanging transaction.

Versions: 1-2 (2 the transaction's version).   Authorised: CLUSTER_ACTION.
Errors: by partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH,
TRANSACTION_COORDINATOR_FENCED, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from streamactors.broker.api import LATER, Api, Body, Later
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security import cluster_action
from streamactors.broker.transaction.markers import write_marker
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers

Place = tuple[int, TopicPartition]  # which marker of the request, and where it goes


def handle(request: Request) -> Body | Later:
    markers = request.message.markers
    places: list[Place] = [
        (at, TopicPartition(topic.name, index))
        for at, marker in enumerate(markers)
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    errors: dict[Place, ErrorCode] = {}
    if not places:
        return _body(request, errors)

    def answered(place: Place, error: ErrorCode) -> None:
        errors[place] = error
        if len(errors) == len(set(places)):
            request.answer(_body(request, errors))

    for place in dict.fromkeys(places):
        _write(request, markers[place[0]], place[1], partial(answered, place))
    return LATER


def _write(request: Request, marker: Any, where: TopicPartition, then: Callable[[ErrorCode], object]) -> None:
    topic = request.node.controller.image.topics.get(where.topic)
    if topic is None or not 0 <= where.partition < len(topic.partitions):
        then(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return
    send = SendMarkers(marker.producer_id, marker.producer_epoch, marker.transaction_result, frozenset())
    write_marker(request.node, where, send, marker.coordinator_epoch, then)


def _body(request: Request, errors: dict[Place, ErrorCode]) -> Body:
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {
                                "partition_index": index,
                                "error_code": errors[at, TopicPartition(topic.name, index)],
                            }
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
    places = {
        (at, TopicPartition(topic.name, index)): code
        for at, marker in enumerate(request.message.markers)
        for topic in marker.topics
        for index in topic.partition_indexes
    }
    return _body(request, places)


API: Final = Api(key=27, versions=(1, 2), authorise=cluster_action, handle=handle, refuse=refuse)
