"""AlterShareGroupOffsets: moves the start offsets of a share group (KIP-932).

Versions: 0.   Authorised: anyone.   Errors: UNSUPPORTED_VERSION, always: this broker does not have share.version 1, the share groups of KIP-932.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.feature_off import OFF, OFF_MESSAGE
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone


def handle(request: Request) -> Body:
    return {"error_code": OFF, "error_message": OFF_MESSAGE}


API: Final = Api(key=91, versions=(0, 0), authorise=anyone, handle=handle)
