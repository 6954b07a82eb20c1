"""What follows a token of a login; and the tokens without request headers after a SaslHandshake of version 0, each of which is a frame,
as its answer is."""

from __future__ import annotations

from struct import pack

from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.connection import Mute, ServerConnection
from streamactors.broker.network.output import Part
from streamactors.broker.node import Node
from streamactors.broker.security.login import Answered, Login


class _RawToken:
    """A token in service; see `connection.InService`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.answered = False
        self.parts: list[Part] | None = None


def serve_token(node: Node, connection: ServerConnection, login: Login, frame: memoryview) -> None:
    """Take a token. A failed login is not answered: the connection ends after the delay against guessing."""
    request = _RawToken(len(frame))
    connection.begin(request)
    answered = login.token(bytes(frame))
    if answered.code != ErrorCode.NONE:
        refused(node, connection, answered)
        delay_ms = node.config.connection_failed_authentication_delay_ms
        node.data_plane.call_later(delay_ms, lambda: connection.close(""))
        return
    request.parts = [pack(">i", len(answered.token)) + answered.token]
    request.answered = True
    connection.answered(request)
    logged_in(node, connection)


def logged_in(node: Node, connection: ServerConnection) -> None:
    """Give the connection its principal and the size of requests that a known client may send."""
    login = connection.login
    if login is not None and login.principal is not None:
        connection.principal = login.principal
        connection.reader.max_bytes = node.processor.limits.max_request_bytes


def refused(node: Node, connection: ServerConnection, answered: Answered) -> None:
    """Log a failed login, and stop reading the connection."""
    connection.mute(Mute.HANDLER)
    node.processor.non_kafka_clients.report(
        connection.host, connection.peer, f"closed: its login failed ({answered.message})"
    )
