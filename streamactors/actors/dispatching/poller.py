"""Readiness of file descriptors: epoll itself where there is one, else the standard library's selector.

Owner: one dispatcher's loop thread. `poll` gives (fd, events) pairs without an object per event; registration is
persistent. Only `wake` may be called from other threads.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
from collections.abc import Callable
from typing import Final, Protocol

READABLE: Final = 1  # epoll's own values, so that nothing is translated there
WRITABLE: Final = 4
BROKEN: Final = 8 | 16  # error or hang-up; reported without being asked for


class Poller(Protocol):
    """What a dispatcher needs of a selector."""

    def register(self, fd: int, events: int) -> None: ...
    def modify(self, fd: int, events: int) -> None: ...
    def unregister(self, fd: int) -> None: ...
    def close(self) -> None: ...

    @property
    def poll(self) -> Callable[[float | None], list[tuple[int, int]]]: ...


class SelectorPoller:
    """Over `selectors.DefaultSelector` (kqueue, poll, select)."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, events: int) -> None:
        self._selector.register(fd, _mask(events))

    def modify(self, fd: int, events: int) -> None:
        self._selector.modify(fd, _mask(events))

    def unregister(self, fd: int) -> None:
        self._selector.unregister(fd)

    def poll(self, timeout_s: float | None) -> list[tuple[int, int]]:
        return [
            (
                key.fd,
                (READABLE if ready & selectors.EVENT_READ else 0) | (WRITABLE if ready & selectors.EVENT_WRITE else 0),
            )
            for key, ready in self._selector.select(timeout_s)
        ]

    def close(self) -> None:
        self._selector.close()


def _mask(events: int) -> int:
    return (selectors.EVENT_READ if events & READABLE else 0) | (selectors.EVENT_WRITE if events & WRITABLE else 0)


def new_poller() -> Poller:
    """Return the fastest poller of this platform."""
    epoll = getattr(select, "epoll", None)
    return SelectorPoller() if epoll is None else epoll()


class Waker:
    """Makes a sleeping `poll` return. `fd` must be registered as readable; `drain` resets it after the wake-up."""

    def __init__(self) -> None:
        self._sender: socket.socket | None = None
        if hasattr(os, "eventfd"):
            self.fd: int = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._receiver, self._sender = socket.socketpair()
            self._receiver.setblocking(False)
            self._sender.setblocking(False)
            self.fd = self._receiver.fileno()

    def wake(self) -> None:
        """Thread-safe; any number of calls before the next `drain` count as one."""
        try:
            if self._sender is None:
                os.eventfd_write(self.fd, 1)
            else:
                self._sender.send(b"\0")
        except BlockingIOError:
            pass  # full: `poll` will return anyway
        except OSError:
            pass  # closed: the loop has ended

    def drain(self) -> bool:
        """Take the wake-ups; return whether there was one."""
        try:
            if self._sender is None:
                return os.eventfd_read(self.fd) > 0
            return len(self._receiver.recv(4096)) > 0
        except BlockingIOError:
            return False

    def close(self) -> None:
        if self._sender is None:
            os.close(self.fd)
        else:
            self._sender.close()
            self._receiver.close()
        self.fd = -1
