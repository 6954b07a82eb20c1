"""Topologies of several topics in Kafka mode, row by row against Kafka Streams' TopologyTestDriver: joins, tables, cogroups.

Needs Java and Maven; the jars come through the Maven that is configured on the machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.differential.kafka_streams.build import classpath
from tests.models.topology_case import TopologyCase, TopologyOutcome, run, topology_cases

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not (shutil.which("java") and shutil.which("mvn")), reason="Java or Maven is not here"),
    pytest.mark.timeout(6_000),
]
_IN_MEMORY = Path("/dev/shm")


class Topologies:
    """The Java program, one process for many cases."""

    def __init__(self, classpath: str, states: str) -> None:
        self._process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", f"-Dstates={states}", "-cp", classpath, "Topologies"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def run(self, case: TopologyCase) -> TopologyOutcome:
        to_java, from_java = self._pipes
        to_java.write(as_text(case))
        to_java.flush()
        outcome = TopologyOutcome(given=[[] for _ in case.rows])
        for line in from_java:
            name, *fields = line.rstrip("\n").split("\t")
            if name == "END":
                return outcome
            if name == "OUT":
                row, key, value, timestamp = fields
                outcome.given[int(row)].append((_nullable(key), _nullable(value), int(timestamp)))
            elif name == "DIE":
                outcome.died, outcome.reason = int(fields[0]), fields[1]
                del outcome.given[outcome.died :]
            elif name == "REFUSED":
                outcome.refused = fields[0]
            elif name == "DROPPED":
                outcome.dropped = int(fields[0])
        raise AssertionError("the Java program ended")

    @property
    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def close(self) -> None:
        self._pipes[0].close()
        self._process.wait(60)


def as_text(case: TopologyCase) -> str:
    lines: list[tuple[object, ...]] = [("CASE",), *[("OP", *op) for op in case.ops]]
    lines += [("ROW", *("\\N" if part is None else part for part in row)) for row in case.rows]
    return "".join("\t".join(map(str, line)) + "\n" for line in [*lines, ("END",)])


def _nullable(text: str) -> str | None:
    return None if text == "\\N" else text


@pytest.fixture(scope="module")
def topologies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topologies]:
    classes = classpath(tmp_path_factory.mktemp("kafka-streams"))
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as states:
        java = Topologies(classes, states)
        yield java
        java.close()


def check(topologies: Topologies, case: TopologyCase) -> None:
    theirs = topologies.run(case)
    assume(theirs.refused is None)  # for example a cogroup of two streams with changed keys and no names
    ours = run(case)
    assert ours.died == theirs.died
    assert ours.given == theirs.given
    if ours.died is None:
        assert ours.dropped == theirs.dropped


@settings(max_examples=150, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))
@given(case=topology_cases())
def test_topologies_give_what_kafka_streams_gives(topologies: Topologies, case: TopologyCase) -> None:
    check(topologies, case)


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))
@given(case=topology_cases(max_rows=25, max_steps=7))
def test_topologies_give_what_kafka_streams_gives_at_length(topologies: Topologies, case: TopologyCase) -> None:
    check(topologies, case)
