"""ShareFetch: a member of a share group fetches records (KIP-932).

Versions: 1-2 (2 acquire mode and renewal).   Authorised: anyone.   Errors: UNSUPPORTED_VERSION, always: this broker does not have share.version 1, the share groups of KIP-932.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.feature_off import not_supported
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone


def handle(request: Request) -> Body:
    return not_supported(request)


API: Final = Api(key=78, versions=(1, 2), authorise=anyone, handle=handle)
