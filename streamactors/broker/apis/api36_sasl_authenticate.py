"""SaslAuthenticate: one token of a login, and the answer of its mechanism.

Versions: 0-2 (1 the lifetime of the session KIP-368, 2 flexible).   Authorised: anyone.
Errors: SASL_AUTHENTICATION_FAILED, after connection.failed.authentication.delay.ms, and the connection ends; ILLEGAL_SASL_STATE
without a handshake.   Differs from Apache Kafka: a failed login never tells whether the user exists."""

from __future__ import annotations

from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.logins import logged_in, refused
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone


def handle(request: Request) -> Body | Later:
    connection = request.connection
    login = connection.login
    if login is None:
        return {
            "error_code": ErrorCode.ILLEGAL_SASL_STATE,
            "error_message": f"{request.listener.name} is a listener without logins",
        }
    answered = login.token(bytes(request.message.auth_bytes))
    body = {
        "error_code": answered.code,
        "error_message": answered.message,
        "auth_bytes": answered.token,
        "session_lifetime_ms": answered.lifetime_ms,
    }
    if answered.code == ErrorCode.NONE:
        logged_in(request.node, connection)
        return body
    refused(request.node, connection, answered)

    def answer() -> None:
        request.answer_here(body)
        connection.close_after_answers("")

    request.node.data_plane.call_later(request.node.config.connection_failed_authentication_delay_ms, answer)
    return LATER


API: Final = Api(key=36, versions=(0, 2), authorise=anyone, handle=handle, on_controllers=True, between_nodes=True)
