"""SaslHandshake: says that this listener wants no login.

Versions: 0-1.   Authorised: anyone. Errors: ILLEGAL_SASL_STATE, always, as Apache Kafka answers on a plaintext
listener.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

import logging
from typing import Final

from streamactors.broker.api import Api, Body
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security import anyone

_log = logging.getLogger("streamactors.broker.network")


def handle(request: Request) -> Body:
    _log.warning(
        "connection of %s: it wants to log in by SASL %s, but %s is a plain listener; "
        "set the client's security.protocol to PLAINTEXT",
        request.connection.peer,
        request.message.mechanism,
        request.listener.name,
    )
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}


API: Final = Api(key=17, versions=(0, 1), authorise=anyone, handle=handle)
