"""ConsumerGroupHeartbeat: a member joins, stays in or leaves a group of the new protocol (KIP-848).

Versions: 0-1 (1 regular expressions).   Authorised: anyone.   Errors: UNSUPPORTED_VERSION, always: this broker does not have group.version 1, the consumer groups of KIP-848.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.feature_off import not_supported
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone


def handle(request: Request) -> Body:
    return not_supported(request)


API: Final = Api(key=68, versions=(0, 1), authorise=anyone, handle=handle)
