"""The client's side of a listener's door: TLS, and a login by PLAIN or SCRAM. For the connections that this package opens itself."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.security.sasl.scram import HASHES, ScramClient

HANDSHAKE: Final = (17, 1)
AUTHENTICATE: Final = (36, 2)
Ask = Callable[[tuple[int, int], dict[str, Any]], Any]
"""Sends a request of (key, version) and returns its answer."""


class Door(NamedTuple):
    """How to come in: the file of the authority that TLS trusts (None: no TLS; empty: the machine's), mechanism, user, password."""

    authority: str | None = None
    mechanism: str = ""
    user: str = ""
    password: str = ""
    certificate: str | None = None
    key: str | None = None


def encrypted(connection: socket.socket, host: str, door: Door) -> socket.socket:
    """Return the connection behind the handshake of TLS, where the door has it. Raises OSError."""
    if door.authority is None:
        return connection
    context = ssl.create_default_context(cafile=door.authority or None)
    if door.certificate:
        context.load_cert_chain(door.certificate, door.key)
    return context.wrap_socket(connection, server_hostname=host)


def log_in(door: Door, ask: Ask) -> None:
    """Log in, where the door has a mechanism. Raises Refusal with the broker's words."""
    if not door.mechanism:
        return
    chosen = ask(HANDSHAKE, {"mechanism": door.mechanism})
    if chosen.error_code != ErrorCode.NONE:
        known = ", ".join(chosen.mechanisms)
        raise Refusal(ErrorCode(chosen.error_code), f"the broker has no mechanism {door.mechanism}; it has {known}")
    if door.mechanism == "PLAIN":
        _token(ask, f"\0{door.user}\0{door.password}".encode())
        return
    kind = HASHES.get(door.mechanism)
    if kind is None:
        raise Refusal(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"this command logs in by PLAIN or SCRAM, not by {door.mechanism}"
        )
    exchange = ScramClient(kind, door.user, door.password)
    exchange.check(_token(ask, exchange.last(_token(ask, exchange.first()))))


def _token(ask: Ask, token: bytes) -> bytes:
    answer = ask(AUTHENTICATE, {"auth_bytes": token})
    if answer.error_code != ErrorCode.NONE:
        raise Refusal(ErrorCode(answer.error_code), answer.error_message)
    return bytes(answer.auth_bytes)
