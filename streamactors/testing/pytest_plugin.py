"""pytest plugin of streamactors: its fixtures are available wherever the package is installed.

Every pytest run of the environment loads it, so it imports the package only when a test uses a fixture.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from streamactors.testing.kafka_fixtures import _kafka_clusters, kafka_broker, kafka_cluster, kafka_topic

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.clock import VirtualClock

PROBE_TIMEOUT = "streamactors_probe_timeout"

pytest_plugins = ["streamactors.simulation.running.pytest_plugin"]
"""One entry point registers both: the marker `simulate` and the fixture `sim` are the other's."""

__all__ = ["_kafka_clusters", "actor_system", "kafka_broker", "kafka_cluster", "kafka_topic", "virtual_clock"]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    """When a test has timed out, its report says what each running stream waits for."""
    outcome = yield
    error = call.excinfo.value if call.excinfo is not None else None
    timed_out = isinstance(error, TimeoutError) or (error is not None and "Timeout" in str(error)[:20])
    if timed_out and "streamactors.engine.island.run" in sys.modules:
        from streamactors.testing.running_streams import running_streams

        text = running_streams()
        if text:
            outcome.get_result().sections.append(("streams that still run", text))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(PROBE_TIMEOUT, "how long a probe without a timeout waits for a signal, such as 10s; 3s without it")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kafka_topic(partitions): partitions of the kafka_topic fixture's topic")
    config.addinivalue_line("markers", "kafka_cluster(brokers): number of brokers of the kafka_cluster fixture")


@pytest.fixture(autouse=True, scope="session")
def _probe_timeout(pytestconfig: pytest.Config) -> None:
    if given := pytestconfig.getini(PROBE_TIMEOUT):
        from streamactors.testing.signals import Signals

        Signals.default_timeout = given


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock that moves only by `virtual_clock.advance("1h")`. A test that uses it gives its `actor_system` that clock, too."""
    from streamactors.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def actor_system(request: pytest.FixtureRequest) -> Iterator[ActorSystem]:
    """An actor system for one test, shut down after it; it uses the virtual clock if the test uses `virtual_clock`."""
    from streamactors.actors.system import ActorSystem

    clock = request.getfixturevalue("virtual_clock") if "virtual_clock" in request.fixturenames else None
    with ActorSystem(request.node.name, clock=clock) as system:
        yield system
