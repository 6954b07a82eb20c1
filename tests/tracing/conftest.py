"""A broker per module, and settings whose commits come soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamactors import ActorSystem, Source
from streamactors.broker import Cluster
from streamactors.kafka import ConsumerSettings, Producer, ProducerRecord, ProducerSettings

if TYPE_CHECKING:
    from tests.tracing.spans import Recorder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem("tracing") as system:
        yield system


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Traces every record of this test; at its end each span must have ended, and none may be an orphan."""
    from tests.tracing.spans import recorded

    yield from recorded()


@pytest.fixture
def settings(cluster: Cluster, request: pytest.FixtureRequest) -> ConsumerSettings:
    return ConsumerSettings(
        cluster.bootstrap_servers,
        group_id=request.node.name,
        auto_offset_reset="earliest",
        commit_interval_ms=50,
        poll_interval_ms=5,
        poll_timeout_ms=5,
        properties={"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300, "fetch.wait.max.ms": 50},
    )


@pytest.fixture
def producer_settings(cluster: Cluster) -> ProducerSettings:
    return ProducerSettings(cluster.bootstrap_servers)


@pytest.fixture
def send(cluster: Cluster, producer_settings: ProducerSettings) -> Callable[..., None]:
    """Write numbers as records of a new topic, by a stream, in one batch per partition: what came in two chunks may be done in two steps."""
    in_one_batch = replace(producer_settings, properties={**producer_settings.properties, "linger.ms": 300})

    def send(topic: str, n: int, partitions: int = 1) -> None:
        cluster.create_topic(topic, partitions=partitions)
        records = Source.range(0, n).map(lambda i: ProducerRecord(topic, str(i), f"k{i}", i % partitions))
        records.run_with(Producer.plain_sink(in_one_batch)).result(timeout=30)

    return send
