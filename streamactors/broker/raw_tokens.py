"""Tokens of a login that come without request headers, as after a SaslHandshake of version 0: each is a frame, and so is the answer."""

from __future__ import annotations

from struct import pack

from streamactors.broker.apis.api36_sasl_authenticate import logged_in, refused
from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.connection import Connection
from streamactors.broker.network.output import Part
from streamactors.broker.node import Node
from streamactors.broker.security.login import Login


class _RawToken:
    """A token in service; see `connection.InService`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.answered = False
        self.parts: list[Part] | None = None


def serve_token(node: Node, connection: Connection, login: Login, frame: memoryview) -> None:
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
