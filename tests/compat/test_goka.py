"""Goka's system tests against this broker: stream processors in Go, over Sarama, with tables that are compacted topics.

Recovery of tables, hot standbys, rebalances, redelivery of what was not committed, connections that break."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.compat.go_modules import go_source, go_tests, outcomes
from tests.compat.support import allowed

pytestmark = [
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    # TestTopicManager_v11 speaks the protocol of Kafka 1.1
    pytest.mark.expects_log("it sent DescribeConfigs v0,"),
]

VERSION = "v1.1.14"


def one_replica(source: Path) -> None:
    """Goka makes its topics with two replicas unless it is told otherwise; there is one broker."""
    file = source / "topic_manager.go"
    text, changed = re.subn(r"(cfg\.(Table|Stream)\.Replication) = 2", r"\1 = 1", file.read_text())
    assert changed == 2, changed
    file.write_text(text)


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    source = go_source("github.com/lovoo/goka", VERSION, one_replica)
    program = go_tests(source, "./systemtest")
    only = "|".join(sorted({f"^{name.partition('/')[0]}$" for name in allowed("goka")}))
    with Cluster(process=True, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        env = {"GOKA_SYSTEMTEST": "1", "GOKA_SYSTEMTEST_BROKERS": cluster.bootstrap_servers}
        found, told = outcomes(program, source / "systemtest", f"-test.run={only}", env=env, timeout_s=600)
    assert found, told[-3000:]
    return found


@pytest.mark.parametrize("name", allowed("goka"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "PASS"
