"""pytest plugin of streamactors: fixtures that a user's tests get by installing the package.

It is loaded by every pytest run on the machine, so it imports nothing of the package that a test has not asked for.
"""

from __future__ import annotations

import pytest

from streamactors.testing.kafka_fixtures import kafka_broker, kafka_topic
from streamactors.testing.stream_fixtures import actor_system, virtual_clock

__all__ = ["actor_system", "kafka_broker", "kafka_topic", "virtual_clock"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kafka_topic(partitions): partitions of the kafka_topic fixture's topic")
