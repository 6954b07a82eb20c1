"""ConsumerGroupDescribe: groups of the new protocol with their members (KIP-848).

Versions: 0-1 (1 member type).   Authorised: anyone.   Errors: UNSUPPORTED_VERSION, always: this broker does not have group.version 1, the consumer groups of KIP-848.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.feature_off import groups_not_supported
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone


def handle(request: Request) -> Body:
    return groups_not_supported(request)


API: Final = Api(key=69, versions=(0, 1), authorise=anyone, handle=handle)
