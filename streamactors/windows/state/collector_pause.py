"""A pause of Python's cyclic garbage collector while a state is restored.

A restore makes many objects and frees none, so the collector would walk all of them again and again and find nothing: 40 % of the time. The
pause is that of the process, and ends with the last restore. Reference counting goes on."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector; several threads may do so at once. One that the user has switched off stays off."""
    global _pauses, _was_enabled
    with _lock:
        if not _pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_enabled:
                gc.enable()
