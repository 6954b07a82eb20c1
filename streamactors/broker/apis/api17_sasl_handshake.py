"""SaslHandshake: says that this listener wants no login.

Versions: 0-1.   Authorised: anyone. Errors: ILLEGAL_SASL_STATE, always, as Apache Kafka answers on a plaintext
listener.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.api import Api, Body
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security import anyone


def handle(request: Request) -> Body:
    mechanism = repr(request.message.mechanism[:40]).strip("'")  # it is any text, and a log line is one
    request.connection.processor.foreigners.report(
        request.connection,
        f"wants to log in by SASL {mechanism}, but {request.listener.name} is a plain listener; "
        "set the client's security.protocol to PLAINTEXT",
    )
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}


API: Final = Api(key=17, versions=(0, 1), authorise=anyone, handle=handle)
