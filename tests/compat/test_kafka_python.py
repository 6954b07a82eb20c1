"""kafka-python's own integration tests against this broker."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from streamactors.broker import Cluster
from tests.compat.support import HERE, allowed, python_packages, python_source, run_suite

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(600)]

VERSION = "3.0.12"
# what the suite asks of a broker
SETTINGS = {"num.partitions": 4, "offsets.topic.num.partitions": 2, "group.min.session.timeout.ms": 1000}
SUITE = ("test/integration/test_admin_integration.py", "test/integration/test_consumer_integration.py", "test/integration/test_producer_integration.py")  # fmt: skip

ONE_BROKER = {
    "test_admin_integration::test_alter_replica_log_dirs",
    "test_admin_integration::test_delete_records",
    "test_admin_integration::test_describe_configs_broker_resource_returns_configs",
}
"""These count on one broker; FINDINGS.md says how."""


def run_at(bootstrap_servers: str, folder: Path) -> dict[str, str]:
    """Run the suite; return test -> passed, failed or skipped."""
    source = python_source("kafka-python", VERSION)
    codecs = python_packages(
        "kafka-python-codecs", "lz4", "python-snappy", "zstandard", "pytest-mock", "--no-deps", "cramjam"
    )
    (source / "test" / "__init__.py").touch()  # or the interpreter's own `test` package is found instead
    shutil.copy(HERE / "kafka_python_service.py", source / "test" / "service.py")
    report = folder / "report.xml"
    ran = run_suite(
        [
            *(sys.executable, "-m", "pytest", "-q", "--tb=native", "-o", "addopts=", f"--junitxml={report}"),
            *("-p", "no:logging", "-p", "no:streamactors", "-p", "no:cacheprovider", "-p", "no:randomly"),
            *("--timeout=60", "--timeout-method=signal", *SUITE),
        ],
        failed=1,
        folder=source,
        timeout_s=540,
        env={
            "KAFKA_ROOT": str(folder),
            "KAFKA_VERSION": "4.2.0",
            "KAFKA_URI": f"kafka://{bootstrap_servers.split(',')[0]}",
            "PYTHONPATH": f"{source}:{codecs}",
            "COVERAGE_PROCESS_START": "",
        },
    )
    assert report.exists(), ran.stdout[-3000:] + ran.stderr[-3000:]
    return _outcomes(report)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with Cluster(process=True, config=SETTINGS, listen="127.0.0.1:0", advertise="127.0.0.1:0") as cluster:
        return run_at(cluster.bootstrap_servers, tmp_path_factory.mktemp("kafka-python"))


def _outcomes(report: Path) -> dict[str, str]:
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        kinds = {child.tag for child in case}
        found[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return found


@pytest.mark.parametrize("name", allowed("kafka_python"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "passed"


@pytest.fixture(scope="module")
def at_three(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with Cluster(brokers=3, config=SETTINGS) as cluster:
        return run_at(cluster.bootstrap_servers, tmp_path_factory.mktemp("kafka-python"))


@pytest.mark.parametrize("name", sorted({*allowed("kafka_python")} - ONE_BROKER))
def test_passes_at_three_brokers(at_three: dict[str, str], name: str) -> None:
    assert at_three.get(name) == "passed"


def test_the_list_of_what_passes_is_complete(results: dict[str, str]) -> None:
    passed = {name for name, outcome in results.items() if outcome == "passed"}
    assert sorted(passed - set(allowed("kafka_python"))) == [], "these pass as well: put them on kafka_python.allow"
