"""ReadShareGroupStateSummary: the start offset and the epochs of share partitions, without their states.

Versions: 0-1 (1 the number of records that are done KIP-1226).   Authorised: CLUSTER_ACTION CLUSTER.   Errors: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, errors of the coordinator.
Differs from Apache Kafka: the answer names the topics in the order of the request."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from streamactors.broker.apis.share_state_requests import refuse_all, serve
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action
from streamactors.broker.share.state.share_asks import ReadSummary, StateAnswer


def _ask(asked: Any) -> ReadSummary:
    return ReadSummary(asked.leader_epoch)


def handle(request: Request) -> Body | Later:
    return serve(request, _ask, partial(_fields, request.version))


def _fields(version: int, answer: StateAnswer) -> dict[str, Any]:
    fields = {
        "state_epoch": answer.state_epoch,
        "leader_epoch": answer.leader_epoch,
        "start_offset": answer.start_offset,
    }
    return fields if version < 1 else {**fields, "delivery_complete_count": answer.complete_count}


def _refuse(request: Request, code: ErrorCode) -> Body:
    return refuse_all(request, code, partial(_fields, request.version))


API: Final = Api(
    key=87,
    versions=(0, 1),
    authorise=cluster_action,
    handle=handle,
    refuse=_refuse,
    between_nodes=True,
    charged=False,
)
