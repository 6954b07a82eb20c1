"""Settings of all tests, and what is cleared away behind each module.

Hypothesis judges results, never times: a shared machine may hold any example up for a second."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

THREADS = Path("/proc/self/task")
"""Where the kernel tells the names of a process's threads; other systems have nothing like it."""


def pytest_configure() -> None:
    # make test & in a shell's script -> SIGINT is ignored, also by every process that a test starts in order to interrupt it
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests run in one process, where they share its broker, and all that need Spark in one, where they share its JVM."""
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith(("tests/spark/", "tests/docs/")) else str(super()._split_scope(nodeid))

    return OneSpark(config, log)


@pytest.fixture(autouse=True, scope="module")
def forgotten_clients_end_with_their_module() -> Iterator[None]:
    """A producer that a test has dropped in a cycle of references calls its broker, long gone, and says so for the rest of the run."""
    before = running_clients()
    yield
    if running_clients() > before:
        gc.collect()


def running_clients() -> int:
    """Return how many clients of librdkafka this process has; each has one thread of this name."""
    return sum(_name(thread) == "rdk:main" for thread in THREADS.glob("*/comm"))


def _name(thread: Path) -> str:
    try:
        return thread.read_text().strip()
    except OSError:
        return ""  # it has ended since it was listed
