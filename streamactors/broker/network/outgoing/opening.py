"""Opens a connection to another node: gets what the login needs, resolves the host name, connects, and completes the TLS handshake if the
listener uses TLS.

Owner: a channel, on the thread of its dispatcher. Nothing blocks that thread: the socket is non-blocking, and a separate thread gets the token
and resolves the host name."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker.network.ends import shake_hands
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    import ssl

_IN_PROGRESS: Final = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)

Address = tuple[str, int]
MakeContext = Callable[[], "ssl.SSLContext"]
Login = Generator[tuple[tuple[int, int], Mapping[str, Any]], Any, int]
"""The requests of a login, (key, version) and body. It takes the answers, and returns how long the login lasts (ms), 0 forever. Raises
StreamActorsError or ValueError if the login fails."""


class Entrance(NamedTuple):
    """What a connection does before its first request: `prepare`, which may block and raises StreamActorsError, a TLS handshake with `context`, the
    requests of `login`. `outcome` gets the reason if the other node refuses one of the last two, and None if both succeed."""

    context: MakeContext | None = None
    login: Callable[[], Login] | None = None
    outcome: Callable[[Address, str | None], object] = lambda address, why: None
    prepare: Callable[[], object] | None = None


OPEN: Final = Entrance()
"""A listener without TLS and logins."""


class NotOpened(NamedTuple):
    """Why an attempt has failed. `by_tls`: because of TLS. `is_refused`: the other host refused the connection, so no process listens there."""

    why: str
    by_tls: bool = False
    is_refused: bool = False


class Opening:
    """One attempt. `opened` gets the socket, which is not registered. `failed` gets the reason. Neither is called before the constructor has
    returned."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        address: Address,
        entrance: Entrance,
        opened: Callable[[socket.socket], object],
        failed: Callable[[NotOpened], object],
    ) -> None:
        self._dispatcher = dispatcher
        self._address = address
        self._context = entrance.context
        self._prepare = entrance.prepare
        self._opened = opened
        self._failed = failed
        self._socket: socket.socket | None = None
        self._over = False
        host, port = address
        if self._prepare is not None:
            threading.Thread(target=self._look_up, name=f"log in to {host}", daemon=True).start()
            return
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (socket.gaierror, UnicodeError):  # a name, or no name at all (Python encodes names as IDNA)
            threading.Thread(target=self._look_up, name=f"look up {host}", daemon=True).start()
            return
        dispatcher.execute(partial(self._connect, found, None))

    def cancel(self) -> None:
        """Give up. Neither `opened` nor `failed` is called."""
        self._over = True
        sock = self._release()
        if sock is not None:
            sock.close()

    def _look_up(self) -> None:
        """Do what comes before the connection, and resolve the host name; on a thread of its own."""
        host, port = self._address
        error: str | None = None
        found: list[Any] = []
        try:
            if self._prepare is not None:
                self._prepare()
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except StreamActorsError as cause:
            error = str(cause)
        except (OSError, UnicodeError) as cause:
            error = f"the host name cannot be resolved: {cause}"
        try:
            self._dispatcher.execute(partial(self._connect, found, error))
        except DispatcherStopped:
            pass  # the broker has stopped

    def _connect(self, found: list[Any], error: str | None) -> None:
        if self._over:
            return
        if error is not None or not found:
            self._fail(error or "the host name cannot be resolved: it has no address")
            return
        family, kind, protocol, _, address = found[0]
        try:
            sock = self._socket = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            code = sock.connect_ex(address)
        except OSError as cause:
            self._fail(str(cause))
            return
        if code not in _IN_PROGRESS:
            self._fail(os.strerror(code), is_refused=code == errno.ECONNREFUSED)
            return
        self._dispatcher.register(sock, None, self._connected)

    def _connected(self) -> bool:
        """The connection is made, or has failed. Returns whether the opening has waited for it."""
        sock = self._socket
        if self._over or sock is None:
            return False
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._fail(os.strerror(code), is_refused=code == errno.ECONNREFUSED)
        elif self._context is None:
            self._succeed()
        else:
            self._begin_handshake(self._context)
        return True

    # --- TLS ---

    def _begin_handshake(self, context: MakeContext) -> None:
        sock = self._release()
        assert sock is not None
        try:
            wrapped = context().wrap_socket(sock, server_hostname=self._address[0], do_handshake_on_connect=False)
        except (
            OSError,
            ValueError,
        ) as error:  # a file that cannot be used, or a host name that no certificate can have
            sock.close()
            self._fail(f"TLS cannot be begun: {error}", by_tls=True)
            return
        self._socket = wrapped
        self._dispatcher.register(wrapped, None, partial(self._handshake, wrapped))

    def _handshake(self, sock: ssl.SSLSocket) -> bool:
        """Take the next step of the handshake. Returns whether the handshake is still wanted: a step takes or sends bytes."""
        import ssl  # a broker without TLS does not load OpenSSL

        if self._over:
            return False
        try:
            complete = shake_hands(self._dispatcher, sock, partial(self._handshake, sock))
        except ssl.SSLCertVerificationError as error:
            self._fail(f"its certificate is refused: {error.verify_message}", by_tls=True)
        except OSError as error:
            reason = getattr(error, "reason", None)  # None if the node has gone away
            self._fail(f"no TLS handshake: {reason or error}", by_tls=reason is not None)
        else:
            if complete:
                self._succeed()
        return True

    # --- the end ---

    def _succeed(self) -> None:
        self._over = True
        sock = self._release()
        assert sock is not None
        self._opened(sock)

    def _fail(self, why: str, *, by_tls: bool = False, is_refused: bool = False) -> None:
        self.cancel()
        self._failed(NotOpened(why, by_tls, is_refused))

    def _release(self) -> socket.socket | None:
        """Take the socket away from the dispatcher."""
        sock, self._socket = self._socket, None
        if sock is not None:
            try:
                self._dispatcher.unregister(sock)
            except (KeyError, ValueError):
                pass  # the dispatcher has removed the broken socket, or never had it
        return sock
