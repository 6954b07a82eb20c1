"""franz-go's own tests against this broker: producers, consumers, groups and transactions, records checked one by one."""

from __future__ import annotations

import pytest

from streamactors.broker import Cluster
from tests.compat.go_modules import go_source, go_tests, outcomes
from tests.compat.support import allowed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(1200)]

VERSION = "v1.22.2"
SETTINGS = {"num.partitions": 4, "group.initial.rebalance.delay.ms": 0}
RECORDS = 20_000  # the suite's default is 500,000, through each kind of group and of transaction


def run_at(bootstrap_servers: str, replicas: int) -> dict[str, str]:
    """Run the suite; return test -> PASS, FAIL or SKIP."""
    source = go_source("github.com/twmb/franz-go", VERSION)
    program = go_tests(source, "./pkg/kgo")
    only = "|".join(sorted({f"^{name.partition('/')[0]}$" for name in allowed("franz_go")}))
    env = {
        "KGO_SEEDS": bootstrap_servers,
        "KGO_TEST_RF": str(replicas),
        "KGO_TEST_RECORDS": str(RECORDS),
        "KGO_LOG_LEVEL": "none",
    }
    found, told = outcomes(program, source / "pkg" / "kgo", f"-test.run={only}", env=env, timeout_s=900)
    assert found, told[-3000:]
    return found


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    with Cluster(process=True, config=SETTINGS) as cluster:
        return run_at(cluster.bootstrap_servers, replicas=1)


@pytest.mark.parametrize("name", allowed("franz_go"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "PASS"


@pytest.fixture(scope="module")
def at_three() -> dict[str, str]:
    with Cluster(brokers=3, config=SETTINGS) as cluster:
        return run_at(cluster.bootstrap_servers, replicas=3)


@pytest.mark.parametrize("name", allowed("franz_go"))
def test_passes_at_three_brokers(at_three: dict[str, str], name: str) -> None:
    assert at_three.get(name) == "PASS"
