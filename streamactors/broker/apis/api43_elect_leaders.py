"""ElectLeaders: elects the preferred replica, or with an unclean election any replica.

Versions: 0-2 (1 unclean elections KIP-460, 2 flexible).   Authorised: ALTER CLUSTER.
Errors: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST
(an unknown kind of election).   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.controller.cluster_command import ElectLeaders
from streamactors.broker.controller.command import Outcome
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster

_PREFERRED, _UNCLEAN = 0, 1


def handle(request: Request) -> Body | Later:
    message = request.message
    kind = message.election_type if request.version >= 1 else _PREFERRED
    if kind not in (_PREFERRED, _UNCLEAN):
        return refuse(request, ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}")
    asked = message.topic_partitions
    partitions = None if asked is None else tuple((t.topic, number) for t in asked for number in t.partitions)

    @request.answer_with
    def reply(elected: list[tuple[tuple[str, int], Outcome]]) -> Body:
        names = request.node.metadata.image.topics if asked is None else [t.topic for t in asked]
        results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for (name, number), (code, text) in elected:
            results.setdefault(name, []).append(_result(number, code, text))
        return _answer(ErrorCode.NONE, list(results.items()))

    request.node.controller.submit(ElectLeaders(partitions, unclean=kind == _UNCLEAN), reply)
    return LATER


def refuse(request: Request, code: ErrorCode, message: str | None = None) -> Body:
    topics = request.message.topic_partitions or ()
    return _answer(code, [(t.topic, [_result(number, code, message) for number in t.partitions]) for t in topics])


def _answer(code: ErrorCode, topics: list[tuple[str, list[dict[str, Any]]]]) -> Body:
    return {
        "error_code": code,
        "replica_election_results": [{"topic": name, "partition_result": results} for name, results in topics],
    }


def _result(number: int, code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"partition_id": number, "error_code": code, "error_message": message}


API: Final = Api(key=43, versions=(0, 2), authorise=alter_cluster, handle=handle, refuse=refuse, forwarded=True)
