"""confluent-kafka-go's integration tests against this broker: librdkafka 2.11's producer, consumer, transactions and admin client."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.compat.go_modules import go_source, go_tests, outcomes
from tests.compat.support import allowed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(1200)]

VERSION = "v2.11.1"
SETTINGS = {"num.partitions": 4, "group.initial.rebalance.delay.ms": 0}
CONFIGURATION = {"Brokers": "$KAFKA_BROKER", "TopicName": "test", "GroupID": "test", "Config": ["log_level=3"]}


def without_docker(source: Path) -> None:
    """Take out what starts containers, and name the broker as the suite wants it."""
    suite = source / "kafka" / "integration_test.go"
    text = suite.read_text()
    for pattern in (
        r'\t"github\.com/testcontainers/\S+"\n',
        r"\tcompose \*compose\.\w+\n",
        r"\tif testconf\.DockerNeeded && its\.compose != nil \{\n.*?\n\t\}\n",
        r"\tif testconf\.DockerNeeded && !testconf\.DockerExists \{\n.*?\n\t\}\n",
    ):
        text, times = re.subn(pattern, "", text, flags=re.DOTALL)
        assert times == 1, pattern
    suite.write_text(text)
    (source / "kafka" / "testconf.json").write_text(json.dumps(CONFIGURATION))


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    source = go_source("github.com/confluentinc/confluent-kafka-go/v2", VERSION, without_docker)
    program = go_tests(source, "./kafka")
    only = "|".join(sorted({f"^{name.partition('/')[0]}$" for name in allowed("confluent_kafka_go")}))
    with Cluster(process=True, config=SETTINGS) as cluster:
        env = {"KAFKA_BROKER": cluster.bootstrap_servers}
        found, told = outcomes(program, source / "kafka", f"-test.run={only}", env=env, timeout_s=600)
    assert found, told[-3000:]
    return found


@pytest.mark.parametrize("name", allowed("confluent_kafka_go"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "PASS"
