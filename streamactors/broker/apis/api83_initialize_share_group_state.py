"""InitializeShareGroupState: a group coordinator begins a share partition, or sets its offset anew.

Versions: 0.   Authorised: CLUSTER_ACTION CLUSTER.   Errors: INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, errors of the coordinator.
Differs from Apache Kafka: the answer names the topics in the order of the request; a second request without an offset, with the same state
epoch, changes nothing once a leader has read the state. There it resets what members have acknowledged, although it may only be a late repetition."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from streamactors.broker.apis.share_state_requests import no_fields, refuse_all, serve
from streamactors.broker.requests.api import Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action
from streamactors.broker.share.state.share_asks import InitializeState


def _ask(asked: Any) -> InitializeState:
    return InitializeState(asked.state_epoch, asked.start_offset)


def handle(request: Request) -> Body | Later:
    return serve(request, _ask, no_fields)


API: Final = Api(
    key=83,
    versions=(0, 0),
    authorise=cluster_action,
    handle=handle,
    refuse=partial(refuse_all, fields_of=no_fields),
    between_nodes=True,
    charged=False,
)
