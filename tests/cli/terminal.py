"""A command on a terminal of its own, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

COMMAND: Final = (
    sys.executable,
    "-c",
    "from streamactors.cli import bootstrap, main; bootstrap.CONNECT_TIMEOUT_MS = 30_000; main.main()",
)
"""`streamactors` with the patience that a busy machine needs."""


class Terminal:
    """What a process has written to its terminal so far."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self.text = ""
        self._fd = fd

    def until(self, seen: Callable[[str], bool], timeout_s: float = 90.0) -> None:
        """Read until the text is as asked. Fails if the process ends before."""
        give_up = time.monotonic() + timeout_s
        while not seen(self.text):
            assert time.monotonic() < give_up, self.text
            assert self._read(0.5), self.text

    def interrupt(self) -> int:
        """Send Ctrl-C; return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self, timeout_s: float = 90.0) -> int:
        """Read to the end; return the exit code."""
        give_up = time.monotonic() + timeout_s
        while self._read(0.5):
            assert time.monotonic() < give_up, self.text
        return self.process.wait(10)

    def _read(self, timeout_s: float) -> bool:
        """Read what is there; False at the end."""
        if select.select([self._fd], [], [], timeout_s)[0]:
            try:
                data = os.read(self._fd, 65_536)
            except OSError:  # Linux: the other side is closed
                return False
            self.text += data.decode(errors="replace")
            return bool(data)
        return True


@contextmanager
def on_terminal(command: Sequence[str], *, width: int = 160, stdin: int = subprocess.DEVNULL) -> Iterator[Terminal]:
    """Run a command whose stdout and stderr are a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(list(command), stdin=stdin, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
