"""Fixtures: a broker for the session, a topic for each test.

Owner: the pytest plugin. The broker is imported when the first test uses it."""

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
    partitions = 1 if marker is None else _partitions(marker)
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name).strip("-")[:100]
    name = f"{readable}-{uuid.uuid4().hex[:8]}"
    kafka_broker.create_topic(name, partitions)
    yield name
    kafka_broker.delete_topic(name)


def _partitions(marker: pytest.Mark) -> int:
    def told(partitions: int = 1) -> int:
        return partitions

    try:
        return told(*marker.args, **marker.kwargs)
    except TypeError as error:
        wrong = str(error).partition("told() ")[2]
        pytest.fail(f"@pytest.mark.kafka_topic {wrong}; its form is kafka_topic(partitions=3)", pytrace=False)
