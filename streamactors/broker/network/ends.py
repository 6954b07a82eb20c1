"""The two ends of a socket: how its bytes are sent and how they are received, with TLS or without."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.network.frame_reader import ReceiveInto
from streamactors.broker.network.output import Output

if TYPE_CHECKING:
    import ssl


def ends_of(sock: socket.socket, *, encrypted: bool) -> tuple[Output, ReceiveInto, Callable[[], bool]]:
    """Return the output of a socket, the function that receives from it, and one that says whether bytes wait outside the socket."""
    if not encrypted:
        return Output(sock), sock.recv_into, _nothing_held
    from streamactors.broker.network.tls.tls_input import TlsInput  # a broker without TLS does not load OpenSSL
    from streamactors.broker.network.tls.tls_output import TlsOutput

    received = TlsInput(sock)
    return TlsOutput(sock), received.receive_into, received.holds


def shake_hands(dispatcher: Dispatcher, sock: ssl.SSLSocket, again: Callable[[], int]) -> bool:
    """Take the next step of a TLS handshake. False: `again` is called when the socket is ready for another one. Raises OSError."""
    import ssl  # a broker without TLS does not load OpenSSL

    try:
        sock.do_handshake()
    except ssl.SSLWantReadError:
        dispatcher.modify(sock, again, None)
        return False
    except ssl.SSLWantWriteError:
        dispatcher.modify(sock, None, again)
        return False
    return True


def _nothing_held() -> bool:
    return False
