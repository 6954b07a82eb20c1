"""librdkafka's own tests against this broker, with a client that is three years older than the one we use ourselves."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import pytest

from streamactors.broker import Cluster
from tests.compat.apache_data_node import ApacheDataNode
from tests.compat.support import HERE, allowed, debian_source, must_run, run_suite
from tests.differential.apache_kafka import broker as apache_kafka

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(1800)]

VERSION = "2.0.2"
# 0118 polls its first member no more, so both must be in the first generation
SETTINGS = {"num.partitions": 4, "group.initial.rebalance.delay.ms": 100}
# these deny rights to users, and the clients log in as nobody
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
}
# Producers of these tests have a million requests in flight and are not idempotent: when followers fall behind and some batches are refused with
# NOT_ENOUGH_REPLICAS, the repeated ones come after their successors, and 0041 finds its records out of order. A Cluster of three asks for two
# replicas in sync, Apache Kafka's default is one.
ONE_IN_SYNC = {"min.insync.replicas": 1}
# the runner calls abort() at its end if a test has failed, and the shell has an exit code for that
ABORTED = 128 + signal.SIGABRT
# these ask for three replicas of what they create; with one broker they get one
THREE_REPLICAS = ("0103-transactions.c", "0107-topic_recreate.c")


class Brokers(Protocol):
    """The brokers that serve the tests."""

    @property
    def bootstrap_servers(self) -> str: ...


def build() -> Path:
    """Return the folder of the built test runner."""
    source = debian_source("librdkafka", VERSION)
    tests = source / "tests"
    if not (tests / "test-runner").exists():
        for name in THREE_REPLICAS:
            text = (tests / name).read_text()
            (tests / name).write_text(
                re.sub(r"(test_create_topic\([^;]*), 3\);", r'\1, atoi(getenv("REPLICAS")));', text)
            )
        without = ("--disable-sasl", "--disable-gssapi", "--disable-curl", "--disable-zstd")
        must_run(["./configure", *without], folder=source)
        must_run(["make", "-j2", "libs"], folder=source, timeout_s=1200)
        must_run(["make", "-j2", "-C", "tests", "test-runner"], folder=source, timeout_s=1200)
    return tests


def outcomes(
    cluster: Brokers,
    tests: Sequence[str],
    folder: Path,
    timeout_s: float,
    at_a_time: int = 4,
    replicas: int = 1,
    runner: Path | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Run tests, so many at a time; return test -> PASSED, FAILED or SKIPPED. `more`: of the environment."""
    runner = runner or build()
    (runner / "test.conf").write_text(
        f"metadata.broker.list={cluster.bootstrap_servers}\ntest.topic.random=true\ntest.timeout.multiplier=3\n"
    )
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    ran = run_suite(
        ["sh", "-c", '"$@"; exit $?', "sh", runner / "test-runner", "-E", f"-p{at_a_time}", "-L"],
        failed=ABORTED,
        folder=runner,
        timeout_s=timeout_s,
        env={
            "TESTS": ",".join(name[:4] for name in tests),
            "TEST_REPORT": str(report),
            "TEST_KAFKA_VERSION": "4.0.0",
            "REPLICAS": str(replicas),
            "BROKERS": cluster.bootstrap_servers,
            "KAFKA_PATH": str(HERE / "kafka_scripts"),
            "STREAMACTORS_PYTHON": sys.executable,
            "LD_LIBRARY_PATH": f"{runner.parent / 'src'}:{runner.parent / 'src-cpp'}",
            **more,
        },
    )
    assert report.exists(), f"the run ended early:\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return {name: found["state"] for name, found in json.loads(report.read_text())["tests"].items()}


def outcomes_of_all(
    cluster: Brokers,
    names: Sequence[str],
    folder: Path,
    replicas: int = 1,
    runner: Path | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Run tests, those that fail a second time: many count seconds."""
    found = outcomes(cluster, names, folder, 1200, replicas=replicas, runner=runner, more=more)
    failed = [name for name in names if found.get(name) != "PASSED"]
    if failed:
        again = outcomes(
            cluster, failed, folder, 500, at_a_time=1, replicas=replicas, runner=runner, more=more
        )  # names the others, too, as skipped
        found |= {name: again[name] for name in failed if name in again}
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    build()
    with Cluster(process=True, config=SETTINGS) as cluster:
        return outcomes_of_all(cluster, allowed("librdkafka"), tmp_path_factory.mktemp("librdkafka"))


@pytest.mark.parametrize("name", allowed("librdkafka"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "PASSED"


@pytest.fixture(scope="module")
def at_three(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outcomes at three brokers, with three replicas of what the tests create, and with an authoriser."""
    build()
    with Cluster(brokers=3, config={**SETTINGS, **RIGHTS, **ONE_IN_SYNC}) as cluster:
        names = allowed("librdkafka_three_nodes")
        return outcomes_of_all(cluster, names, tmp_path_factory.mktemp("librdkafka"), replicas=3)


@pytest.mark.parametrize("name", allowed("librdkafka_three_nodes"))
def test_passes_at_three_brokers(at_three: dict[str, str], name: str) -> None:
    assert at_three.get(name) == "PASSED"


@pytest.fixture(scope="module")
def at_their_broker(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outcomes at a broker of Apache Kafka whose controllers are three of our nodes."""
    if not apache_kafka.found():
        pytest.skip("Java and Maven are not here")
    build()
    settings = {name: str(value) for name, value in SETTINGS.items()}
    with ApacheDataNode(tmp_path_factory.mktemp("nodes"), settings) as cluster:
        return outcomes_of_all(cluster, allowed("librdkafka"), tmp_path_factory.mktemp("librdkafka"))


@pytest.mark.parametrize("name", allowed("librdkafka"))
def test_passes_at_a_broker_of_apache_kafka_under_our_controllers(at_their_broker: dict[str, str], name: str) -> None:
    assert at_their_broker.get(name) == "PASSED"
