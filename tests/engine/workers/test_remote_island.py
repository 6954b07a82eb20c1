"""The parent's side of an island in a worker process, without a process: what it makes of frames and of the process's end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streamactors.actors.workers.frames import Frame
from streamactors.engine.workers.remote_island import RemoteIsland
from streamactors.engine.workers.wire import FAILURE, described


class Half:
    """Keeps what is posted to it."""

    window = SimpleNamespace(size=16)
    on_failed, on_cancelled = "failed", "cancelled"

    def __init__(self) -> None:
        self.posted: list[tuple[str, Any]] = []

    def post(self, handler: Any, argument: Any) -> None:
        self.posted.append((handler, argument))


def test_a_worker_that_dies_right_behind_its_failure_cancels_upstream() -> None:
    # its next frame would have said so; upstream waited forever
    remote = RemoteIsland(b"", "divide", None, "", exact=True)
    upstream, downstream = Half(), Half()
    remote.connect(upstream, downstream)
    remote._on_frames([Frame(FAILURE, 0, 0, memoryview(described(ZeroDivisionError("by 0"))))])
    ((what, error),) = downstream.posted
    assert what == "failed"
    assert isinstance(error, ZeroDivisionError)
    remote._on_gone(1, "was killed by signal 9 (SIGKILL)")
    assert upstream.posted == [("cancelled", error)]
