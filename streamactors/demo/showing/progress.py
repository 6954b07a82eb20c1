"""Progress of a run: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

LINE_EVERY_SECONDS: Final = 2.0
SHOW_EVERY_SECONDS: Final = 0.05

Told = Callable[[str, int, int], object]
"""Called with (step, done, total) after each piece of work."""


class Meter:
    """Progress of one step. `set` may be called from any thread."""

    def __init__(self, name: str, total: int, show: Callable[[Meter], None]) -> None:
        self.name = name
        self.total = total
        self.done = 0
        self.note = ""
        self.started = time.monotonic()
        self._show = show
        self._lock = threading.Lock()
        self._shown = 0.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def set(self, done: int, note: str = "") -> None:
        """Set the number of records done."""
        with self._lock:
            self.done, self.note = min(done, self.total), note
            self._now_and_then()

    def add(self, count: int) -> None:
        """Add to the number of records done."""
        with self._lock:
            self.done = min(self.done + count, self.total)
            self._now_and_then()

    def _now_and_then(self) -> None:
        now = time.monotonic()
        if now - self._shown >= SHOW_EVERY_SECONDS or self.done == self.total:
            self._shown = now
            self._show(self)


class Progress:
    """A context manager. On a terminal every step is a bar; elsewhere a line now and then and one at its end."""

    def __init__(self, told: Told | None = None) -> None:
        self._told = told
        self._bars = None
        self._lines = threading.Lock()
        self._last_line = 0.0
        if sys.stdout.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars

            self._bars = Bars(
                TextColumn("{task.description:<18}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}", style="dim"),
            )

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        if self._bars is not None:
            self._bars.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            print(text, flush=True)

    def finish(self) -> None:
        """Stop updating the bars; later lines are printed below them."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    @contextmanager
    def step(self, name: str, total: int) -> Iterator[Meter]:
        """A meter for one step, from its beginning to its end."""
        bars = self._bars
        task = None if bars is None else bars.add_task(name, total=total, note="")

        def show(meter: Meter) -> None:
            if self._told is not None:
                self._told(name, meter.done, meter.total)
            if bars is not None and task is not None:
                bars.update(task, completed=meter.done, note=meter.note)
            elif meter.done < meter.total:
                self._line(meter)

        meter = Meter(name, total, show)
        show(meter)
        yield meter
        meter.set(meter.total, meter.note)
        if bars is None:
            print(f"{name}: {meter.total:,} in {meter.seconds:.1f} s", flush=True)

    def _line(self, meter: Meter) -> None:
        with self._lines:
            now = time.monotonic()
            if now - self._last_line < LINE_EVERY_SECONDS:
                return
            self._last_line = now
        note = f" ({meter.note})" if meter.note else ""
        print(f"{meter.name}: {meter.done:,} of {meter.total:,}{note}", flush=True)

    def __enter__(self) -> Progress:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
