"""Restores that run and standby copies that are kept in this process, for a page that shows them.

Owner: the reading threads write, anybody reads. Standby copies are measured only while somebody has asked within ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from streamactors.living import Living

ASKED_S: Final = 10.0
EVERY_S: Final = 1.0


class Restoring:
    """A restore: `entries` of at most `offsets` have been read of the changelogs `what`."""

    def __init__(self, offsets: int, what: str) -> None:
        self.offsets = offsets
        self.what = what
        self.entries = 0


@dataclass(frozen=True, slots=True)
class CopyReport:
    """A standby copy: the bytes of its files, and the number of changelog entries that it lacks."""

    stores: tuple[str, ...]
    partition: int
    bytes: int
    lag: int


class Copies:
    """The standby copies of one stage."""

    def __init__(self) -> None:
        self._reports: tuple[CopyReport, ...] = ()
        self._asked_s = self._measured_s = float("-inf")

    def look(self) -> tuple[CopyReport, ...]:
        """Return what was measured last, and have it measured for a while. Any thread."""
        self._asked_s = time.monotonic()
        return self._reports

    def measured(self, measure: Callable[[], tuple[CopyReport, ...]]) -> None:
        """A step is over: measure the copies if somebody looks and a second has passed. On the thread that follows them."""
        now_s = time.monotonic()
        if now_s - self._asked_s < ASKED_S and now_s - self._measured_s >= EVERY_S:
            self._measured_s = now_s
            self._reports = measure()


RESTORES: Final[Living[Restoring]] = Living()
COPIES: Final[Living[Copies]] = Living()
