"""Finds out what a listener expects, after a client could not connect: TLS or not, a login or not, and whether its certificate is valid.

`ClientConnection.no_broker` and the commands call it when no broker answers a client. The probe tries the client's own protocol first, because a broker
warns of a client that speaks another one. It sends a TLS handshake, a Metadata request of no topic, a SaslHandshake request, and no secret. Each answer
may take ANSWER_S. In librdkafka's log some faults look alike: an expired certificate and an unknown authority, for example."""

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
_METADATA: Final = (3, 1)
_CORRELATION_ID: Final = 1
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
    listener = _asked(address, protocol, wanted)
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


def _asked(address: Address, protocol: str, mechanism: str) -> Listener | None:
    """Return what the listener speaks, None if it is no Kafka listener. `protocol` is the client's."""
    client_tls, client_login = protocol.endswith("SSL"), protocol.startswith("SASL")
    for tls in (client_tls, not client_tls):
        try:
            if tls == client_tls and not client_login:
                with closing(_connected(address, tls)) as connection:
                    if _serves(connection):
                        return Listener(tls, ())
            with closing(_connected(address, tls)) as connection:
                mechanisms = _mechanisms(connection, mechanism)
        except OSError:
            continue
        if tls or mechanisms is not None:
            return Listener(tls, mechanisms)
    return None


def _connected(address: Address, tls: bool) -> socket.socket:
    """Return a connection, after its TLS handshake. Raises OSError."""
    plain = socket.create_connection(address, ANSWER_S)
    if not tls:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with plain:  # the encrypted socket takes its descriptor
        return context.wrap_socket(plain)


def _serves(connection: socket.socket) -> bool:
    """Return whether a broker answers without a login."""
    deadline = monotonic() + ANSWER_S
    try:
        connection.sendall(_request(_METADATA, struct.pack(">i", 0)))
        return _exactly(connection, 8, deadline)[4:] == struct.pack(
            ">i", _CORRELATION_ID
        )  # after the size of the answer
    except OSError:
        return False


def _mechanisms(connection: socket.socket, mechanism: str) -> tuple[str, ...] | None:
    """Return the logins of a listener, none for one without logins; None if it does not answer in this way."""
    name = mechanism.encode()
    deadline = monotonic() + ANSWER_S
    try:
        connection.sendall(_request(_SASL_HANDSHAKE, struct.pack(">h", len(name)) + name))
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


def _request(api: tuple[int, int], body: bytes) -> bytes:
    """Return a request of a key and a version, without a client id, after its size."""
    request = struct.pack(">hhih", *api, _CORRELATION_ID, -1) + body
    return struct.pack(">i", len(request)) + request


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
