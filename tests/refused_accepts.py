"""Accepts that fail, for tests of whoever listens."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import ActorSystem


def loop_of(system: ActorSystem) -> Callable[[threading.Thread], bool]:
    """Return a function: whether a thread runs the asyncio loop of this system. Give the system to the test's streams alone."""
    return lambda thread: thread.name == f"{system.name}-asyncio"


SAID = "cannot accept: [Errno 24] Too many open files; raise the limit of open files"


def out_of_files() -> OSError:
    """Return the error of a process that has no descriptor left."""
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))


OTHER = "cannot accept: [Errno 1] Operation not permitted; tried again every 0.5 s"


def not_permitted() -> OSError:
    """Return an error that has nothing to do with descriptors, nor with one connection."""
    return OSError(errno.EPERM, os.strerror(errno.EPERM))


EITHER = pytest.mark.parametrize(("error", "said"), [(out_of_files, SAID), (not_permitted, OTHER)])


def refused_accepts(
    monkeypatch: pytest.MonkeyPatch, listens: Callable[[threading.Thread], bool], *errors: OSError
) -> list[OSError]:
    """Let the next accepts fail of these errors, on threads of which `listens` is true; return those that are left.

    Others listen in this process, too: PySpark does, and what an earlier test has not ended yet."""
    left, genuine = list(errors), socket.socket.accept

    def accept(listening: socket.socket) -> Any:
        if left and listens(threading.current_thread()):
            raise left.pop(0)
        return genuine(listening)

    monkeypatch.setattr(socket.socket, "accept", accept)
    return left
