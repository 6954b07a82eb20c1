"""ListPartitionReassignments: the moves of replicas in progress; there are none.

Versions: 0.   Authorised: DESCRIBE CLUSTER.   Errors: none.
Differs from Apache Kafka: nothing; with one broker no replica can move."""

from __future__ import annotations

from typing import Final

from streamactors.broker.api import Api, Body
from streamactors.broker.request import Request
from streamactors.broker.security.rights import describe_cluster


def handle(request: Request) -> Body:
    return {"error_message": None, "topics": ()}


API: Final = Api(key=46, versions=(0, 0), authorise=describe_cluster, handle=handle)
