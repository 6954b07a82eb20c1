"""assert_all_stages_stopped: whatever a block starts must have ended with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamactors.clock import Duration, VirtualClock, duration_ms
from streamactors.engine.run import Run, all_runs
from streamactors.engine.snapshot import snapshot_of

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem


@contextmanager
def assert_all_stages_stopped(system: ActorSystem | None = None, timeout: Duration = "3s") -> Iterator[None]:
    """Raise AssertionError, with a picture of each graph, when a stream begun in the block still runs `timeout` after it.

    Streams of all systems are looked at, or of `system` only. Time is real time; under a virtual clock the system is also
    given the chance to come to rest. An error of the block itself goes on unchanged."""
    before = set(_runs(system))
    yield
    until = time.monotonic() + duration_ms(timeout) / 1000
    left = _left(system, before)
    while left and time.monotonic() < until:
        clock = left[0].system.clock
        if isinstance(clock, VirtualClock):
            clock.settle()
        time.sleep(0.001)
        left = _left(system, before)
    if left:
        pictures = "\n".join(snapshot_of(run).to_mermaid() for run in left)
        raise AssertionError(
            f"{len(left)} stream{'s' if len(left) > 1 else ''} still running after {timeout}:\n{pictures}"
        )


def _runs(system: ActorSystem | None) -> list[Run]:
    return [run for run in all_runs() if system is None or run.system is system]


def _left(system: ActorSystem | None, before: set[Run]) -> list[Run]:
    return [run for run in _runs(system) if run not in before]
