"""What the stages of a run close on other threads, such as databases. Closing may last longer than the stages.

Owner: the run. Who reports the end of a run to the user waits for it: a process that ends while a database is being closed may be aborted."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamactors.engine.island.run import Run


class Closings:
    """Counts what is open. Any thread."""

    def __init__(self) -> None:
        self._open = 0
        self._waiting: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def opened(self) -> None:
        """Something was opened; `closed` follows."""
        with self._lock:
            self._open += 1

    def closed(self) -> None:
        """Something that was opened is closed, or will never be."""
        with self._lock:
            self._open -= 1
            if self._open:
                return
            waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    @property
    def pending(self) -> bool:
        """True if something is open."""
        return self._open > 0

    def when_closed(self, then: Callable[[], object]) -> None:
        """Call `then` when nothing is open, on the thread that closes the last one; at once if nothing is."""
        with self._lock:
            if self._open:
                self._waiting.append(then)
                return
        then()


def closings_of(run: Run) -> Closings:
    """Return what the stages of a run close."""
    return run.shared(Closings, Closings)
