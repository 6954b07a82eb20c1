"""Output of a socket: bytes gathered into one call, file regions by sendfile.

Owner: one connection. A region is released after its last byte has gone to the kernel, or when the connection closes."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.broker.log.partition.log_read import LogSlice


Part: TypeAlias = "bytes | bytearray | memoryview | LogSlice"

_IN_MEMORY: Final = (bytes, bytearray, memoryview)
_AT_ONCE: Final = 64 << 10
_GATHERED: Final = 64
_PER_TURN: Final = 4 << 20
_MORE: Final = getattr(socket, "MSG_MORE", 0)
_NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)


class RegionTooShort(StreamActorsError):
    """A file ends before the end of its region."""


class Output:
    """The parts that wait to be sent on one socket."""

    __slots__ = ("_parts", "_regions", "_sent_of_region", "_socket", "size")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._parts: deque[Part] = deque()
        self._regions = 0
        self._sent_of_region = 0
        self.size = 0
        """Waiting bytes."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def extend(self, parts: Iterable[Part]) -> None:
        """Add parts at the end."""
        for part in parts:
            self._parts.append(part)
            if isinstance(part, _IN_MEMORY):
                self.size += len(part)
            else:
                self.size += part.length
                self._regions += 1

    def flush(self) -> bool:
        """Send until nothing is left (True), or until the socket is full or the turn of this connection ends (False).

        Raises OSError if the connection is lost, RegionTooShort if a response cannot be completed."""
        parts = self._parts
        if not self._regions and self.size <= _AT_ONCE:
            return self._send_together()
        enough = self.size - _PER_TURN
        while parts and self.size > enough:
            head = parts[0]
            try:
                if isinstance(head, _IN_MEMORY):
                    whole = self._send_bytes()
                else:
                    whole = self._send_region(head)
            except (BlockingIOError, InterruptedError):
                return False
            if not whole:
                return False  # The socket is full: a further call would cost as much as a send and fail.
        return not parts

    def _send_together(self) -> bool:
        """Send small answers as one copy, which is cheaper than a list of buffers."""
        parts = self._parts
        if not parts:
            return True
        content = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]  # no regions among them
        try:
            sent = self._socket.send(content, _NO_SIGNAL)  # type: ignore[arg-type]
        except (BlockingIOError, InterruptedError):
            return False
        parts.clear()
        self.size -= sent
        if self.size:
            parts.append(memoryview(content)[sent:])  # type: ignore[arg-type]
            return False
        return True

    def discard(self) -> None:
        """Drop everything, releasing the regions."""
        for part in self._parts:
            if not isinstance(part, _IN_MEMORY):
                part.release()
        self._parts.clear()
        self.size = self._regions = 0

    def _send_bytes(self) -> bool:
        """Send the bytes up to the next region. Return whether the kernel took all of them."""
        parts = self._parts
        gathered: list[bytes | bytearray | memoryview] = []
        flags = _NO_SIGNAL
        for part in parts:
            if not isinstance(part, _IN_MEMORY):
                flags |= _MORE  # File bytes follow: one TCP segment for both.
                break
            gathered.append(part)
            if len(gathered) == _GATHERED:
                break
        if len(gathered) == 1:
            sent = self._socket.send(gathered[0], flags)
        else:
            sent = self._socket.sendmsg(gathered, (), flags)
        self.size -= sent
        left = sent
        for part in gathered:
            if len(part) > left:
                parts[0] = memoryview(part)[left:]
                return False
            left -= len(part)
            parts.popleft()
        return True

    def _send_region(self, region: LogSlice) -> bool:
        """Send at most one turn's share of the region. Return whether the kernel took all of it."""
        done = self._sent_of_region
        wanted = region.length - done
        sent, tried = 0, min(wanted, _PER_TURN)
        if wanted:
            sent = os.sendfile(self._socket.fileno(), region.fd, region.position + done, tried)
            if sent == 0:
                raise RegionTooShort(f"a file ended {wanted} bytes before the end of a response")
        if sent == wanted:
            self._sent_of_region = 0
            self._parts.popleft()
            self._regions -= 1
            region.release()
        else:
            self._sent_of_region = done + sent
        self.size -= sent
        return sent == tried
