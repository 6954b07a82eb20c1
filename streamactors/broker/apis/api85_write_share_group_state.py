"""WriteShareGroupState: the leader of a share partition stores what has changed.

Versions: 0-1 (1 the number of records that are done KIP-1226).   Authorised: CLUSTER_ACTION CLUSTER.   Errors: INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, errors of the coordinator.
Differs from Apache Kafka: the answer names the topics in the order of the request."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from streamactors.broker.apis.share_state_requests import no_fields, refuse_all, serve
from streamactors.broker.requests.api import Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action
from streamactors.broker.share.state.share_asks import WriteState
from streamactors.broker.share.state.share_state import NO_COUNT
from streamactors.broker.share.state.share_state_wire import batches_of


def _ask(asked: Any) -> WriteState:
    return WriteState(
        asked.state_epoch,
        asked.leader_epoch,
        asked.start_offset,
        batches_of(asked.state_batches),
        getattr(asked, "delivery_complete_count", NO_COUNT),
    )


def handle(request: Request) -> Body | Later:
    return serve(request, _ask, no_fields)


API: Final = Api(
    key=85,
    versions=(0, 1),
    authorise=cluster_action,
    handle=handle,
    refuse=partial(refuse_all, fields_of=no_fields),
    between_nodes=True,
    charged=False,
)
