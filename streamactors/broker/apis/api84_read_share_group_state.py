"""ReadShareGroupState: the leader of a share partition takes its state over.

Versions: 0.   Authorised: CLUSTER_ACTION CLUSTER.   Errors: INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, errors of the coordinator.
Differs from Apache Kafka: the answer names the topics in the order of the request."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from streamactors.broker.apis.share_state_requests import refuse_all, serve
from streamactors.broker.requests.api import Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action
from streamactors.broker.share.state.share_asks import ReadState, StateAnswer
from streamactors.broker.share.state.share_state_wire import batch_bodies


def _ask(asked: Any) -> ReadState:
    return ReadState(asked.leader_epoch)


def _fields(answer: StateAnswer) -> dict[str, Any]:
    return {
        "state_epoch": answer.state_epoch,
        "start_offset": answer.start_offset,
        "state_batches": batch_bodies(answer.batches),
    }


def handle(request: Request) -> Body | Later:
    return serve(request, _ask, _fields)


API: Final = Api(
    key=84,
    versions=(0, 0),
    authorise=cluster_action,
    handle=handle,
    refuse=partial(refuse_all, fields_of=_fields),
    between_nodes=True,
    charged=False,
)
