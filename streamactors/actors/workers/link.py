"""The parent's link to one worker process: frames out, frames in, and word of the process's end.

Owner: the dispatcher whose thread starts the process and reads from it. `send` and `kill` may be called from any thread. A frame is sent at once as
far as the socket and the ring take it; the dispatcher sends the rest when there is room, so no thread blocks."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.workers.frames import (
    MOST_BUFFERS,
    BrokenFrame,
    Buffer,
    Frame,
    WorkerFrameReader,
    after_sending,
)
from streamactors.actors.workers.process import WorkerProcess

OnFrames = Callable[[list[Frame]], None]
OnGone = Callable[[int, str], None]
"""Called once with the process id and how the process ended, after its last frame."""

_READS_PER_TURN = 16


class WorkerLink:
    """`on_frames` and `on_gone` are called on the dispatcher's thread, where the link must be made."""

    def __init__(self, dispatcher: Dispatcher, job: bytes, on_frames: OnFrames, on_gone: OnGone) -> None:
        self._dispatcher = dispatcher
        self._on_frames = on_frames
        self._on_gone = on_gone
        self._lock = threading.Lock()
        self._left: list[memoryview] = []  # of frames that have left the queue and are not sent yet
        self._frames: deque[Sequence[Buffer]] = deque()  # not sent yet
        self._watches_socket = False
        self._watches_ring = False
        self._over = False
        self._at_end = False  # the process has closed its end of the socket
        self._process = process = WorkerProcess(job)
        self._socket = process.socket
        self._ring = None if process.rings is None else process.rings.writer
        self._reader = WorkerFrameReader(None if process.rings is None else process.rings.reader.read)
        self.pid = process.pid
        self._pid_fd = process.pid_fd
        dispatcher.register(self._socket, self._on_readable)
        if self._pid_fd >= 0:
            dispatcher.register(self._pid_fd, self._on_exit)

    # ── any thread ────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send a frame after those sent before. What the process can no longer receive is dropped."""
        with self._lock:
            if self._over:
                return
            waits = bool(self._frames or self._left)
            self._frames.append(buffers)
            if waits or self._push():
                return
        self._dispatcher.execute(self._watch_room)

    def kill(self) -> None:
        """End the process at once; `on_gone` follows."""
        if not self._over:
            self._process.kill()

    def end_now(self) -> None:
        """End the process and wait for it; no callback follows. For the end of the system, when the dispatcher accepts no further calls."""
        with self._lock:
            if self._over:
                return
            self._over = True
        self._process.kill()
        with suppress(Exception):
            self._dispatcher.execute(self._forget_descriptors)
        self._process.reap()

    # ── the dispatcher's thread ───────────────────────────────────────────────────────────────────────────────────

    def _push(self) -> bool:
        """Send what there is room for; False if frames are left. Under the lock."""
        frames = self._frames
        while frames or self._left:
            while frames and len(self._left) < MOST_BUFFERS:
                frame = frames[0] if self._ring is None else self._ring.place(frames[0])
                if frame is None:
                    break
                frames.popleft()
                self._left += [memoryview(buffer).cast("B") for buffer in frame if len(buffer)]
            if not self._left:
                return False
            try:
                self._left = after_sending(self._left, self._socket.sendmsg(self._left[:MOST_BUFFERS]))
            except BlockingIOError:
                return False
            except OSError:  # the process has ended: `on_gone` says so
                self._left = []
                frames.clear()
        return True

    def _watch_room(self) -> None:
        if not self._over and not self._at_end:
            self._on_room()

    def _on_room(self) -> bool:
        """Send the frames that wait. Returns whether there were any."""
        with self._lock:
            if self._over or self._at_end:
                return False
            had_frames = bool(self._frames or self._left)
            done = self._push()
            needs_ring = not done and not self._left
        self._watch(socket=not done and not needs_ring, ring=needs_ring)
        return had_frames

    def _watch(self, *, socket: bool, ring: bool) -> None:
        """Have `_on_room` called when the socket, or the ring, has room."""
        if socket != self._watches_socket:
            self._watches_socket = socket
            self._dispatcher.modify(self._socket, self._on_readable, self._on_room if socket else None)
        if self._ring is not None and ring != self._watches_ring:
            self._watches_ring = ring
            if ring:
                self._dispatcher.register(self._ring.freed_fd, self._on_room)
            else:
                self._dispatcher.unregister(self._ring.freed_fd)

    def _on_readable(self) -> int:
        """Receive what has come, or some of it. Returns how many times there were bytes; the end of the process counts as well."""
        for reads in range(_READS_PER_TURN):
            if not self._read():
                return reads + self._at_end
        return _READS_PER_TURN

    def _read(self) -> bool:
        """Receive once; False when there is nothing more to receive now."""
        frames: list[Frame] = []
        try:
            got = self._reader.receive(self._socket, frames)
        except BlockingIOError:
            return False
        except OSError:
            got = 0
        except BrokenFrame:
            self._process.kill()
            got = 0
        if frames:
            self._on_frames(frames)
        if not got:
            self._closed()
        return bool(got)

    def _closed(self) -> None:
        """The process has closed its end; it has ended, or is about to."""
        if self._over or self._at_end:
            return
        self._at_end = True
        if self._pid_fd >= 0:
            self._dispatcher.unregister(self._socket)  # the end itself is reported by the process's descriptor
        else:
            self._gone()

    def _on_exit(self) -> bool:
        """The process has ended. True: it ends once."""
        while self._read():
            pass  # what the process has sent before its end
        self._gone()
        return True

    def _gone(self) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
            self._left = []
            self._frames.clear()
        self._forget_descriptors()
        how = self._process.reap(1.0)
        self._on_gone(self.pid, how)

    def _forget_descriptors(self) -> None:
        fds: list[socket.socket | int] = [self._socket, self._pid_fd]
        if self._watches_ring and self._ring is not None:
            fds.append(self._ring.freed_fd)
        for fd in fds:
            with suppress(KeyError, ValueError, OSError):
                self._dispatcher.unregister(fd)
