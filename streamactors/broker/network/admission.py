"""Admission: whether an accepted connection is served, by the number of connections and by the rate of new ones.

Owner: the processor, on the data plane. A refused connection is logged and closed."""

from __future__ import annotations

import logging
import socket
from collections import Counter

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.network.limits import Limits
from streamactors.broker.network.tls.tls_handshakes import TlsHandshakes
from streamactors.broker.quotas.connection_rates import ConnectionRates
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.network")


class Admission:
    """The connections of a processor, by the address of the client. `handshakes` are counted, too."""

    def __init__(self, dispatcher: Dispatcher, limits: Limits, handshakes: TlsHandshakes) -> None:
        self.rates = ConnectionRates(limits.quota_windows, limits.quota_window_ms, limits.max_connection_rate)
        self.is_over = False
        """True when the broker stops: no connection is admitted."""
        self._dispatcher = dispatcher
        self._handshakes = handshakes
        self._served = 0
        self._per_host: Counter[str] = Counter()

    def admit(self, sock: socket.socket, limits: Limits) -> bool:
        """Prepare an accepted connection. False: it is refused, and closed."""
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            host: str = sock.getpeername()[0]
        except OSError as error:
            _log.debug("a connection ended before it began: %s", error)
            sock.close()
            return False
        if self.is_over:  # other nodes and clients connect until the last moment: no warning
            _log.debug("connection of %s closed: the broker is stopping", host)
            sock.close()
            return False
        refusal = self._refusal(host, limits)
        if refusal is not None:
            log_limited(_log, logging.WARNING, (host, "refused"), "connection of %s refused: %s", host, refusal)
            sock.close()
            return False
        delay_ms = self.rates.delay_of(host, self._dispatcher.clock.now_ms())
        if delay_ms:
            log_limited(
                _log, logging.WARNING, (host, "quota"),
                "connection of %s refused: the quota connection_creation_rate of its address is exceeded", host,
            )  # fmt: skip
            self._dispatcher.call_later(delay_ms, sock.close)
            return False
        return True

    def _refusal(self, host: str, limits: Limits) -> str | None:
        connections = self._served + len(self._handshakes)
        if connections >= limits.max_connections:
            return f"there are already {connections} connections; raise max.connections"
        of_host = self._per_host[host] + self._handshakes.of(host)
        most = limits.of_addresses.get(host, limits.max_connections_per_ip)
        if of_host >= most:
            return f"there are already {of_host} from this address; raise max.connections.per.ip"
        return None

    def entered(self, host: str) -> None:
        """A connection of this address is served now."""
        self._served += 1
        self._per_host[host] += 1

    def left(self, host: str) -> None:
        """A connection of this address has closed."""
        self._served -= 1
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
