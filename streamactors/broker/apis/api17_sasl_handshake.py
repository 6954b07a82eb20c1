"""SaslHandshake: the client chooses the mechanism of its login.

Versions: 0-1 (0 the tokens come without request headers).   Authorised: anyone. Errors: UNSUPPORTED_SASL_MECHANISM, with the enabled
mechanisms; ILLEGAL_SASL_STATE on a listener without logins, or in the middle of a login. Both end the connection of a
login.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone


def handle(request: Request) -> Body | Later:
    connection = request.connection
    login = connection.login
    mechanism: str = request.message.mechanism
    shown = repr(mechanism[:40]).strip("'")  # any string of the client, kept to one log line
    if login is None:
        _report(
            request,
            f"wants to log in by SASL {shown}, but {request.listener.name} is a plain listener; "
            f"set the client's security.protocol to {request.listener.protection.protocol.name}",
        )
        return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
    code = login.handshake(mechanism, request.version)
    if code == ErrorCode.NONE:
        return {"error_code": code, "mechanisms": login.enabled}
    request.answer_here({"error_code": code, "mechanisms": login.enabled})
    _report(request, f"closed: no login by SASL {shown}; {request.listener.name} offers {', '.join(login.enabled)}")
    connection.close_after_answers("")
    return LATER


def _report(request: Request, what: str) -> None:
    request.node.processor.non_kafka_clients.report(request.connection.host, request.connection.peer, what)


API: Final = Api(key=17, versions=(0, 1), authorise=anyone, handle=handle, on_controllers=True, between_nodes=True)
