"""A system of its own for each test of worker processes, whose processes end with their streams."""

from __future__ import annotations

import contextlib
import os
import select
from pathlib import Path

import pytest

from streamactors.actors.system import ActorSystem


@pytest.fixture
def system():
    before = children()  # of other tests: Spark's JVM lives as long as this process
    with ActorSystem("with workers") as system:
        yield system
        for pid in children() - before:
            ends_by_itself(pid)
    assert not children() - before, "a worker process has outlived its system"


def children() -> set[int]:
    """The ids of the processes that this process has started and not reaped."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(
            FileNotFoundError, ProcessLookupError
        ):  # a thread that ended in between has no children
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def ends_by_itself(pid: int) -> None:
    """Wait until a process has ended."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([watch], [], [], 4)[0], "a worker process runs on, though its stream has ended"
    finally:
        os.close(watch)
