"""StreamsGroupHeartbeat: a member joins, stays in or leaves a streams group (KIP-1071).

Versions: 0.   Authorised: anyone.   Errors: UNSUPPORTED_VERSION, always: this broker does not have streams.version 1, the streams groups of KIP-1071.
Differs from Apache Kafka: Apache Kafka 4.4 has version 1, too."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.feature_off import OFF
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone


def handle(_: Request) -> Body:
    return {"error_code": OFF, "status": ()}


API: Final = Api(key=88, versions=(0, 0), authorise=anyone, handle=handle)
