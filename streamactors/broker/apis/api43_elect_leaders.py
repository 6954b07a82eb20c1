"""ElectLeaders: elects the preferred replica, or with an unclean election any replica.

Versions: 0-2 (1 unclean elections KIP-460, 2 flexible).   Authorised: ALTER CLUSTER.
Errors: ELECTION_NOT_NEEDED, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST (an unknown kind of election).
Differs from Apache Kafka: nothing; with one broker every partition is led by its only replica."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.api import Api, Body
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security.rights import alter_cluster

_KINDS: Final = (0, 1)  # preferred, unclean


def handle(request: Request) -> Body:
    message = request.message
    if message.election_type not in _KINDS:
        unknown = f"Unknown election type {message.election_type}"
        return refuse(request, ErrorCode.INVALID_REQUEST, unknown)
    image = request.node.metadata.image
    if message.topic_partitions is None:  # all partitions: only those with a result are listed, and there are none
        return _answer(ErrorCode.NONE, [(name, []) for name in image.topics])
    return _answer(
        ErrorCode.NONE,
        [(t.topic, [_elect(request, t.topic, number) for number in t.partitions]) for t in message.topic_partitions],
    )


def refuse(request: Request, code: ErrorCode, message: str | None = None) -> Body:
    topics = request.message.topic_partitions or ()
    return _answer(code, [(t.topic, [_result(number, code, message) for number in t.partitions]) for t in topics])


def _elect(request: Request, name: str, number: int) -> dict[str, Any]:
    topic = request.node.metadata.image.topics.get(name)
    if topic is None:
        return _result(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= number < len(topic.partitions):
        return _result(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    return _result(number, ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def _answer(code: ErrorCode, topics: list[tuple[str, list[dict[str, Any]]]]) -> Body:
    return {
        "error_code": code,
        "replica_election_results": [{"topic": name, "partition_result": results} for name, results in topics],
    }


def _result(number: int, code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"partition_id": number, "error_code": code, "error_message": message}


API: Final = Api(key=43, versions=(0, 2), authorise=alter_cluster, handle=handle, refuse=refuse)
