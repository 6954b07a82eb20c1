"""Fixtures: a broker for the session, a topic for each test, and a cluster of several brokers for a module.

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


@pytest.fixture(scope="module")
def _kafka_clusters() -> Iterator[dict[int, Cluster]]:
    """The clusters of a module, by their number of brokers."""
    clusters: dict[int, Cluster] = {}
    yield clusters
    for cluster in clusters.values():
        cluster.close()


@pytest.fixture
def kafka_cluster(_kafka_clusters: dict[int, Cluster], request: pytest.FixtureRequest) -> Cluster:
    """Three brokers, one process each, which a test may kill, pause and cut off; the module's tests share them, and each test finds them
    whole and without topics. For another number: `@pytest.mark.kafka_cluster(5)`."""
    marker = request.node.get_closest_marker("kafka_cluster")
    brokers = 3 if marker is None else _brokers(marker)
    if brokers in _kafka_clusters:
        _kafka_clusters[brokers].reset()
    else:
        from streamactors.broker import Cluster

        _kafka_clusters[brokers] = Cluster(brokers=brokers).start()
    return _kafka_clusters[brokers]


def _brokers(marker: pytest.Mark) -> int:
    def asked_for(brokers: int = 3) -> int:
        return brokers

    try:
        asked = asked_for(*marker.args, **marker.kwargs)
    except TypeError as error:
        wrong = str(error).partition("asked_for() ")[2]
        pytest.fail(f"@pytest.mark.kafka_cluster {wrong}; its form is kafka_cluster(brokers=3)", pytrace=False)
    if not isinstance(asked, int) or asked < 2:
        pytest.fail(f"@pytest.mark.kafka_cluster({asked!r}): a cluster has 2 to 9 brokers", pytrace=False)
    return asked


def _partitions(marker: pytest.Mark) -> int:
    def asked_for(partitions: int = 1) -> int:
        return partitions

    try:
        return asked_for(*marker.args, **marker.kwargs)
    except TypeError as error:
        wrong = str(error).partition("asked_for() ")[2]
        pytest.fail(f"@pytest.mark.kafka_topic {wrong}; its form is kafka_topic(partitions=3)", pytrace=False)
