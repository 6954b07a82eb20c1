"""The console's lines come from several threads."""

from __future__ import annotations

import io
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
from streamactors.tracing.setup import WholeLines


class Slow(io.StringIO):
    """Notes that it was called while another call ran."""

    def __init__(self) -> None:
        super().__init__()
        self._running = 0
        self.met = False

    def write(self, text: str) -> int:
        self._running += 1
        self.met = self.met or self._running > 1
        time.sleep(0.001)
        self._running -= 1
        return super().write(text)


def test_a_line_is_written_after_the_one_before() -> None:
    # One of a hundred spans was missing: Python's text stream drops what is written while another thread flushes it.
    out = Slow()
    lines = WholeLines(out)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: lines.write(f"{n}\n"), range(100)))
    assert not out.met
    assert sorted(map(int, out.getvalue().split())) == list(range(100))
