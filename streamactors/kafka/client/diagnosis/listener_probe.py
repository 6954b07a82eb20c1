"""Finds out what a listener expects, after a client could not connect: TLS or not, a login or not, and whether its certificate is valid.

`Connection.no_broker` and the commands call it when no broker answers a client. The probe sends a TLS handshake and a SaslHandshake request, and no
secret. Each answer may take ANSWER_S. In librdkafka's log some faults look alike: an expired certificate and an unknown authority, for example."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping
from contextlib import closing
from time import monotonic
from typing import Any, Final, NamedTuple

from streamactors.kafka.property_rules import Address

CONNECT_S: Final = 0.5
ANSWER_S: Final = 2.0
_SASL_HANDSHAKE: Final = (17, 1)
_ILLEGAL_SASL_STATE: Final = 34
_MAX_ANSWER: Final = 4096
_CERTIFICATE_FAULTS: Final = {
    9: "the broker's certificate is not valid yet; check the clocks of both machines",
    10: "the broker's certificate has expired; its owner must renew it",
    23: "the broker's certificate was revoked; its owner must renew it",
    62: "the broker's certificate is for another host; use a host name that it has, or let its owner add this one",
    64: "the broker's certificate is for another host; use a host name that it has, or let its owner add this one",
}
"""Sentences by OpenSSL's number of the fault."""


class Listener(NamedTuple):
    """What a listener speaks. `mechanisms` are its logins, empty if it has none; None if it did not say."""

    tls: bool
    mechanisms: tuple[str, ...] | None

    @property
    def protocol(self) -> str:
        """Kafka's name of the protocol."""
        plain, encrypted = ("PLAINTEXT", "SSL") if not self.mechanisms else ("SASL_PLAINTEXT", "SASL_SSL")
        return encrypted if self.tls else plain


def fault_of(addresses: Iterable[Address], properties: Mapping[str, Any]) -> str | None:
    """Return a sentence on why these properties cannot work at the first address that takes connections; None if the probe sees no reason."""
    address = listens(addresses)
    if address is None:
        return None
    protocol = str(properties.get("security.protocol") or "PLAINTEXT").upper()
    wanted = str(properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "PLAIN").upper()
    listener = _asked(address, wanted)
    if listener is None:
        return None
    return mismatch(listener, protocol) or (_certificate_fault(address, properties) if listener.tls else None)


def listens(addresses: Iterable[Address]) -> Address | None:
    """Return the first address at which something takes connections."""
    for address in addresses:
        try:
            socket.create_connection(address, CONNECT_S).close()
        except (OSError, UnicodeError):  # UnicodeError: Python cannot encode the host name
            continue
        return address
    return None


def mismatch(listener: Listener, protocol: str) -> str | None:
    """Return a sentence with the right protocol if a client with this protocol cannot connect."""
    tls, login = protocol.endswith("SSL"), protocol.startswith("SASL")
    wants = ["TLS"] if listener.tls and not tls else []
    lacks = ["TLS"] if tls and not listener.tls else []
    way_out = "SSL or SASL_SSL"
    if listener.mechanisms is not None:
        way_out = listener.protocol
        if listener.mechanisms and not login:
            wants.append("a login")
            way_out += f" and sasl.mechanism to one of {', '.join(listener.mechanisms)}"
        elif login and not listener.mechanisms:
            lacks.append("logins")
    said = [f"wants {' and '.join(wants)}"] * bool(wants) + [f"has no {' and no '.join(lacks)}"] * bool(lacks)
    return f"the listener {' and '.join(said)}; set security.protocol to {way_out}" if said else None


def _asked(address: Address, mechanism: str) -> Listener | None:
    """Return what the listener speaks, None if it is no Kafka listener. TLS comes first: a listener with TLS answers nothing else."""
    try:
        with closing(socket.create_connection(address, ANSWER_S)) as plain:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            encrypted = context.wrap_socket(plain)
            try:
                return Listener(True, _mechanisms(encrypted, mechanism))
            finally:
                encrypted.close()
    except OSError:
        pass
    try:
        with closing(socket.create_connection(address, ANSWER_S)) as plain:
            mechanisms = _mechanisms(plain, mechanism)
    except OSError:
        return None
    return None if mechanisms is None else Listener(False, mechanisms)


def _mechanisms(connection: socket.socket, mechanism: str) -> tuple[str, ...] | None:
    """Return the logins of a listener, none for one without logins; None if it gives no such answer."""
    name = mechanism.encode()
    deadline = monotonic() + ANSWER_S
    request = struct.pack(">hhih", *_SASL_HANDSHAKE, 1, -1) + struct.pack(">h", len(name)) + name
    try:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _exactly(connection, 4, deadline))
        if not 10 <= size <= _MAX_ANSWER:
            return None
        answer = _exactly(connection, size, deadline)
        _, error, count = struct.unpack_from(">ihi", answer)
        if error == _ILLEGAL_SASL_STATE:
            return ()
        found, at = [], 10
        for _ in range(count):
            (length,) = struct.unpack_from(">H", answer, at)  # unsigned, so that the position always moves on
            found.append(answer[at + 2 : at + 2 + length].decode())
            at += 2 + length
            if at > size:
                return None
    except (OSError, struct.error, UnicodeDecodeError):
        return None
    return tuple(sorted(found)) or None


def _exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    """Return so many bytes. Raises OSError when the connection ends or the deadline (a time of `monotonic`) has passed."""
    received = b""
    while len(received) < size:
        left_s = deadline - monotonic()
        if left_s <= 0:
            raise TimeoutError("no whole answer in time")
        connection.settimeout(left_s)
        more = connection.recv(size - len(received))
        if not more:
            raise ConnectionError("closed")
        received += more
    return received


def _certificate_fault(address: Address, properties: Mapping[str, Any]) -> str | None:
    """Return a sentence for a certificate that has expired, was revoked or belongs to another host; None for any other fault."""
    if str(properties.get("enable.ssl.certificate.verification")).lower() in ("false", "f", "0"):
        return None
    authority = str(properties.get("ssl.ca.location") or "")
    given = authority if authority != "probe" else ""
    folder = given if os.path.isdir(given) else None
    try:
        context = ssl.create_default_context(
            cafile=None if folder else given or None, capath=folder, cadata=properties.get("ssl.ca.pem") or None
        )
        context.check_hostname = (
            str(properties.get("ssl.endpoint.identification.algorithm") or "https").lower() != "none"
        )
        with closing(socket.create_connection(address, ANSWER_S)) as plain:
            context.wrap_socket(plain, server_hostname=address.host).close()
    except ssl.SSLCertVerificationError as error:
        return _CERTIFICATE_FAULTS.get(error.verify_code)
    except (OSError, ValueError):
        pass
    return None
