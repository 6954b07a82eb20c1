"""meter: how many elements pass, and how fast, to be asked from any thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Stage
from streamactors.stages.bases.passing import PassingLogic
from streamactors.stages.checks import span_ms

SLOTS = 20
"""Parts of the window that are counted by themselves: the precision of the rate."""


class RateMeter:
    """Materialized by `meter`. `count` and `rate` may be read on any thread."""

    def __init__(self, window_ms: float) -> None:
        self.count = 0
        """The number of elements that have passed."""
        self._window_ms = window_ms
        self._slot_ms = window_ms / SLOTS
        self._slots: deque[tuple[float, int]] = deque()  # (begin in ms, elements), the oldest first
        self._began_ms: float | None = None
        self._now_ms: Callable[[], float] = float

    @property
    def rate(self) -> float:
        """Elements per second over the window that ends now, or since the start if that is shorter; 0 before the start."""
        if self._began_ms is None:
            return 0.0
        now_ms = self._now_ms()
        since_ms = max(now_ms - self._window_ms, self._began_ms)
        elements = sum(n for begin_ms, n in list(self._slots) if begin_ms + self._slot_ms > since_ms)
        return float(elements * 1_000) / max(now_ms - since_ms, self._slot_ms)

    def _start(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._began_ms = now_ms()

    def _add(self, n: int) -> None:
        self.count += n
        now_ms = self._now_ms()
        begin_ms = now_ms - now_ms % self._slot_ms
        slots = self._slots
        if slots and slots[-1][0] == begin_ms:
            slots[-1] = (begin_ms, slots[-1][1] + n)
        else:
            slots.append((begin_ms, n))
            while slots[0][0] + self._slot_ms < now_ms - self._window_ms:
                slots.popleft()

    def __repr__(self) -> str:
        return f"<RateMeter {self.count} elements, {self.rate:.1f}/s>"


class Meter(Stage[In, In]):
    """The stage of `Source.meter`."""

    handling = EXACT

    def __init__(self, window: Duration = "10s") -> None:
        self.window_ms = span_ms("meter", "window", window)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        meter = RateMeter(self.window_ms)
        return _MeterLogic(meter), meter


class _MeterLogic(PassingLogic):
    def __init__(self, meter: RateMeter) -> None:
        super().__init__()
        self._meter = meter

    def on_start(self) -> None:
        self._meter._start(self.interpreter.now_ms)

    def on_push(self, in_: Connection) -> None:
        out = self.out
        chunk = in_.grab(out.asked)
        if chunk:
            self._meter._add(len(chunk))
            out.push(chunk)
        if out.asked:
            in_.want(out.asked)
