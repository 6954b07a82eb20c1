"""SaslAuthenticate: one token of a login, and the answer of its mechanism.

Versions: 0-2 (1 the lifetime of the session KIP-368, 2 flexible).   Authorised: anyone.
Errors: SASL_AUTHENTICATION_FAILED, after connection.failed.authentication.delay.ms, and the connection ends; ILLEGAL_SASL_STATE
without a handshake.   Differs from Apache Kafka: a failed login never tells whether the user exists."""

from __future__ import annotations

from typing import Final

from streamactors.broker.api import LATER, Api, Body, Later
from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.connection import Connection, Mute
from streamactors.broker.node import Node
from streamactors.broker.request import Request
from streamactors.broker.security.login import Answered
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


def logged_in(node: Node, connection: Connection) -> None:
    """Give the connection its principal and the size of requests that a known client may send."""
    login = connection.login
    if login is not None and login.principal is not None:
        connection.principal = login.principal
        connection.reader.max_bytes = node.processor.limits.max_request_bytes


def refused(node: Node, connection: Connection, answered: Answered) -> None:
    """Log a failed login, and read no more of the connection."""
    connection.mute(Mute.HANDLER)
    node.processor.foreigners.report(connection.host, connection.peer, f"closed: its login failed ({answered.message})")


API: Final = Api(key=36, versions=(0, 2), authorise=anyone, handle=handle)
