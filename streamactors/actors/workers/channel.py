"""The worker process's end of its link: frames out and in, over the socket and the rings beside it. Calls block."""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from contextlib import suppress

from streamactors.actors.workers.frames import MOST_BUFFERS, Buffer, Frame, WorkerFrameReader, after_sending
from streamactors.actors.workers.rings import Rings


class Channel:
    """`receive` is for one thread, `send` for one thread at a time."""

    def __init__(self, end: socket.socket, rings: Rings | None) -> None:
        self._end = end
        self._writer = None if rings is None else rings.writer
        self._reader = WorkerFrameReader(None if rings is None else rings.reader.read)

    def send(self, frame: Sequence[Buffer]) -> None:
        """Send a frame. Raises OSError when the parent has closed the socket."""
        if self._writer is not None:
            while (placed := self._writer.place(frame)) is None:
                self._wait_for_room(self._writer.freed_fd)
            frame = placed
        left = [memoryview(buffer).cast("B") for buffer in frame if len(buffer)]
        while left:
            left = after_sending(left, self._end.sendmsg(left[:MOST_BUFFERS]))

    def _wait_for_room(self, freed_fd: int) -> None:
        poll = select.poll()
        poll.register(freed_fd, select.POLLIN)
        poll.register(self._end, 0)  # reports POLLHUP
        if any(fd != freed_fd for fd, _ in poll.poll()):
            raise ConnectionResetError("the parent has closed the socket")

    def receive(self, frames: list[Frame]) -> int:
        """Wait for bytes and append the complete frames; return 0 at the end of the stream. Raises OSError."""
        return self._reader.receive(self._end, frames)

    def stop_receiving(self) -> None:
        """Let `receive` return 0, in whatever thread it waits."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RD)
