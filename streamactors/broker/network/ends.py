"""The two ends of a socket: how its bytes are sent and how they are received, with TLS or without."""

from __future__ import annotations

import socket
from collections.abc import Callable

from streamactors.broker.network.frame_reader import ReceiveInto
from streamactors.broker.network.output import Output


def ends_of(sock: socket.socket, *, encrypted: bool) -> tuple[Output, ReceiveInto, Callable[[], bool]]:
    """Return the output of a socket, the function that receives from it, and one that says whether bytes wait outside the socket."""
    if not encrypted:
        return Output(sock), sock.recv_into, _nothing_held
    from streamactors.broker.network.tls.tls_input import TlsInput  # a broker without TLS does not load OpenSSL
    from streamactors.broker.network.tls.tls_output import TlsOutput

    received = TlsInput(sock)
    return TlsOutput(sock), received.receive_into, received.holds


def _nothing_held() -> bool:
    return False
