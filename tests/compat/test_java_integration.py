"""Java's own integration tests of consumers and share consumers, each on a cluster of this broker.

They come from Maven Central (kafka-clients-integration-tests 4.3.1, the newest with test jars). Apache Kafka's runtime starts a cluster of its own
for each test; one class of it is replaced, so that the cluster is ours."""

from __future__ import annotations

import os
import re
import shutil
import sys
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.compat.support import CACHE, HERE, allowed, must_run, run, run_suite

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(3600)]

ROOM = HERE / "java_integration"
PACKAGE = "org.apache.kafka.clients.consumer."
LIMIT_S = 180
"""Of one test."""
_NAME = re.compile(r"[(\[]")


def runtime() -> str:
    """Return a class path with the tests, in which our class comes first. Skips the test where it cannot be had."""
    mvn, javac = shutil.which("mvn"), shutil.which("javac")
    if mvn is None or javac is None:
        pytest.skip("Java or Maven is not here")
    source, pom = ROOM / "RaftClusterInvocationContext.java", ROOM / "pom.xml"
    folder = CACHE / f"java-integration-{zlib.crc32(source.read_bytes() + pom.read_bytes()):08x}"
    libs, classes = folder / "libs", folder / "classes"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        ran = run(
            [mvn, "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={libs}"],
            folder=folder,
            timeout_s=600,
        )
        if ran.returncode != 0:
            pytest.skip(f"the test jars of Apache Kafka cannot be downloaded: {ran.stdout.strip()[-200:]}")
        must_run([javac, "-nowarn", "-d", classes, "-cp", f"{libs}/*", source], folder=folder)
        (folder / "complete").touch()
    return f"{classes}{os.pathsep}{libs}/*"


def outcomes(names: list[str], folder: Path, timeout_s: float = 3000) -> dict[str, str]:
    """Run tests, named Class.method; return name -> passed, failed or skipped."""
    classes = sorted({name.partition(".")[0] for name in names})
    methods = "|".join(name.replace(".", "#") for name in names)
    reports = folder / "reports"
    launcher = ("org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=summary")
    ran = run_suite(
        [
            *("java", "-Xmx768m", "-XX:TieredStopAtLevel=1", "-Djunit.jupiter.extensions.autodetection.enabled=true"),
            *(f"-Djunit.jupiter.execution.timeout.testtemplate.method.default={LIMIT_S}s", "-cp", runtime()),
            *(*launcher, f"--reports-dir={reports}", f"--include-methodname=.*[.]({methods})"),
            *(f"--select-class={PACKAGE}{name}" for name in classes),
        ],
        failed=1,
        folder=folder,
        timeout_s=timeout_s,
        env={
            "STREAMACTORS_CLUSTERS": f"{sys.executable} -m tests.compat.java_integration.clusters",
            "PYTHONPATH": os.fspath(HERE.parent.parent),
        },
    )
    report = reports / "TEST-junit-jupiter.xml"
    assert report.exists(), ran.stdout[-3000:] + ran.stderr[-3000:]
    return read(report)


def read(report: Path) -> dict[str, str]:
    """Return test -> passed, failed or skipped. A test that runs in several ways passes when all of them do."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname', '').rpartition('.')[2]}.{_NAME.split(case.get('name', ''))[0]}"
        kinds = {child.tag for child in case}
        said = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        if found.get(test) in (None, "passed"):
            found[test] = said
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    names, folder = allowed("java_integration"), tmp_path_factory.mktemp("java")
    found = outcomes(names, folder)
    failed = [name for name in names if found.get(name) == "failed"]
    if failed:  # a second time: many wait for a number of seconds
        found |= outcomes(failed, tmp_path_factory.mktemp("java"))
    return found


@pytest.mark.parametrize("name", allowed("java_integration"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "passed"
