"""Accepts that fail, for tests of whoever listens."""

from __future__ import annotations

import errno
import os
import socket
import threading
from typing import Any

import pytest

SAID = "cannot accept: [Errno 24] Too many open files; raise the limit of open files"


def out_of_files() -> OSError:
    """Return the error of a process that has no descriptor left."""
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def refused_accepts(monkeypatch: pytest.MonkeyPatch, thread: str, *errors: OSError) -> list[OSError]:
    """Let the next accepts fail of these errors, on threads with `thread` in their name; return those that are left.

    Others listen in this process, too: PySpark does."""
    left, genuine = list(errors), socket.socket.accept

    def accept(listening: socket.socket) -> Any:
        if left and thread in threading.current_thread().name:
            raise left.pop(0)
        return genuine(listening)

    monkeypatch.setattr(socket.socket, "accept", accept)
    return left
