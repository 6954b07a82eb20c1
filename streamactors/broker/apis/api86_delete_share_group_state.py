"""DeleteShareGroupState: a group coordinator forgets a share partition.

Versions: 0.   Authorised: CLUSTER_ACTION CLUSTER.   Errors: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, errors of the coordinator.
Differs from Apache Kafka: the answer names the topics in the order of the request."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from streamactors.broker.apis.share_state_requests import no_fields, refuse_all, serve
from streamactors.broker.requests.api import Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action
from streamactors.broker.share.state.share_asks import DeleteState


def _ask(_: Any) -> DeleteState:
    return DeleteState()


def handle(request: Request) -> Body | Later:
    return serve(request, _ask, no_fields)


API: Final = Api(
    key=86,
    versions=(0, 0),
    authorise=cluster_action,
    handle=handle,
    refuse=partial(refuse_all, fields_of=no_fields),
    between_nodes=True,
    charged=False,
)
