"""What a `Cluster` sets, so that tests with groups are quick."""

from __future__ import annotations

import time

import confluent_kafka
import pytest

from streamactors.broker import Cluster
from streamactors.broker.cluster.profile import with_profile
from streamactors.broker.config.broker_config import BrokerConfig

HEARTBEAT = "group.consumer.heartbeat.interval.ms"


def test_a_rebalance_of_a_consumer_group_takes_less_than_a_heartbeat_of_kafka() -> None:
    with Cluster() as cluster:
        cluster.create_topic("t", 4)
        properties = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "group.protocol": "consumer"}
        first = confluent_kafka.Consumer(properties)
        took: list[float] = []
        try:
            first.subscribe(["t"])
            # a machine that stops for some seconds delays one rebalance; each of them lasts 5 s where the heartbeat is Kafka's
            while len(took) < 5 and min(took, default=4) >= 4:
                _poll_until([first], [4])
                second = confluent_kafka.Consumer(properties)
                try:
                    began = time.monotonic()
                    second.subscribe(["t"])
                    _poll_until([first, second], [2, 2])
                    took.append(time.monotonic() - began)
                finally:
                    second.close()
        finally:
            first.close()
    assert min(took) < 4, took  # the first member hears of it with its next heartbeat: 5 s by default


def _poll_until(consumers: list[confluent_kafka.Consumer], counts: list[int]) -> None:
    give_up = time.monotonic() + 60
    while [len(each.assignment()) for each in consumers] != counts:
        assert time.monotonic() < give_up
        for each in consumers:
            each.poll(0.05)


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_given_interval_is_valid_whatever_the_profile_says(kind: str) -> None:
    for name, value in [
        ("min.heartbeat.interval.ms", 5_000),
        ("max.assignment.interval.ms", 2_000),
        ("heartbeat.interval.ms", 6_000),
    ]:
        given = {f"group.{kind}.{name}": value}
        BrokerConfig.of(with_profile(given, virtual=False))
    assert BrokerConfig.of(with_profile({}, virtual=False)).group_consumer_heartbeat_interval_ms == 200
