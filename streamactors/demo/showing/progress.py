"""Progress of a run: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from streamactors.cli.progress import REFRESHES_A_SECOND, Count, clock

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_EVERY_SECONDS: Final = 5.0
SAME_LINE_SECONDS: Final = 15.0
"""A line that says nothing new comes so seldom."""
SHOW_EVERY_SECONDS: Final = 0.05
CELLS: Final = ("windows", "Spark", "pauses")
"""What a step may say beside its numbers; each has a column of the table."""

Told = Callable[[str, int, int], object]
"""Called with (step, done, total) after each piece of work."""


class Meter(Count):
    """Progress of one step. `set` and `add` may be called from any thread."""

    def __init__(self, name: str, total: int, topic: str, show: Callable[[Meter], None]) -> None:
        super().__init__(name, total)
        self.name = name
        self.topic = topic
        self.size = total
        self.cells: dict[str, str] = {}
        self.over = False
        self._show = show
        self._lock = threading.Lock()
        self._shown = 0.0

    def set(self, done: int, **cells: str) -> None:
        """Set the number of records done, and what else there is to say: `CELLS`."""
        with self._lock:
            self.done = min(done, self.size)
            self.cells |= cells
            self._now_and_then()

    def add(self, count: int = 1) -> None:
        """Add to the number of records done."""
        with self._lock:
            self.done = min(self.done + count, self.size)
            self._now_and_then()

    @property
    def lag(self) -> int:
        """The number of records that are left."""
        return self.size - self.done

    def _now_and_then(self) -> None:
        now = time.monotonic()
        if now - self._shown >= SHOW_EVERY_SECONDS or self.done == self.size:
            self._shown = now
            self._show(self)

    def end(self) -> None:
        """The step is over: its rate is that of the whole step from now on."""
        self.over = True
        self.took_s = self.seconds


class Progress:
    """A context manager. On a terminal a table has a row for each step; elsewhere there is a line now and then, and one at the end of each step."""

    def __init__(self, told: Told | None = None) -> None:
        self._told = told
        self._live: Any = None
        self._meters: list[Meter] = []
        self._lines = threading.Lock()
        self._last = (0.0, "")
        if sys.stdout.isatty():
            from rich.live import Live

            meters = self._meters

            class Drawing:
                def __rich__(self) -> RenderableType:
                    return drawn(meters)

            self._live = Live(Drawing(), refresh_per_second=REFRESHES_A_SECOND)

    def say(self, text: str) -> None:
        """Print a line above the table."""
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            print(text, flush=True)

    def finish(self) -> None:
        """Stop updating the table; later lines are printed below it."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    @contextmanager
    def step(self, name: str, total: int, topic: str = "") -> Iterator[Meter]:
        """A meter for one step, from its beginning to its end. `topic`: what the step reads or writes."""

        def show(meter: Meter) -> None:
            if self._told is not None:
                self._told(name, meter.done, meter.size)
            if self._live is None and meter.done < meter.size:
                self._line(meter)

        meter = Meter(name, total, topic, show)
        self._meters.append(meter)
        show(meter)
        yield meter
        meter.set(meter.size)
        meter.end()
        if self._live is None:
            print(f"{name}: {meter.size:,} in {meter.seconds:.1f} s", flush=True)

    def _line(self, meter: Meter) -> None:
        said = ", ".join(f"{name} {text}" for name, text in meter.cells.items() if text)
        content = f"{meter.done}{said}{meter.name}"
        with self._lines:
            now = time.monotonic()
            last, before = self._last
            if now - last < (SAME_LINE_SECONDS if content == before else LINE_EVERY_SECONDS):
                return
            self._last = now, content
        speed = f", {meter.rate():,.0f}/s, lag {meter.lag:,}" if meter.done else ""
        print(f"{meter.name}: {meter.done:,} of {meter.size:,}{speed}{f', {said}' if said else ''}", flush=True)

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
            self._live.console.show_cursor(True)  # a kill on the way leaves the terminal as it was
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


def drawn(meters: list[Meter]) -> RenderableType:
    """Return the table of the steps so far."""
    from rich.box import SIMPLE_HEAD
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    if not meters:
        return Text("")
    cells = [name for name in CELLS if any(meter.cells.get(name) for meter in meters)]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("step", "topic", ""):
        table.add_column(name, no_wrap=True)
    for name in ("records", "per s", "lag", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in cells:
        table.add_column(name, no_wrap=True)
    for meter in meters:
        rate = meter.size / max(meter.took_s, 0.01) if meter.over else meter.rate()
        table.add_row(
            Text(meter.name),
            Text(meter.topic),
            ProgressBar(max(1, meter.size), meter.done if meter.size else 1, width=14),
            Text(f"{meter.done:,}/{meter.size:,}"),
            Text(f"{rate:,.0f}"),
            Text(f"{meter.lag:,}"),
            Text(clock(meter.took_s if meter.over else meter.seconds)),
            *(Text(meter.cells.get(name, "")) for name in cells),
            style="dim" if meter.over else "",
        )
    return table
