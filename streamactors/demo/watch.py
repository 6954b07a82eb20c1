"""Look at a running consumer a few times a second: how far it is, what waits where, which partitions are paused.

The samples become the picture of demand, buffers and pauses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from streamactors.demo.progress import Meter
from streamactors.kafka import Control

EVERY_SECONDS: Final = 0.05


@contextmanager
def watched(
    control: Control,
    meter: Meter,
    samples: Path,
    done: Callable[[dict[str, Any]], int] | None = None,
) -> Iterator[None]:
    """Move `meter` by where the consumer is, and append what it looks like to `samples` (JSON lines), while the block runs.

    `done(snapshot)`: how many records count as done; default: those that were delivered since the start of the topic."""
    stop = threading.Event()

    def look(out: Any) -> None:
        try:
            snapshot = control.snapshot(timeout=5.0)
        except TimeoutError:
            return
        partitions = snapshot.get("partitions", {})
        if not partitions:
            return
        pauses = snapshot["pauses"]
        position = done(snapshot) if done is not None else sum(max(0, p["position"] or 0) for p in partitions.values())
        meter.set(position, f"{pauses} pauses" if pauses else "")
        out.write(
            json.dumps(
                {
                    "at": round(time.time(), 3),
                    "demand": snapshot["demand"],
                    "pauses": pauses,
                    "resumes": snapshot["resumes"],
                    "partitions": partitions,
                }
            )
            + "\n"
        )

    def run() -> None:
        with samples.open("a", encoding="utf-8") as out:
            while not stop.wait(EVERY_SECONDS):
                look(out)

    thread = threading.Thread(target=run, name="demo-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
