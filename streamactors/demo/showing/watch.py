"""Samples a running consumer a few times a second: its progress, its buffers, its paused partitions.

The samples become the picture of demand, buffers and pauses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from streamactors.demo.showing.progress import Meter
from streamactors.kafka import Control

EVERY_SECONDS: Final = 0.1


@contextmanager
def watched(
    control: Control,
    meter: Meter,
    samples: Path,
    beside: Callable[[], dict[str, Any]] | None = None,
    cells: Callable[[dict[str, Any]], dict[str, str]] | None = None,
) -> Iterator[None]:
    """Move `meter` by how many records were delivered, and append what the consumer looks like to `samples` (JSON lines), while the
    block runs. `beside()`: more to be told in each sample. `cells(told)`: more to be shown beside the numbers, of what
    `beside()` has told."""
    stop = threading.Event()

    def look() -> dict[str, Any] | None:
        try:
            snapshot = control.snapshot(timeout=5.0)
        except TimeoutError:
            return None
        partitions = snapshot.get("partitions")
        if not partitions:
            return None
        told = {name: snapshot[name] for name in ("demand", "pauses", "resumes")}
        more = beside() if beside else {}  # asked once: Spark's JVM answers
        shown = {"pauses": str(told["pauses"]), **(cells(more) if cells else {})}
        meter.set(sum(max(0, p["position"] or 0) for p in partitions.values()), **shown)
        return {"at": round(time.time(), 3), **told, **more, "partitions": partitions}

    def run() -> None:
        with samples.open("a", encoding="utf-8") as out:
            while not stop.wait(EVERY_SECONDS):
                looked = look()
                if looked is not None:
                    out.write(json.dumps(looked) + "\n")

    thread = threading.Thread(target=run, name="demo-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
