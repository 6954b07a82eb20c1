"""AlterPartitionReassignments: moves replicas to other brokers, or cancels such moves (KIP-455).

Versions: 0-1 (1 may forbid another replication factor).   Authorised: ALTER CLUSTER.
Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.cluster_command import Move, Reassign
from streamactors.broker.controller.command import Outcome
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster


def handle(request: Request) -> Later:
    message = request.message
    may_change = message.allow_replication_factor_change if request.version >= 1 else True
    moves = tuple(
        Move(topic.name, each.partition_index, None if each.replicas is None else tuple(each.replicas))
        for topic in message.topics
        for each in topic.partitions
    )

    @request.answer_with
    def reply(outcomes: list[Outcome]) -> Body:
        left = iter(outcomes)
        responses = []
        for topic in message.topics:
            partitions = []
            for each in topic.partitions:
                code, text = next(left)
                partitions.append({"partition_index": each.partition_index, "error_code": code, "error_message": text})
            responses.append({"name": topic.name, "partitions": partitions})
        return {"allow_replication_factor_change": may_change, "error_message": None, "responses": responses}

    request.node.controller.submit(Reassign(moves, may_change), reply)
    return LATER


API: Final = Api(key=45, versions=(0, 1), authorise=alter_cluster, handle=handle)
