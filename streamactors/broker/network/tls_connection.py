"""Receiving from OpenSSL, with the results and errors of a plain socket."""

from __future__ import annotations

import socket
import ssl


def decrypt_into(sock: socket.socket, view: memoryview) -> int:
    """Receive decrypted bytes; 0 at the end of the stream. Raises BlockingIOError when none are there."""
    try:
        return sock.recv_into(view)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        raise BlockingIOError from None
    except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
        return 0
