"""Sarama's functional tests against one broker and against five, without the proxies and containers that they bring along."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.compat.go_modules import go_source, go_tests, outcomes
from tests.compat.support import allowed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(1200)]

VERSION = "v1.61.1"
SETTINGS = {"num.partitions": 1, "group.initial.rebalance.delay.ms": 0}


# a topic has as many replicas as the test asks for, at most one on each broker
REPLICAS = """
func replicas(wanted int) int16 {
	return int16(min(wanted, strings.Count(os.Getenv("BROKERS"), ",")+1))
}
"""


def without_proxies(source: Path) -> None:
    """The five proxied brokers become those that are told in BROKERS."""
    for path in source.glob("functional_*.go"):
        path.write_text(re.sub(r"ReplicationFactor: +([23])\b", r"ReplicationFactor: replicas(\1)", path.read_text()))
    harness = source / "functional_test.go"
    text = harness.read_text()
    for head, body in (
        (
            "func setupToxiProxies(env *testEnvironment, endpoint string) error {",
            'env.KafkaBrokerAddrs = strings.Split(os.Getenv("BROKERS"), ",")\n\treturn nil',
        ),
        ("func resetProxies(t testing.TB) {", ""),
    ):
        assert head in text
        start = text.index(head) + len(head)
        text = f"{text[:start]}\n\t{body}{text[text.index(chr(10) + '}', start) :]}"
    harness.write_text(text + REPLICAS)


def run_at(bootstrap_servers: str, names: Sequence[str]) -> dict[str, str]:
    """Run tests of the suite; return test -> PASS, FAIL or SKIP."""
    source = go_source("github.com/IBM/sarama", VERSION, without_proxies)
    program = go_tests(source, tags="functional")
    only = "|".join(f"^{name}$" for name in names)
    # with TOXIPROXY_ADDR the suite starts no brokers
    env = {"TOXIPROXY_ADDR": "http://127.0.0.1", "BROKERS": bootstrap_servers, "KAFKA_VERSION": "4.1.1"}
    found, told = outcomes(program, source, f"-test.run={only}", env=env, timeout_s=600)
    assert found, told[-3000:]
    return found


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    with Cluster(process=True, config=SETTINGS, listen="127.0.0.1:0") as cluster:
        return run_at(cluster.bootstrap_servers, allowed("sarama"))


@pytest.mark.parametrize("name", allowed("sarama"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "PASS"


@pytest.fixture(scope="module")
def at_five() -> dict[str, str]:
    with Cluster(brokers=5, config=SETTINGS) as cluster:
        return run_at(cluster.bootstrap_servers, allowed("sarama_five_nodes"))


@pytest.mark.parametrize("name", allowed("sarama_five_nodes"))
def test_passes_at_five_brokers(at_five: dict[str, str], name: str) -> None:
    assert at_five.get(name) == "PASS"
