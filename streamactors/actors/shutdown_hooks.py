"""Callbacks that run before an actor system ends, for example to fail the streams that still run.

Owner: the system base. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger("streamactors.actors")


class ShutdownHook:
    """Returned by `on_shutdown`; `cancel()` forgets the callback."""

    __slots__ = ("_hooks", "callback")

    def __init__(self, hooks: ShutdownHooks, callback: Callable[[], object]) -> None:
        self._hooks = hooks
        self.callback = callback

    def cancel(self) -> None:
        self._hooks.remove(self)


class ShutdownHooks:
    """The callbacks of one system; they run once, the last added first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hooks: list[ShutdownHook] | None = []

    def add(self, callback: Callable[[], object]) -> ShutdownHook | None:
        """Add a callback; None if they have begun to run."""
        hook = ShutdownHook(self, callback)
        with self._lock:
            if self._hooks is None:
                return None
            self._hooks.append(hook)
        return hook

    def remove(self, hook: ShutdownHook) -> None:
        """Forget a callback."""
        with self._lock:
            if self._hooks is not None:
                self._hooks = [other for other in self._hooks if other is not hook]

    def run(self) -> None:
        """Call them all; an error is logged and keeps none of the others from running."""
        with self._lock:
            hooks, self._hooks = self._hooks, None
        for hook in reversed(hooks or ()):
            try:
                hook.callback()
            except Exception:  # noqa: BLE001 - the others have to be called
                _log.exception("a shutdown callback raised: %r", hook.callback)
