"""The two ends of a socket: how its bytes are sent and how they are received, with TLS or without."""

from __future__ import annotations

import socket
from functools import partial

from streamactors.broker.network.frame_reader import ReceiveInto
from streamactors.broker.network.output import Output


def ends_of(sock: socket.socket, *, encrypted: bool) -> tuple[Output, ReceiveInto]:
    """Return the output of a socket, and the function that receives from it."""
    if not encrypted:
        return Output(sock), sock.recv_into
    from streamactors.broker.network.tls_connection import decrypt_into  # a broker without TLS does not load OpenSSL
    from streamactors.broker.network.tls_output import TlsOutput

    return TlsOutput(sock), partial(decrypt_into, sock)
