"""TLS handshakes of new connections: each waits for its client on the data plane, and becomes a connection when it is complete.

Owner: the processor. A handshake that makes no progress is closed after the time of a stalled request."""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.network.ends import shake_hands
from streamactors.broker.network.listener import Listener, address
from streamactors.broker.network.other_protocols import NonKafkaClients
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    import ssl

    from streamactors.broker.security.tls import Tls

_log = logging.getLogger("streamactors.broker.network")

_REASONS: Final = {
    "HTTP_REQUEST": "it speaks HTTP",
    "WRONG_VERSION_NUMBER": "it speaks no TLS; set the client's security.protocol to SSL or SASL_SSL",
    "UNSUPPORTED_PROTOCOL": "it has no version of TLS that this listener has (ssl.enabled.protocols)",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the broker's certificate; give it the authority (ssl.ca.location)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it refuses the broker's certificate: it has expired",
}


def _reason(error: ssl.SSLError) -> str:
    """Return why the handshake failed, with the client's address."""
    if error.reason == "CERTIFICATE_VERIFY_FAILED":
        refused = f"its certificate is refused: {getattr(error, 'verify_message', error)}"
        return f"{refused}; it must be valid now, and signed by an authority of ssl.truststore.location"
    return _REASONS.get(error.reason or "", str(error.reason or error).lower().replace("_", " "))


class TlsHandshakes:
    """The open handshakes of a processor. `ready(socket, listener)` is called with each connection whose handshake is complete."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        non_kafka_clients: NonKafkaClients,
        ready: Callable[[socket.socket, Listener], object],
    ) -> None:
        self._dispatcher = dispatcher
        self._foreigners = non_kafka_clients
        self._ready = ready
        self._open: dict[ssl.SSLSocket, tuple[str, int, float]] = {}  # host, port, when it began
        self._per_host: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def of(self, host: str) -> int:
        """Return how many handshakes of a client's address are open."""
        return self._per_host[host]

    def begin(self, sock: socket.socket, listener: Listener, tls: Tls) -> None:
        """Begin the handshake of an accepted connection."""
        peer = sock.getpeername()
        wrapped = tls.context().wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._open[wrapped] = (peer[0], peer[1], self._dispatcher.clock.now_ms())
        self._per_host[peer[0]] += 1
        step = partial(self._step, wrapped, listener)
        self._dispatcher.register(wrapped, step)

    def stop(self) -> None:
        """Close all."""
        for sock in list(self._open):
            self._end(sock)

    def close_stalled(self, after_ms: float) -> None:
        """Close the handshakes that have lasted longer."""
        before = self._dispatcher.clock.now_ms() - after_ms
        for sock, (host, port, began) in list(self._open.items()):
            if began < before:
                log_limited(
                    _log, logging.WARNING, ("stalled", host),
                    "connection of %s closed: its TLS handshake was not complete in time", address(host, port),
                )  # fmt: skip
                self._end(sock)

    def _step(self, sock: ssl.SSLSocket, listener: Listener) -> bool:
        """Take the next step of a handshake. Returns whether it is open: a step takes or sends bytes."""
        import ssl  # a broker without TLS does not load OpenSSL

        if sock not in self._open:
            return False
        try:
            complete = shake_hands(self._dispatcher, sock, partial(self._step, sock, listener))
        except OSError as error:
            host, port, _ = self._open[sock]
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                self._foreigners.report(host, address(host, port), f"closed: no TLS handshake, {_reason(error)}")
            self._end(sock)
        else:
            if complete:
                self._forget(sock)
                self._ready(sock, listener)
        return True

    def _end(self, sock: ssl.SSLSocket) -> None:
        self._forget(sock)
        sock.close()

    def _forget(self, sock: ssl.SSLSocket) -> None:
        host, _, _ = self._open.pop(sock)
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        try:
            self._dispatcher.unregister(sock)
        except KeyError:
            pass  # the dispatcher has removed the broken socket
