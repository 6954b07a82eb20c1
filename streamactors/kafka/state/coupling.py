"""Couples the two halves of a run around a topic: one half writes the topic, the other reads it, and both end together."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.stages.control.kill_switch import KillSwitch


def couple(
    writing: KillSwitch,
    written: StreamFuture[None],
    stop_reading: Callable[[], None],
    reading: KillSwitch,
    read: StreamFuture[Any],
) -> None:
    """Call `stop_reading` when the writing half has completed. A failure of one half aborts the other; the end of the reading half ends the
    writing half."""

    def on_written(future: Future[None]) -> None:
        error = future.exception()
        if error is None:
            stop_reading()
        else:
            reading.abort(error)

    def on_read(future: Future[Any]) -> None:
        error = future.exception()
        if error is None:
            writing.shutdown()
        else:
            writing.abort(error)

    written.add_done_callback(on_written)
    read.add_done_callback(on_read)
