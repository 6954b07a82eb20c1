"""A worker process: an interpreter started for one job, which ends at the latest with its parent.

Owner: the link. Each side holds one end of a socket pair. The job reaches the process as an argument, in a file without a name; nothing that
comes over the socket is ever unpickled. On Linux the kernel kills the process when the thread that started it ends; everywhere the closed
socket ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from streamactors.actors.workers.rings import Rings, make_rings
from streamactors.errors import StreamError

SOCKET_BYTES: Final = 1 << 20
"""The size asked for the buffers of the socket, in bytes; the kernel may grant less."""
KEEP_MEMORY: Final = {
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_TOP_PAD_": str(1 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
}
"""glibc returns memory to the kernel when 128 KB are free, so that each chunk of long byte strings would be written into fresh pages."""


class WorkerProcess:
    """Starts when it is made. `socket` is the parent's end, which does not block."""

    def __init__(self, job: bytes) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise StreamError(
                "worker processes need Unix domain sockets, and this platform has none; leave process=True out"
            )
        self.socket, theirs = socket.socketpair()
        self.rings: Rings | None = None
        ring_fds: tuple[int, ...] = ()
        if made := make_rings():
            self.rings, ring_fds = made
        try:
            with theirs, tempfile.TemporaryFile() as argument:
                argument.write(job)
                argument.seek(0)
                for end in (self.socket, theirs):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
                fds = [theirs.fileno(), argument.fileno(), *ring_fds]
                self._popen = subprocess.Popen(
                    [sys.executable, "-m", "streamactors.actors.workers.child", str(os.getpid()), *map(str, fds)],
                    pass_fds=fds,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the parent, which then ends its streams in order
                    env={**KEEP_MEMORY, **os.environ, "PYTHONPATH": _import_path()},
                )
        except BaseException:
            self.socket.close()
            if self.rings is not None:
                self.rings.close()
            raise
        finally:
            for memory in ring_fds[:1]:
                os.close(memory)
        self.socket.setblocking(False)
        self.pid = self._popen.pid
        self.pid_fd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1

    def kill(self) -> None:
        """End the process at once. Any thread; nothing happens when it has ended."""
        self._popen.kill()

    def reap(self, timeout_s: float | None = None) -> str:
        """Wait for the end and close what belongs to the process; return how it ended, as the end of a sentence."""
        try:
            code = self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        self.socket.close()
        if self.rings is not None:
            self.rings.close()
            self.rings = None
        if self.pid_fd >= 0:
            os.close(self.pid_fd)
            self.pid_fd = -1
        return ending_of(code)


def ending_of(code: int) -> str:
    """Return an exit code as the end of a sentence: "was killed by signal 9 (SIGKILL)", "ended with exit code 1"."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    return f"was killed by signal {-code} ({name})"


def _import_path() -> str:
    root = str(Path(__file__).parents[3])
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([root, inherited] if inherited else [root])
