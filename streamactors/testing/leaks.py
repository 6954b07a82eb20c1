"""assert_all_stages_stopped: every stream that a block starts must end with the block."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamactors.clock import VirtualClock
from streamactors.durations import Duration, duration_s
from streamactors.engine.island.run import Run, all_runs
from streamactors.engine.snapshot import snapshot_of

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem


@contextmanager
def assert_all_stages_stopped(system: ActorSystem | None = None, timeout: Duration = "3s") -> Iterator[None]:
    """Raise AssertionError, with a picture of each graph, when a stream of the block still runs `timeout` (seconds, a timedelta
    or a string) after it.

    Checks the streams of all systems, or of `system` only. `timeout` is real time; a system with a virtual clock also runs
    its due work. An error of the block itself is raised unchanged."""
    before = set(_runs(system))
    yield
    until = time.monotonic() + duration_s(timeout, "timeout")
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
