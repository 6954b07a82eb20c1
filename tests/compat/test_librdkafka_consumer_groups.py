"""The tests of a librdkafka of today against this broker, with consumer groups (KIP-848) wherever they have a group."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.compat.support import allowed, must_run, npm_source
from tests.compat.test_librdkafka import SETTINGS, outcomes_of_all

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(1800)]

# the package of npm is built from librdkafka 2.15.1, and has its tests
PACKAGE, VERSION, INSIDE = "@confluentinc/kafka-javascript", "1.10.1", "deps/librdkafka"
CONSUMER = {"TEST_CONSUMER_GROUP_PROTOCOL": "consumer"}


def build() -> Path:
    """Return the folder of the built test runner."""
    source = npm_source(PACKAGE, VERSION, INSIDE)
    tests = source / "tests"
    if not (tests / "test-runner").exists():
        without = ("--disable-sasl", "--disable-gssapi", "--disable-curl", "--disable-zstd", "--disable-optimization")
        must_run(["./configure", *without], folder=source)
        must_run(["make", "-j2", "libs"], folder=source, timeout_s=1200)
        must_run(["make", "-j2", "-C", "tests", "test-runner"], folder=source, timeout_s=1200)
    return tests


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    runner = build()
    with Cluster(process=True, config=SETTINGS) as cluster:
        names, folder = allowed("librdkafka_consumer_groups"), tmp_path_factory.mktemp("librdkafka")
        return outcomes_of_all(cluster, names, folder, runner=runner, more=CONSUMER)


@pytest.mark.parametrize("name", allowed("librdkafka_consumer_groups"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "PASSED"
