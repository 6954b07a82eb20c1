"""Sarama's functional tests against this broker, without the proxies and containers that they bring along."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.compat.go_modules import go_source, go_tests, outcomes
from tests.compat.support import allowed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(1200)]

VERSION = "v1.61.1"
SETTINGS = {"num.partitions": 1, "group.initial.rebalance.delay.ms": 0}


def for_one_broker(source: Path) -> None:
    """Three replicas become one, and the five proxied brokers the one that is told in TOXIPROXY_ADDR."""
    for path in source.glob("functional_*.go"):
        path.write_text(re.sub(r"ReplicationFactor: +[23]\b", "ReplicationFactor: 1", path.read_text()))
    harness = source / "functional_test.go"
    text = harness.read_text()
    for head, body in (
        (
            "func setupToxiProxies(env *testEnvironment, endpoint string) error {",
            'env.KafkaBrokerAddrs = []string{strings.TrimPrefix(endpoint, "http://")}\n\treturn nil',
        ),
        ("func resetProxies(t testing.TB) {", ""),
    ):
        assert head in text
        start = text.index(head) + len(head)
        text = f"{text[:start]}\n\t{body}{text[text.index(chr(10) + '}', start) :]}"
    harness.write_text(text)


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    source = go_source("github.com/IBM/sarama", VERSION, for_one_broker)
    program = go_tests(source, tags="functional")
    only = "|".join(f"^{name}$" for name in allowed("sarama"))
    with Cluster(process=True, config=SETTINGS, advertise="127.0.0.1:0") as cluster:
        env = {"TOXIPROXY_ADDR": f"http://{cluster.bootstrap_servers}", "KAFKA_VERSION": "4.1.1"}
        found, told = outcomes(program, source, f"-test.run={only}", env=env, timeout_s=600)
    assert found, told[-3000:]
    return found


@pytest.mark.parametrize("name", allowed("sarama"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "PASS"
