"""Progress of a command that lasts: one line below its output, on a terminal only.

With a known total it is a bar with the rate and the time left, else a spinner with the number done and the rate. In a pipe, with --json and on a dumb terminal
nothing is shown. The line appears after DELAY_S, and it is gone when the command ends, however it ends. Whatever is printed or logged meanwhile comes above it.

Owner: one command. Counting costs an addition; a thread draws the line a few times a second."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

DELAY_S: Final = 0.5
"""A command that ends sooner shows nothing."""
REFRESHES_A_SECOND: Final = 4
RATE_S: Final = 5.0
"""A rate is that of the last so many seconds."""
_SAMPLE_S: Final = 0.2


class Count:
    """How much is done of what; any thread may read it. `unit` may be "bytes"."""

    def __init__(self, what: str, total: int | None = None, unit: str = "records") -> None:
        self.what = what
        self.total = total
        self.done = 0
        self.unit = unit
        self.note: Callable[[], str] = str
        """Returns what is shown beside the numbers."""
        self.write: Callable[[str], object] = _to_stdout
        """Writes whole lines of the command's output, above the progress line if that is shown."""
        self._began = time.monotonic()
        self._samples: deque[tuple[float, int]] = deque([(self._began, 0)])

    def add(self, count: int = 1) -> None:
        """Count what was done."""
        self.done += count

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def rate(self) -> float:
        """Return how much is done a second, of late. Each call takes a sample."""
        now, done = time.monotonic(), self.done
        samples = self._samples
        while len(samples) > 1 and samples[1][0] <= now - RATE_S:
            samples.popleft()
        then, before = samples[0]
        if now - samples[-1][0] >= _SAMPLE_S:
            samples.append((now, done))
        return max(0.0, (done - before) / max(now - then, 1e-3))

    def seconds_left(self, rate: float) -> float | None:
        """Return how long the rest takes at this rate; None if that is not known."""
        return None if self.total is None or rate <= 0 else max(0, self.total - self.done) / rate


@contextmanager
def progress(
    what: str, total: int | None = None, unit: str = "records", *, quiet: bool = False, beside_stdout: bool = False
) -> Iterator[Count]:
    """Show how far the block is. `quiet`: do not, as with --json. `beside_stdout`: also if stdout is no terminal, for output that is not the command's."""
    count = Count(what, total, unit)
    if quiet or not on_terminal(beside_stdout):
        yield count
        return
    with live_line(lambda: drawn(count)) as console:
        if sys.stdout.isatty():
            count.write = partial(_above, console)
        yield count


def _to_stdout(lines: str) -> None:
    sys.stdout.write(lines)
    sys.stdout.flush()


def _above(console: Console, lines: str) -> None:
    """Write lines as they are. What is printed instead is parsed for colours and wrapped, which needs 0.1 ms a line."""
    from rich.segment import Segment, Segments

    console.print(Segments([Segment(lines)]), end="", crop=False)


def on_terminal(beside_stdout: bool = False) -> bool:
    """True if a person sees what is drawn on stderr."""
    streams = (sys.stderr,) if beside_stdout else (sys.stdout, sys.stderr)
    return all(stream.isatty() for stream in streams) and os.environ.get("TERM") != "dumb"


@contextmanager
def live_line(draw: Callable[[], RenderableType], delay_s: float = DELAY_S) -> Iterator[Console]:
    """Show on stderr, below what the block prints and logs, what `draw` returns, again and again."""
    from rich.console import Console
    from rich.live import Live

    class Drawing:
        def __rich__(self) -> RenderableType:
            return draw()

    console = Console(stderr=True)
    live = Live(
        Drawing(),
        console=console,
        refresh_per_second=REFRESHES_A_SECOND,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )
    shown = _Shown(live)
    timer = threading.Timer(delay_s, shown.start)
    timer.daemon = True
    timer.start()
    try:
        yield console
    finally:
        timer.cancel()
        shown.stop()


class _Shown:
    """Starts and stops the drawing: the start comes from the timer, the stop from the command, perhaps first."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._lock = threading.Lock()
        self._over = False
        self._handlers: list[tuple[logging.StreamHandler[Any], Any]] = []

    def start(self) -> None:
        with self._lock:
            if self._over:
                return
            streams = (sys.stdout, sys.stderr)
            self._live.start()
            self._live.console.show_cursor(True)  # a signal may end the process before it could be shown again
            for handler in _stream_handlers():
                if handler.stream in streams:
                    self._handlers.append((handler, handler.setStream(sys.stderr)))

    def stop(self) -> None:
        with self._lock:
            self._over = True
            for handler, stream in self._handlers:
                handler.setStream(stream)
            self._live.stop()


def _stream_handlers() -> list[logging.StreamHandler[Any]]:
    """Return the handlers of all loggers that write to a stream: they have kept the stream that was there when they were made."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    every = {handler for logger in loggers for handler in getattr(logger, "handlers", ())}
    return [each for each in every if isinstance(each, logging.StreamHandler)]


def drawn(count: Count) -> RenderableType:
    """Return the line."""
    from rich.progress_bar import ProgressBar
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    row = Table.grid(padding=(0, 1))
    known = count.total is not None
    bar = ProgressBar(count.total or 1, min(count.done, count.total or 1), width=30) if known else _spinner(Spinner)
    row.add_row(Text(count.what), bar, Text(numbers(count), style="cyan"), Text(count.note(), style="dim"))
    return row


_spinners: list[Any] = []


def _spinner(kind: Any) -> Any:
    """Return the one spinner: a new one would always show its first picture."""
    if not _spinners:
        _spinners.append(kind("dots"))
    return _spinners[0]


def numbers(count: Count) -> str:
    """Return how much is done, of how much, how fast, and how long the rest takes."""
    rate = count.rate()
    left_s = count.seconds_left(rate)
    of = "" if count.total is None else f" of {amount(count.total, count.unit)}"
    unit = "" if count.unit == "bytes" else f" {count.unit}"
    done = f"{amount(count.done, count.unit)}{of}{unit}" if count.done or count.total is not None else ""
    speed = f"{amount(rate, count.unit)}/s" if count.done else ""
    time_ = clock(count.seconds) if left_s is None else f"{clock(left_s)} left"
    return ", ".join(part for part in (done, speed, time_) if part)


def amount(value: float, unit: str = "records") -> str:
    """Return a number with separators, bytes in MB."""
    return f"{value / 1e6:,.1f} MB" if unit == "bytes" else f"{value:,.0f}"


def clock(seconds: float) -> str:
    """Return a span of time as h:mm:ss or m:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
