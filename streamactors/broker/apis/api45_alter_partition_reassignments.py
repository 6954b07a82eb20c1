"""AlterPartitionReassignments: moves replicas to other brokers, or cancels such moves (KIP-455).

Versions: 0-1 (1 may forbid another replication factor).   Authorised: ALTER CLUSTER.
Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final

from streamactors.broker.controller.cluster_command import Move, Reassign
from streamactors.broker.controller.command import Outcome
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import NOT_ALLOWED, alter_cluster


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
        return {
            "allow_replication_factor_change": may_change,
            "error_message": None,
            "responses": _responses(request, iter(outcomes)),
        }

    request.node.controller.submit(Reassign(moves, may_change), reply)
    return LATER


def refuse(request: Request, code: ErrorCode) -> Body:
    text = NOT_ALLOWED.get(code)
    return {
        "error_code": code,
        "error_message": text,
        "responses": _responses(request, repeat(Outcome(code, text))),
    }


def _responses(request: Request, outcomes: Iterator[Outcome]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": each.partition_index, "error_code": outcome.code, "error_message": outcome.message}
                for each, outcome in zip(topic.partitions, outcomes, strict=False)
            ],
        }
        for topic in request.message.topics
    ]


API: Final = Api(key=45, versions=(0, 1), authorise=alter_cluster, handle=handle, refuse=refuse, forwarded=True)
