"""watermill-kafka's tests against this broker: an event library's idea of publishing and subscribing, over Sarama.

Groups, redelivery, reconnecting subscribers and many of them at once: what its own users count on."""

from __future__ import annotations

import pytest

from streamactors.broker import Cluster
from tests.compat.go_modules import go_source, go_tests, outcomes
from tests.compat.support import allowed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(1200)]

VERSION = "v3.0.6"
SETTINGS = {"num.partitions": 1, "group.initial.rebalance.delay.ms": 0}


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    source = go_source("github.com/ThreeDotsLabs/watermill-kafka/v3", VERSION)
    program = go_tests(source, "./pkg/kafka")
    only = "|".join(sorted({f"^{name.partition('/')[0]}$" for name in allowed("watermill")}))
    with Cluster(process=True, config=SETTINGS) as cluster:
        env = {"WATERMILL_TEST_KAFKA_BROKERS": cluster.bootstrap_servers}
        found, told = outcomes(program, source / "pkg" / "kafka", f"-test.run={only}", env=env, timeout_s=600)
    assert found, told[-3000:]
    return found


@pytest.mark.parametrize("name", allowed("watermill"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "PASS"
