"""Input of a TLS connection, with the results and errors of a plain socket.

Owner: one connection. OpenSSL gives the bytes of one TLS record at a time, and librdkafka sends each record of a batch in TLS
records of its own. So one call reads until the view is full or the socket has no more."""

from __future__ import annotations

import socket
import ssl


class TlsInput:
    """The input of one TLS connection: one call returns all bytes that the socket has, up to the size of the view."""

    __slots__ = ("_end", "_tls")

    def __init__(self, sock: socket.socket) -> None:
        self._tls = sock
        self._end: OSError | None = None

    def receive_into(self, view: memoryview) -> int:
        """Receive decrypted bytes; 0 at the end of the stream. Raises BlockingIOError when none are there.

        An error that comes after some bytes is kept for the next call."""
        if self._end is not None:
            return self._ended(self._end)
        received, size = 0, len(view)
        read = self._tls.read  # type: ignore[attr-defined]  # an SSLSocket; its recv_into takes twice the time
        try:
            while received < size:
                some = read(size - received, view[received:])
                if not some:
                    raise ssl.SSLEOFError
                received += some
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not received:
                raise BlockingIOError from None
        except OSError as error:
            self._end = error
            if not received:
                return self._ended(error)
        return received

    def holds(self) -> bool:
        """Whether the next call returns bytes or the end at once. The socket is not readable for bytes that OpenSSL has already read."""
        return self._end is not None or self._tls.pending() > 0  # type: ignore[attr-defined]  # an SSLSocket

    @staticmethod
    def _ended(end: OSError) -> int:
        if isinstance(end, (ssl.SSLZeroReturnError, ssl.SSLEOFError)):
            return 0
        raise end
