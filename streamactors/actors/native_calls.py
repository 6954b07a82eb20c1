"""Calls into native code that the end of the process must not cut off, and resources that are closed by such calls.

When the interpreter ends, Python unwinds each daemon thread that comes back from native code. Frames of Rust refuse that, and the process aborts
(SIGABRT) although its work was done. So the end of the process first waits, for a limited time, until what is open is closed; then no new call
begins, and it waits until the running calls have returned.

Owner: the process. Used by every module that calls a library in Rust which lets other threads run meanwhile."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any


class NativeCalls:
    """Any thread."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Nothing is open and no call runs: in a new process, or in a fork, which has none of the threads that called."""
        self._changed = threading.Condition()
        self._running = 0
        self._open: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # name by resource
        self._ending: int | None = None  # the thread that ends the process

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around one call. After `refuse` it does not return on other threads: the process ends, and these threads with it."""
        with self._changed:
            while self._ending not in (None, threading.get_ident()):
                self._changed.wait()
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def opened(self, resource: Any, name: str) -> None:
        """A resource is open; `name` is for the log. A resource without references is not waited for."""
        with self._changed:
            self._open[resource] = name

    def closed(self, resource: Any) -> None:
        """A resource is closed, or cannot be. Idempotent."""
        with self._changed:
            self._open.pop(resource, None)
            self._changed.notify_all()

    def all_open(self) -> list[Any]:
        """Return the resources that are open."""
        with self._changed:
            return list(self._open)

    def forget_all_but(self, resources: Iterable[Any]) -> None:
        """Wait no longer for the other open resources: nothing is left that would close them."""
        with self._changed:
            kept = {id(each) for each in resources}
            for resource in [each for each in self._open if id(each) not in kept]:
                del self._open[resource]

    def wait_until_closed(self, timeout_s: float) -> list[str]:
        """Wait until nothing is open; return the names of what is open after `timeout_s` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open, timeout_s)
            return list(self._open.values())

    def refuse(self, timeout_s: float) -> bool:
        """Let no new call begin on other threads, and wait until the running ones have returned. Return False if one has not after `timeout_s` seconds.

        The calling thread ends the process. Python does not unwind it, and functions of `atexit` that run later on it may close databases."""
        with self._changed:
            self._ending = threading.get_ident()
            return self._changed.wait_for(lambda: not self._running, timeout_s)


NATIVE_CALLS = NativeCalls()
"""Those of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=NATIVE_CALLS.begin)
