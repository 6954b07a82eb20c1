"""Two halves of a run with a topic between them: one writes it, the other reads it, and neither outlives the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.stages.kill_switch import KillSwitch


def couple(
    writing: KillSwitch,
    written: StreamFuture[None],
    stop_reading: Callable[[], None],
    reading: KillSwitch,
    read: StreamFuture[Any],
) -> None:
    """When all is written call `stop_reading`; a failure of one half, and the end of the second, ends the other."""

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
