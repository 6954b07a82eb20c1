"""Fixtures that give a test a broker and a topic of its own.

Owner: the pytest plugin. Nothing of the broker is imported before a test asks for one.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streamactors.broker import Cluster


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Cluster]:
    """A Kafka-compatible broker for the whole test session; `kafka_broker.bootstrap_servers` is its address."""
    from streamactors.broker import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(kafka_broker: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a fresh topic with one partition, deleted after the test. Other counts: `@pytest.mark.kafka_topic(3)`."""
    marker = request.node.get_closest_marker("kafka_topic")
    partitions = marker.args[0] if marker is not None and marker.args else 1
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name).strip("-")[:100]
    name = f"{readable}-{uuid.uuid4().hex[:8]}"
    kafka_broker.create_topic(name, partitions)
    yield name
    kafka_broker.delete_topic(name)
