"""The file descriptors of a dispatcher, with the callbacks for readable and writable.

Owner: the dispatcher's loop thread; nothing here is thread-safe. Registrations persist until `unregister`.

A callback for readable or writable returns the amount of its work: bytes, connections or messages, True for work without an amount.
A descriptor that is ready while its callback has no work would be reported at once in every round (`spinning.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from streamactors.actors.dispatching.poller import BROKEN, READABLE, WRITABLE, new_poller
from streamactors.actors.dispatching.spinning import FRUITLESS_CALLS, report_spin

_log = logging.getLogger("streamactors.actors")

Callback = Callable[[], object]
OnReady = Callable[[], int]
"""Returns the amount of its work, 0 if there was nothing to do."""


class HasFileno(Protocol):
    """A socket, a pipe, a file."""

    def fileno(self) -> int: ...


class _Registration:
    __slots__ = ("fd", "fileobj", "fruitless", "on_broken", "on_readable", "on_writable", "since_round")

    def __init__(
        self,
        fileobj: int | HasFileno,
        fd: int,
        on_readable: OnReady | None,
        on_writable: OnReady | None,
        on_broken: Callback | None,
        since_round: int,
    ) -> None:
        self.fileobj = fileobj
        self.fd = fd
        self.on_readable = on_readable
        self.on_writable = on_writable
        self.on_broken = on_broken
        self.since_round = since_round
        self.fruitless = 0  # calls without work since the last one with work


class Descriptors:
    """The registered descriptors, and the poller that watches them. `name` is the dispatcher's, for errors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._poller = new_poller()
        self._registrations: dict[int, _Registration] = {}
        self._round = 0

    def register(
        self,
        fileobj: int | HasFileno,
        on_readable: OnReady | None = None,
        on_writable: OnReady | None = None,
        on_broken: Callback | None = None,
    ) -> None:
        """Add a descriptor. Raises ValueError if it is registered already, OSError if it cannot be polled (a plain file)."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if fd in self._registrations:
            raise ValueError(f"dispatcher {self._name!r}: file descriptor {fd} is registered already; use modify")
        self._poller.register(fd, _events(on_readable, on_writable))
        self._registrations[fd] = _Registration(fileobj, fd, on_readable, on_writable, on_broken, self._round)

    def modify(
        self, fileobj: int | HasFileno, on_readable: OnReady | None = None, on_writable: OnReady | None = None
    ) -> None:
        """Replace the callbacks for readable and writable; the poller is called only when the events change. Raises KeyError if it is not registered."""
        registration = self._find(fileobj)
        before = _events(registration.on_readable, registration.on_writable)
        registration.on_readable, registration.on_writable = on_readable, on_writable
        after = _events(on_readable, on_writable)
        if after != before:
            self._poller.modify(registration.fd, after)

    def unregister(self, fileobj: int | HasFileno) -> None:
        """Forget a descriptor, closed or not. Raises KeyError if it is not registered."""
        registration = self._find(fileobj)
        del self._registrations[registration.fd]
        try:
            self._poller.unregister(registration.fd)
        except (OSError, KeyError, ValueError):
            pass  # closed before it was unregistered: the kernel has forgotten it

    def poll(self, timeout_s: float | None) -> list[tuple[int, int]]:
        """Wait for readiness, at most `timeout_s` seconds; None: without a limit."""
        self._round += 1
        return self._poller.poll(timeout_s)

    def serve(self, ready: list[tuple[int, int]], call: Callable[[Callback], object]) -> bool:
        """Call the callbacks of the descriptors that `poll` found ready. Return whether any of them had work."""
        registrations = self._registrations
        fruitful = False
        for fd, events in ready:
            registration = registrations.get(fd)
            # After `poll`, a callback may have closed a descriptor, and another may have opened one with the same number.
            if registration is None or registration.since_round == self._round:
                continue
            if registration.on_readable is not None and events & (READABLE | BROKEN):
                if call(registration.on_readable):
                    fruitful = True
                    registration.fruitless = 0
                else:
                    self._in_vain(registration, registration.on_readable)
                if events & WRITABLE == 0 or registrations.get(fd) is not registration:
                    continue
            if registration.on_writable is not None and events & (WRITABLE | BROKEN):
                if call(registration.on_writable):
                    fruitful = True
                    registration.fruitless = 0
                else:
                    self._in_vain(registration, registration.on_writable)
            elif events & BROKEN and registration.on_readable is None:
                fruitful = True
                self._broken(registration, call)
        return fruitful

    def _in_vain(self, registration: _Registration, callback: Callback | None) -> None:
        registration.fruitless += 1
        if registration.fruitless == FRUITLESS_CALLS:
            seen = (
                f"was called {FRUITLESS_CALLS} times in succession for {registration.fileobj!r} and had nothing to do"
            )
            report_spin(self._name, name_of(callback), seen)

    def _broken(self, registration: _Registration, call: Callable[[Callback], object]) -> None:
        """Neither callback handles the error, and poll would report it in every round."""
        if registration.on_broken is not None:
            call(registration.on_broken)
        else:
            _log.warning(
                "dispatcher %r: %r is broken and has no callback; unregistered", self._name, registration.fileobj
            )
        if self._registrations.get(registration.fd) is registration:
            self.unregister(registration.fd)

    def close(self) -> None:
        """Forget all registrations and close the poller's own descriptor."""
        self._registrations.clear()
        self._poller.close()

    def _find(self, fileobj: int | HasFileno) -> _Registration:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        registration = self._registrations.get(fd)
        if registration is None:  # closed already: its number is gone
            for other in self._registrations.values():
                if other.fileobj is fileobj:
                    return other
            raise KeyError(f"dispatcher {self._name!r}: {fileobj!r} is not registered")
        return registration


def name_of(fn: Callback | None) -> str:
    """Return the name of a callback, for logs: of a cell its own, of a partial that of its function."""
    if isinstance(fn, partial):
        return name_of(fn.func)
    return str(getattr(fn, "name", None) or getattr(fn, "__qualname__", None) or repr(fn))


def _events(on_readable: OnReady | None, on_writable: OnReady | None) -> int:
    return (READABLE if on_readable is not None else 0) | (WRITABLE if on_writable is not None else 0)
