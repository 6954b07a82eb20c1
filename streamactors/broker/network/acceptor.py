"""The acceptor: opens the listeners and passes new connections to the processor.

Owner: the data plane. `localhost` means both loopback addresses on one port."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

from streamactors.accepting import pause_after
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.config.listeners import ListenerSpec
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.network.descriptor_reserve import DescriptorReserve
from streamactors.broker.network.limits import Limits
from streamactors.broker.network.listener import Listener, address
from streamactors.broker.security.protection import OPEN, Protection
from streamactors.log_limit import LogLimit

_log = logging.getLogger("streamactors.broker.network")

_ACCEPTED_PER_TURN: Final = 64
_TRIES_FOR_ONE_PORT: Final = 20
LOOK_FOR_ROOM_MS: Final = 100.0
TELL_EVERY_MS: Final = 60_000.0
KEPT_FOR_LOGS: Final = "%s accepts no connection until others end: the descriptors that are left are kept for the logs; raise the limit (ulimit -n)"


class Acceptor:
    """The listening sockets of a broker."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: Limits,
        adopt: Callable[[socket.socket, Listener], object],
        *,
        pause_ms: Callable[[], float] = lambda: 0.0,
        reserve: DescriptorReserve | None = None,
    ) -> None:
        """`pause_ms` is called after each connection and returns for how long no further one is accepted. `reserve` keeps descriptors for the
        logs."""
        self._reserve = reserve
        self._limit = LogLimit(TELL_EVERY_MS / 1_000, lambda: dispatcher.clock.now_ms() / 1_000)
        self._dispatcher = dispatcher
        self._limits = limits
        self._adopt = adopt
        self._pause_ms = pause_ms
        self._sockets: list[tuple[socket.socket, Listener]] = []

    def bind(self, spec: ListenerSpec, protection: Protection = OPEN) -> Listener:
        """Bind and listen, without accepting yet. Raises BrokerStartError naming the address."""
        addresses = _addresses(spec)
        sockets = _bind_all(addresses, spec, self._limits)
        port: int = sockets[0].getsockname()[1]
        listener = Listener(spec.name, spec.host, port, spec.advertised_host, spec.advertised_port or port, protection)
        if spec.advertised_port == spec.port == 0:
            listener.advertised_port = port
        self._sockets += [(sock, listener) for sock in sockets]
        return listener

    def start(self) -> None:
        """Accept connections. On the data plane's thread."""
        for sock, listener in self._sockets:
            self._watch(sock, listener)

    def stop(self) -> None:
        """Close the listening sockets."""
        for sock, _ in self._sockets:
            try:
                self._dispatcher.unregister(sock)
            except KeyError:
                pass  # It was bound, but never started.
            sock.close()
        self._sockets.clear()

    def _watch(self, sock: socket.socket, listener: Listener) -> None:
        self._dispatcher.register(sock, lambda: self._accept(sock, listener))

    def _accept(self, sock: socket.socket, listener: Listener) -> int:
        """Accept the connections that wait, or some of them. Returns their number; 1 for a pause, which ends the readiness."""
        for accepted in range(_ACCEPTED_PER_TURN):
            try:
                connection, _ = sock.accept()
            except (BlockingIOError, InterruptedError):
                return accepted
            except OSError as error:
                self._pause(sock, listener, 1_000 * pause_after(_log, str(listener), error, self._limit.log))
                return accepted + 1
            is_last = self._reserve is not None and not self._reserve.has_room(connection.fileno())
            self._adopt(connection, listener)
            if is_last:
                self._limit.log(_log, logging.WARNING, "full", KEPT_FOR_LOGS, listener)
                self._dispatcher.unregister(sock)
                self._look_for_room(sock, listener)
                return accepted + 1
            pause_ms = self._pause_ms()
            if pause_ms:
                self._pause(sock, listener, pause_ms)
                return accepted + 1
        return _ACCEPTED_PER_TURN

    def _look_for_room(self, sock: socket.socket, listener: Listener) -> None:
        """Accept again when connections have ended. Until then those of clients wait in the backlog."""
        if sock.fileno() < 0:
            return
        assert self._reserve is not None
        if self._reserve.has_room_again(sock.fileno()):
            self._watch(sock, listener)
        else:
            self._dispatcher.call_later(LOOK_FOR_ROOM_MS, lambda: self._look_for_room(sock, listener))

    def _pause(self, sock: socket.socket, listener: Listener, pause_ms: float) -> None:
        """Accept again later: the connections that wait would wake the loop again and again."""
        if pause_ms:
            self._dispatcher.unregister(sock)
            self._dispatcher.call_later(pause_ms, lambda: self._watch_again(sock, listener))

    def _watch_again(self, sock: socket.socket, listener: Listener) -> None:
        if sock.fileno() >= 0:
            self._watch(sock, listener)


def _addresses(spec: ListenerSpec) -> list[tuple[socket.AddressFamily, str]]:
    if spec.host.lower() == "localhost":
        found = [(socket.AF_INET, "127.0.0.1")]
        if _has_ipv6_loopback():
            found.append((socket.AF_INET6, "::1"))
        return found
    if spec.host == "":
        return [(socket.AF_INET6, "::")] if socket.has_dualstack_ipv6() else [(socket.AF_INET, "0.0.0.0")]  # noqa: S104
    try:
        infos = socket.getaddrinfo(spec.host, spec.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise BrokerStartError(
            f"listener {spec.name}: no address for host {spec.host!r} ({error}); name an address of this machine"
        ) from None
    return [(infos[0][0], str(infos[0][4][0]))]


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _bind_all(
    addresses: list[tuple[socket.AddressFamily, str]], spec: ListenerSpec, limits: Limits
) -> list[socket.socket]:
    """Bind every address to the same port. A free port of one address may be in use on the other: try several."""
    for _ in range(_TRIES_FOR_ONE_PORT):
        sockets: list[socket.socket] = []
        try:
            port = spec.port
            for family, host in addresses:
                sock = socket.socket(family, socket.SOCK_STREAM)
                sockets.append(sock)
                _prepare(sock, host, limits)
                sock.bind((host, port))
                port = sock.getsockname()[1]
            for sock in sockets:
                sock.listen(limits.backlog)
        except OSError as error:
            for sock in sockets:
                sock.close()
            if spec.port == 0 and error.errno == errno.EADDRINUSE:
                continue
            raise BrokerStartError(_why_not(spec, error)) from None
        return sockets
    raise BrokerStartError(f"listener {spec.name}: no port is free on both loopback addresses; name one")


def _prepare(sock: socket.socket, host: str, limits: Limits) -> None:
    sock.setblocking(False)
    # Accepted connections inherit these.
    if limits.send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
    if limits.receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)


def _why_not(spec: ListenerSpec, error: OSError) -> str:
    where = f"{spec.name}://{address(spec.host, spec.port)}"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: port {spec.port} is in use; stop the other process or choose another port with --listen (streamactors cluster: --port)"
    if error.errno == errno.EACCES:
        return f"{where}: no permission to listen on port {spec.port}; choose one above 1023"
    return f"{where}: cannot listen ({error.strerror}); choose another address with --listen"
