"""rskafka's own integration tests against this broker: a Rust client with a protocol implementation of its own, checked
against librdkafka in both directions and in every codec."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.compat.rust_crates import crate_source, crate_tests, newer, outcomes
from tests.compat.support import allowed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(2400)]  # the first run builds 200 crates

VERSION = "0.6.0"
# what the suite asks of a broker
SETTINGS = {"auto.create.topics.enable": "false"}
PROGRAMS = ("client", "consumer", "produce_consume", "producer")


def for_this_compiler(source: Path) -> None:
    """The pinned compiler need not be here, and the pinned rsasl does not compile with newer ones."""
    (source / "rust-toolchain.toml").unlink()
    newer(source, "rsasl", "2.3.1")


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    source = crate_source("rskafka", VERSION, for_this_compiler)
    found: dict[str, str] = {}
    with Cluster(process=True, config=SETTINGS) as cluster:
        env = {"TEST_INTEGRATION": "1", "KAFKA_CONNECT": cluster.bootstrap_servers, "TEST_BROKER_IMPL": "kafka"}
        for program in crate_tests(source, *PROGRAMS):
            passed, told = outcomes(program, source, env=env, timeout_s=300)
            assert passed, told[-3000:]
            found |= passed
    return found


@pytest.mark.parametrize("name", allowed("rskafka"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "ok"
