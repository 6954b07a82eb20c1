"""A task of a simulated world: a thread of the product, a turn of a cell, or a step of the cluster.

Owner: the scheduler. A task runs on a carrier, a greenlet that is used again for later tasks, because a new greenlet costs more than a turn."""

from __future__ import annotations

import queue
import selectors
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from greenlet import greenlet

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_HERE: Final = str(Path(__file__).parent)
_LIBRARY: Final = tuple(module.__file__ or "" for module in (threading, queue, selectors))
"""Files whose frames do not say where a task waits."""


class Task:
    """`number` orders the tasks of a run. `ident` is what `threading.get_ident` returns in the task.

    `waits`: what the task waits for, while it is parked. `ticket` changes at each wait, so that an old timer wakes nobody."""

    __slots__ = (
        "calm",
        "carrier",
        "done",
        "error",
        "gone",
        "ident",
        "instance",
        "loop",
        "name",
        "number",
        "parked",
        "raises",
        "run",
        "sentinel",
        "ticket",
        "timed_out",
        "waits",
    )

    def __init__(self, number: int, name: str, instance: str, ident: int, run: Callable[[], object]) -> None:
        self.number = number
        self.name = name
        self.instance = instance
        self.ident = ident
        self.run = run
        self.carrier: greenlet | None = None
        self.calm = 0  # while above 0, dice do not interrupt the task
        self.parked = False
        self.timed_out = False
        self.done = False
        self.gone = False  # its instance has crashed
        self.ticket = 0
        self.waits = ""
        self.raises: BaseException | None = None  # what a failed condition of `wait` raises in the task
        self.error: BaseException | None = None
        self.sentinel: Any = None  # the lock that `Thread.join` waits for
        self.loop: AbstractEventLoop | None = None  # the asyncio loop that runs in the task

    @property
    def where(self) -> str:
        """The line of the product or the user where the task waits, as `file:line in function`."""
        frame: FrameType | None = self.carrier.gr_frame if self.carrier is not None else None
        innermost = frame
        while frame is not None and frame.f_code.co_filename.startswith((_HERE, *_LIBRARY)):
            frame = frame.f_back
        frame = frame or innermost
        if frame is None:
            return "not begun"
        return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"

    def __repr__(self) -> str:
        return f"<Task {self.number} {self.instance}/{self.name}>"
