"""Output of a TLS connection: OpenSSL encrypts in this process, so file regions are read instead of sent by sendfile.

Owner: one connection. A piece that OpenSSL has begun to write must be offered again unchanged, so it is kept until it is sent."""

from __future__ import annotations

import os
import socket
import ssl
from typing import Final

from streamactors.broker.network.output import _IN_MEMORY, _PER_TURN, Output, RegionTooShort

_PIECE: Final = 64 << 10


class TlsOutput(Output):
    """The output of one TLS connection: bytes and file regions, encrypted in this process."""

    __slots__ = ("_piece", "_tls")

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._tls = sock
        self._piece: memoryview | None = None

    def __bool__(self) -> bool:
        return self._piece is not None or super().__bool__()

    def flush(self) -> bool:
        """As `Output.flush`."""
        enough = self.size - _PER_TURN
        while self:
            piece = self._piece
            if piece is None:
                piece = self._piece = memoryview(self._next())
            try:
                sent = self._tls.send(piece)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return False
            self.size -= sent
            self._piece = piece[sent:] if sent < len(piece) else None
            if self.size <= enough:
                return not self
        return True

    def discard(self) -> None:
        """As `Output.discard`."""
        super().discard()
        self._piece = None

    def _next(self) -> bytes | bytearray | memoryview:
        """Take the next bytes to encrypt: parts in memory together, or a piece of a file."""
        parts = self._parts
        head = parts[0]
        if not isinstance(head, _IN_MEMORY):
            return self._read_region()
        gathered: list[bytes | bytearray | memoryview] = []
        size = 0
        while parts and isinstance(part := parts[0], _IN_MEMORY):
            if gathered and size + len(part) > _PIECE:
                break
            gathered.append(part)
            size += len(part)
            parts.popleft()
        return gathered[0] if len(gathered) == 1 else b"".join(gathered)

    def _read_region(self) -> bytes:
        region = self._parts[0]
        assert not isinstance(region, _IN_MEMORY)
        done = self._sent_of_region
        wanted = min(region.length - done, _PIECE)
        read = os.pread(region.fd, wanted, region.position + done)
        if len(read) < wanted:
            raise RegionTooShort(f"a file ended {wanted - len(read)} bytes before the end of a response")
        self._sent_of_region = done + wanted
        if self._sent_of_region == region.length:
            self._sent_of_region = 0
            self._parts.popleft()
            self._regions -= 1
            region.release()
        return read
