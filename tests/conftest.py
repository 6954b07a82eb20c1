"""Settings of all tests, and the cleanup after each module.

Hypothesis checks results, never durations: on a shared machine any example may be delayed for a second.

`make test` tries the same examples each time, so what was green once is green in every clone. `make test-all` tries new ones
(`--hypothesis-profile=fresh`): that is where a new example may find a bug."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.core import left_out
from tests.loopback import OF_THIS_PROCESS
from tests.watch.plugin import Watch

settings.register_profile("fresh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("fresh"), derandomize=True)
settings.load_profile("repeatable")

THREADS = Path("/proc/self/task")
"""The place where Linux lists the names of a process's threads; other systems have no such list."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--watch-report", metavar="FILE", help="what the watch finds goes into FILE, a line per test, and fails nothing"
    )
    parser.addoption("--core", action="store_true", help="leave out what tests/not_core.txt lists, as make core does")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--core") and collection_path in left_out() else None


def pytest_configure(config: pytest.Config) -> None:
    report = config.getoption("--watch-report")
    config.pluginmanager.register(Watch(Path(report) if report else None), "watch")
    # make test & in a shell's script -> SIGINT is ignored, also by every process that a test starts in order to interrupt it
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of a file run in one process and share its broker. All tests that need Spark run in one process and share its JVM."""
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            of_spark = nodeid.startswith(("tests/spark/", "tests/docs/test_docs_run"))
            return "spark" if of_spark else str(super()._split_scope(nodeid))

    return OneSpark(config, log)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the seed of the order; pytest-randomly is silent under -q."""
    seed = getattr(config.option, "randomly_seed", None)
    if seed is not None and config.pluginmanager.hasplugin("randomly"):
        terminalreporter.write_line(f"tests ran in random order; the same order again: pytest --randomly-seed={seed}")


@pytest.fixture(autouse=True, scope="session")
def brokers_have_an_address_of_this_process() -> None:
    """See `tests/loopback.py`."""
    from streamactors.broker import Cluster

    Cluster.default_listen = f"{OF_THIS_PROCESS}:0"


@pytest.fixture(autouse=True, scope="module")
def forgotten_clients_end_with_their_module() -> Iterator[None]:
    """Collect producers that a test has dropped in a reference cycle. They would call their stopped broker, and log it, for the rest of the run."""
    before = running_clients()
    yield
    if running_clients() > before:
        gc.collect()


def running_clients() -> int:
    """Return the number of librdkafka clients in this process; each has one thread of this name."""
    return sum(_name(thread) == "rdk:main" for thread in THREADS.glob("*/comm"))


def _name(thread: Path) -> str:
    try:
        return thread.read_text().strip()
    except OSError:
        return ""  # it has ended since it was listed
