"""A flush pool whose thread is the test: nothing is flushed before `run`."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.broker.log.flusher import Flushed, FlushPool, deliver_here

NOW_MS = 1_700_000_000_000


class ManualPool(FlushPool):
    """Jobs wait until `run`; outcomes are delivered on the test's thread."""

    def __init__(self, deliver: Callable[[list[Flushed]], None] = deliver_here, gathering: float = 0.0) -> None:
        super().__init__(lambda: NOW_MS, deliver, gathering=gathering)
        self.jobs: list[Callable[[], None]] = []

    def submit(self, job: Callable[[], None]) -> None:
        self.jobs.append(job)

    def run(self) -> int:
        """Run all jobs, and those that they submit; return how many there were."""
        count = 0
        while self.jobs:
            self.jobs.pop(0)()
            count += 1
        return count
