"""Apache Kafka with what the connector's tests ask of a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import confluent_kafka.admin

from streamactors.broker.wire_request import create_topic
from tests.differential.apache_kafka.broker import ApacheKafka

KNOWN_WITHIN_S = 60


def await_partitions(address: str, topic: str, count: int) -> None:
    """Wait until a broker knows so many partitions of a topic, each with a leader. A producer that asked earlier would refuse records for the others."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
    give_up = time.monotonic() + KNOWN_WITHIN_S
    while time.monotonic() < give_up:
        found = admin.list_topics(timeout=KNOWN_WITHIN_S).topics.get(topic)
        if found is not None and sum(each.leader >= 0 for each in found.partitions.values()) >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"{address} does not know {count} partitions of {topic} after {KNOWN_WITHIN_S} s")


class ApacheCluster:
    """One broker, as tests know it from `Cluster`."""

    def __init__(self, address: str) -> None:
        self.bootstrap_servers = address

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        """Create a topic and wait for it: the controller answers before the broker knows the topic."""
        create_topic(self.bootstrap_servers, name, partitions, {k: str(v) for k, v in (config or {}).items()})
        await_partitions(self.bootstrap_servers, name, partitions)

    def delete_topic(self, name: str) -> None:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.delete_topics([name])[name].result(30)


def as_a_cluster(folder: Path, config: Mapping[str, str]) -> Iterator[ApacheCluster]:
    """Start a broker, yield it, and stop it."""
    kafka = ApacheKafka(
        folder,
        settings={
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "500",
            # the tests' rows are of 1970: the first look at retention, 30 s after the start, would delete them under a run
            "log.retention.ms": "-1",
            **config,
        },
    )
    kafka.start()
    try:
        yield ApacheCluster(kafka.address)
    finally:
        kafka.stop()
