"""The principal of a connection without a login: the subject of its certificate, or the anonymous one."""

from __future__ import annotations

import socket

from streamactors.broker.security.protection import Protection
from streamactors.broker.security.rights import ANONYMOUS


def principal_of(sock: socket.socket, protection: Protection) -> str:
    """Return the principal in Kafka's form. Raises InvalidSetting if no mapping rule matches the certificate."""
    if protection.tls is None:
        return ANONYMOUS
    from streamactors.broker.security.tls import distinguished_name  # loads OpenSSL

    subject = distinguished_name(sock.getpeercert())  # type: ignore[attr-defined]  # an SSLSocket
    return ANONYMOUS if subject is None else f"User:{protection.mapping.name(subject)}"
