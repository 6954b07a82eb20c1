"""The main program of a worker process: reads its job and runs it.

    python -m streamactors.actors.workers.child PARENT SOCKET JOB [MEMORY FREED FREED]

PARENT is the id of the process that has started this one; the others are inherited descriptors, the last three those of the rings."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import runpy
import signal
import socket
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

from streamactors.actors.workers.channel import Channel
from streamactors.actors.workers.frames import header
from streamactors.actors.workers.job import note_import_of_main
from streamactors.actors.workers.rings import inherited_rings
from streamactors.collector import collect_seldom

CANNOT_BEGIN = 1
"""The kind of the frame that says why the job could not begin. All other kinds belong to the job."""
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run the job; return the exit code."""
    parent, socket_fd, job_fd, *ring_fds = map(int, sys.argv[1:])
    _die_with(parent)
    for fd in (socket_fd, *ring_fds):
        os.set_inheritable(fd, False)
    channel = Channel(socket.socket(fileno=socket_fd), inherited_rings(*ring_fds) if ring_fds else None)
    with os.fdopen(job_fd, "rb") as argument:
        head: dict[str, Any] = json.loads(argument.readline())
        payload = argument.read()
    try:
        sys.path[:] = head["path"]
        if "main" in head:
            _import_main(head["main"])
        module, _, name = head["function"].partition(":")
        function = getattr(importlib.import_module(module), name)
        arguments = pickle.loads(payload)  # noqa: S301  # an argument of this process, see job.py
    except BaseException as error:  # noqa: BLE001  # the user's modules are imported here
        reason = f"{type(error).__name__}: {error}" if not hasattr(error, "reason") else str(error)
        with suppress(OSError):
            text = reason.encode()
            channel.send([header(CANNOT_BEGIN, len(text)), text])
        return 1
    collect_seldom()
    function(channel, *arguments)
    return 0


def _die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, where the kernel can; the closed socket says it as well."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before it could be watched


def _import_main(main: dict[str, str]) -> None:
    """Import the parent's program as `__mp_main__`, and let `__main__` be that module, so that its functions are found."""
    module = ModuleType("__mp_main__")
    note_import_of_main(True)
    try:
        if "name" in main:
            found = runpy.run_module(main["name"], run_name="__mp_main__", alter_sys=True)
        else:
            module.__file__ = main["path"]
            sys.modules["__mp_main__"] = module
            found = runpy.run_path(main["path"], run_name="__mp_main__")
    finally:
        note_import_of_main(False)
    module.__dict__.update(found)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


if __name__ == "__main__":
    code = 1
    try:
        code = main()
    except Exception:  # noqa: BLE001  # printed as Python prints it; then the process must end whatever threads it has
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
