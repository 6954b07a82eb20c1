"""ThespianWatch: a message tells an actor which of its file descriptors are readable.

Owner: one actor; the registrations live on a dispatcher. A WatchMessage is outstanding until the actor has answered it
by returning from `receiveMessage`. Until then no other is sent; a descriptor that becomes readable meanwhile is reported
afterwards if it still is. (With two outstanding messages the actor would read a descriptor that it has just emptied, and
block.) Descriptors stay registered as long as the actor returns them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from streamactors.actors.dispatching.dispatcher import Dispatcher

_log = logging.getLogger("streamactors.actors")


class FdWatch:
    """The watched descriptors of one actor."""

    __slots__ = ("_armed", "_dispatcher", "_name", "_outstanding", "_ready", "_registered", "_tell_ready", "wanted")

    def __init__(self, dispatcher: Dispatcher, name: str, tell_ready: Callable[[list[int]], object]) -> None:
        self._dispatcher = dispatcher
        self._name = name
        self._tell_ready = tell_ready
        self._registered: set[int] = set()
        self._armed: set[int] = set()
        self._ready: list[int] = []
        self._outstanding = False
        self.wanted: frozenset[int] = frozenset()

    def watch(self, filenos: Iterable[int], *, answered: bool) -> None:
        """Watch these descriptors and no others. `answered`: the actor has just handled a WatchMessage. Called on the actor's thread."""
        wanted = frozenset(filenos)
        if wanted == self.wanted and not answered:
            return
        self.wanted = wanted
        if self._dispatcher.in_thread():
            self._arm(wanted, answered)
        else:
            self._dispatcher.execute(lambda: self._arm(wanted, answered))

    def _arm(self, wanted: frozenset[int], answered: bool) -> None:
        if answered:
            self._outstanding = False
        dispatcher = self._dispatcher
        for fd in self._registered - wanted:
            self._forget(fd)
        self._ready = [fd for fd in self._ready if fd in wanted]
        for fd in wanted - self._armed:
            try:
                if fd not in self._registered:
                    dispatcher.register(fd, self._on_readable(fd), on_broken=partial(self._broke, fd))
                    self._registered.add(fd)
                elif not self._outstanding:
                    dispatcher.modify(fd, self._on_readable(fd))
                else:
                    continue
            except (OSError, ValueError) as error:
                # As in Thespian a descriptor that cannot be watched is left out; it may have been closed while
                # registered.
                _log.debug("%s: cannot watch file descriptor %d: %s", self._name, fd, error)
                if fd in self._registered:
                    self._forget(fd)
                continue
            self._armed.add(fd)

    def _forget(self, fd: int) -> None:
        self._registered.discard(fd)
        self._armed.discard(fd)
        self._dispatcher.unregister(fd)

    def _broke(self, fd: int) -> None:
        """The other end has closed while the descriptor was not armed: the dispatcher forgets it, and it is registered again when it is armed."""
        self._registered.discard(fd)

    def _on_readable(self, fd: int) -> Callable[[], bool]:
        def on_readable() -> bool:
            self._armed.discard(fd)
            try:
                self._dispatcher.modify(fd)
            except OSError:  # the actor has closed it since the poll, in a thread of the pool
                self._forget(fd)
                return False
            if self._outstanding:
                return False
            if not self._ready:
                self._dispatcher.execute(self._flush)
            self._ready.append(fd)
            return True

        return on_readable

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        if ready:
            self._outstanding = True
            self._tell_ready(ready)
