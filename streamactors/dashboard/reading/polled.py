"""A value that is asked for on a thread of its own while somebody reads it, because the answer may take long.

Owner: a reader of the page. The thread begins with the first read, and ends when nobody has read for ten seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from streamactors.errors import StreamActorsError

T = TypeVar("T")
_log = logging.getLogger("streamactors.dashboard")

CLOSES_S: Final = 2.0
UNREAD_S: Final = 10.0
"""The thread ends when nobody has read for so long; the next read begins a new one."""


class Polled(Generic[T]):
    """`make()` returns a function to ask with and a function that ends it; both are called on the thread."""

    def __init__(
        self, name: str, make: Callable[[], tuple[Callable[[], T], Callable[[], object]]], every_s: float
    ) -> None:
        self.last: T | None = None
        """The newest answer; None before the first one."""
        self.problem: str | None = None
        """Why there is no newer answer."""
        self._name = name
        self._make = make
        self._every_s = every_s
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._read_s = 0.0

    def read(self, now_s: float) -> T | None:
        """Return the newest answer, and keep asking."""
        with self._lock:
            self._read_s = now_s
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"dashboard: {self._name}", daemon=True)
                self._thread.start()
        return self.last

    @property
    def is_closed(self) -> bool:
        """True when nobody waits for an answer any more; any thread."""
        return self._over.is_set()

    def close(self) -> None:
        """End the thread; one that waits for an answer ends with it."""
        self._over.set()
        thread = self._thread
        if thread is not None:
            thread.join(CLOSES_S)

    def _work(self) -> None:
        end: Callable[[], object] = lambda: None  # noqa: E731
        ask: Callable[[], T] | None = None
        try:
            while True:
                with self._lock:
                    if self._over.is_set() or time.monotonic() - self._read_s > UNREAD_S:
                        self._thread = None
                        break
                try:
                    if ask is None:
                        ask, end = self._make()
                    self.last = ask()
                    self.problem = None
                except StreamActorsError as error:
                    self.problem = str(error)
                except Exception as error:  # noqa: BLE001  # the page shows it; a thread that ends would show old figures forever
                    _log.debug("%s", self._name, exc_info=True)
                    self.problem = f"{type(error).__name__}: {error}"
                self._over.wait(self._every_s)
        finally:
            end()
