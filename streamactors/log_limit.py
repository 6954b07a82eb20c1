"""Rate-limited logging: one cause is logged at once, and then at most once a second, with the number of times left out.

Owner: the process; a component whose interval or clock differs has a LogLimit of its own. Used where data, a client or a broken disk
decides how often something happens:

    log_limited(_log, logging.WARNING, (stage, kind), "skipped: %s", error)

A cause is a message and what a reader would call the same fault: it never names the element, the port or the time. The number of lines left out
is logged with the next line of the cause, or when the process ends. At most MOST_CAUSES are remembered."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Final

MOST_CAUSES: Final = 1_000
EVERY_S: Final = 1.0
LEFT_OUT: Final = " (%d more since the last line)"


_DIGITS: Final = str.maketrans("", "", "0123456789")


def alike(value: object) -> str:
    """Return the start of a value's text without digits, for a cause: errors that differ in numbers only are one."""
    try:
        return str(value)[:200].translate(_DIGITS)
    except Exception:  # noqa: BLE001 - of a user's error
        return type(value).__name__


class _Logged:
    """When a cause was logged last, and how often it came since."""

    __slots__ = ("at_s", "left_out", "line")

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s
        self.left_out = 0
        self.line: tuple[logging.Logger, int, str] | None = None


class LogLimit:
    """At most one line per cause and `every_s` seconds. Thread-safe. A line that is left out costs no formatting."""

    def __init__(self, every_s: float = EVERY_S, now_s: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._now_s = now_s
        self._lock = threading.RLock()  # re-entrant: a handler of the log may log
        self._causes: dict[Hashable, _Logged] = {}  # the one logged last is at the end

    def log(
        self,
        logger: logging.Logger,
        level: int,
        cause: Hashable,
        message: str,
        *values: object,
        exc_info: BaseException | None = None,
        caused_by: BaseException | None = None,
    ) -> None:
        """Log the message unless its cause was logged within the last `every_s` seconds; then count it. `exc_info`: an error whose traceback belongs to the
        line. `caused_by`: one that the message names already; a log of JSON tells its traceback all the same."""
        if not logger.isEnabledFor(level):
            return
        key = (logger.name, message, cause)
        left_out = self.admit(key)
        if left_out is None:
            return
        entry = self._causes.get(key)
        if entry is not None:
            entry.line = (logger, level, _line(message, values))
        extra = None if caused_by is None else {"caused_by": caused_by}
        if left_out:
            logger.log(level, message + LEFT_OUT, *values, left_out, exc_info=exc_info, stacklevel=2, extra=extra)
        else:
            logger.log(level, message, *values, exc_info=exc_info, stacklevel=2, extra=extra)

    def admit(self, cause: Hashable) -> int | None:
        """Return how often the cause was left out since it was last admitted, if it may be logged now. Otherwise count it and return None."""
        now_s = self._now_s()
        with self._lock:
            before = self._causes.get(cause)
            if before is not None:
                if now_s - before.at_s < self._every_s:
                    before.left_out += 1
                    return None
                del self._causes[cause]
            self._causes[cause] = _Logged(now_s)
            oldest = self._causes.pop(next(iter(self._causes))) if len(self._causes) > MOST_CAUSES else None
        if oldest is not None:
            _log_rest(oldest)
        return before.left_out if before is not None else 0

    def log_rest(self) -> None:
        """Log how often each cause came since its last line, and forget all causes."""
        for entry in self.forget():
            _log_rest(entry)

    def forget(self) -> list[Any]:
        """Forget all causes: each is logged again at once. Return what was known of them."""
        with self._lock:
            causes, self._causes = self._causes, {}
        return list(causes.values())


def _line(message: str, values: tuple[object, ...]) -> str:
    """Return the line. A value whose `__str__` raises costs its text, and not the thread that logs: `logging` itself lets no error out either."""
    try:
        return message % values if values else message
    except Exception:  # noqa: BLE001 - of the value, such as a user's error
        return message


def _log_rest(entry: _Logged) -> None:
    if entry.left_out and entry.line is not None:
        logger, level, text = entry.line
        logger.log(level, "%d more since the last line: %s", entry.left_out, text)


_of_process: Final = LogLimit()
log_limited: Final = _of_process.log
forget_causes: Final = _of_process.forget
atexit.register(_of_process.log_rest)
