"""StreamsGroupDescribe: streams groups with their members (KIP-1071).

Versions: 0.   Authorised: anyone.   Errors: UNSUPPORTED_VERSION, always: this broker does not have streams.version 1, the streams groups of KIP-1071.
Differs from Apache Kafka: Apache Kafka 4.4 has version 1, too."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.feature_off import groups_not_supported
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone


def handle(request: Request) -> Body:
    return groups_not_supported(request)


API: Final = Api(key=89, versions=(0, 0), authorise=anyone, handle=handle)
