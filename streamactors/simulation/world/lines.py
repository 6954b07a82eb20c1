"""Giving way between two lines of user code, so that a race without a wait in it is found.

Owner: the scheduler. A trace function counts lines of files outside this package, the standard library and site-packages. It makes all Python code
about three times as slow, so a world has it on demand."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamactors.simulation.world.scheduler import Scheduler

_OTHERS: Final = (str(Path(__file__).parents[2]), *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}, "<frozen")  # fmt: skip


@cache
def is_users(file: str) -> bool:
    """Return whether a file is the user's: not this package's, the standard library's or an installed one."""
    return not file.startswith(_OTHERS)


class Lines:
    """`rate`: how often a task gives way at a line, from 0 to 1."""

    def __init__(self, scheduler: Scheduler, rate: float) -> None:
        self._scheduler = scheduler
        self._rate = rate

    def begin(self) -> None:
        """Trace the calling greenlet."""
        sys.settrace(self._call)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if is_users(frame.f_code.co_filename) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        scheduler = self._scheduler
        runs = scheduler.current is not None and not scheduler.ending
        if event == "line" and runs and scheduler.dice.random() < self._rate:
            scheduler.give_way()
        return self._line
