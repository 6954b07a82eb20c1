"""ThespianWatch: an actor is told by message which of its file descriptors are readable.

Owner: one actor; the registrations live on a dispatcher. Level-triggered, but silent between a WatchMessage and the
answer to it: what the actor returns from `receiveMessage` arms the watch anew. Descriptors stay registered as long as
the actor keeps naming them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from streamactors.actors.dispatcher import Dispatcher

_log = logging.getLogger("streamactors.actors")


class FdWatch:
    """The watched descriptors of one actor."""

    __slots__ = ("_armed", "_dispatcher", "_name", "_ready", "_registered", "_tell_ready")

    def __init__(self, dispatcher: Dispatcher, name: str, tell_ready: Callable[[list[int]], object]) -> None:
        self._dispatcher = dispatcher
        self._name = name
        self._tell_ready = tell_ready
        self._registered: set[int] = set()
        self._armed: set[int] = set()
        self._ready: list[int] = []

    def watch(self, filenos: Iterable[int]) -> None:
        """Watch exactly these descriptors from now on. Thread-safe."""
        wanted = set(filenos)
        if self._dispatcher.in_thread():
            self._arm(wanted)
        else:
            self._dispatcher.execute(lambda: self._arm(wanted))

    def _arm(self, wanted: set[int]) -> None:
        dispatcher = self._dispatcher
        for fd in self._registered - wanted:
            self._registered.discard(fd)
            self._armed.discard(fd)
            dispatcher.unregister(fd)
        self._ready = [fd for fd in self._ready if fd in wanted]
        for fd in wanted - self._armed:
            try:
                if fd in self._registered:
                    dispatcher.modify(fd, self._on_readable(fd))
                else:
                    dispatcher.register(fd, self._on_readable(fd))
                    self._registered.add(fd)
            except (OSError, ValueError, KeyError) as error:
                # As in Thespian a descriptor that cannot be watched is left out; a closed one may have been registered
                # before.
                _log.debug("%s: cannot watch file descriptor %d: %s", self._name, fd, error)
                if fd in self._registered:
                    self._registered.discard(fd)
                    dispatcher.unregister(fd)
                continue
            self._armed.add(fd)

    def _on_readable(self, fd: int) -> Callable[[], None]:
        def on_readable() -> None:
            self._armed.discard(fd)
            self._dispatcher.modify(fd)
            if not self._ready:
                self._dispatcher.execute(self._flush)
            self._ready.append(fd)

        return on_readable

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        if ready:
            self._tell_ready(ready)
