"""Kafka mode, row by row against Kafka Streams itself: its TopologyTestDriver with RocksDB stores and no cache.

Needs Java and Maven; the jars come through the Maven that is configured on the machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.differential.kafka_streams.build import classpath
from tests.models.window_case import Case, Outcome, cases
from tests.windows.run_case import run

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not (shutil.which("java") and shutil.which("mvn")), reason="Java or Maven is not here"),
    pytest.mark.timeout(3_000),
]

# the driver commits after every row: on a disk two thirds of the time are waits for it
_IN_MEMORY = Path("/dev/shm")
_FULL = re.compile(r"\[(\d+)/\d+\] records and \[(\d+)/\d+\] bytes")


class KafkaStreams:
    """The Java runner, one process for many cases."""

    def __init__(self, classpath: str, states: str) -> None:
        self._process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", f"-Dstates={states}", "-cp", classpath, "Runner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    @property
    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def run(self, case: Case) -> Outcome:
        to_java, from_java = self._pipes
        to_java.write(_as_text(case))
        to_java.flush()
        outcome = Outcome(released=[[] for _ in case.rows])
        for line in from_java:
            name, *fields = line.rstrip("\n").split("\t")
            if name == "END":
                return outcome
            if name == "OUT":
                row, key, value, timestamp = fields
                outcome.released[int(row)].append(_result(case, key, value, int(timestamp)))
            elif name == "DIE":
                found = _FULL.search(fields[1])
                assert found is not None, fields[1]
                outcome.error = (int(fields[0]), int(found[1]), int(found[2]))
                del outcome.released[int(fields[0]) + 1 :]
            elif name == "DROPPED":
                outcome.late = int(fields[0])
        raise AssertionError("the Java runner ended")

    def close(self) -> None:
        self._pipes[0].close()
        self._process.wait(60)


def _as_text(case: Case) -> str:
    lines = [("CASE",), ("WINDOWS", *case.windows), ("AGGREGATE", case.aggregate)]
    if case.emits:
        lines.append(("EMIT",))
    lines.extend((step[0].upper(), *("-1" if part is None else part for part in step[1:])) for step in case.steps)
    lines.extend(("ROW", *("\\N" if part is None else part for part in row)) for row in case.rows)
    lines.append(("END",))
    return "".join("\t".join(map(str, line)) + "\n" for line in lines)


def _result(case: Case, key: str, text: str, timestamp: int) -> tuple[object, ...]:
    counts = case.aggregate == "count" and ("map",) not in case.steps
    value = None if text == "\\N" else int(text) if counts else text
    if case.windows[0] == "none":
        return key, value, timestamp
    key, start, end = key.rsplit("|", 2)
    return key, int(start), int(end), value, timestamp


@pytest.fixture(scope="module")
def kafka_streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaStreams]:
    classes = classpath(tmp_path_factory.mktemp("kafka-streams"))
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as states:
        java = KafkaStreams(classes, states)
        yield java
        java.close()


def check(kafka_streams: KafkaStreams, case: Case) -> None:
    assume(case.windows[:2] != ("sliding", 0))  # Kafka Streams fails there: it makes no window of one instant
    theirs, ours = kafka_streams.run(case), run(case)
    assert ours.error == theirs.error
    if ours.error is not None:  # the test driver shows nothing of what the failing row had released
        del ours.released[-1], theirs.released[-1]
    assert ours.released == theirs.released
    if ours.error is None:
        assert ours.late + ours.null == theirs.late


@settings(max_examples=250, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))
@given(case=cases(semantics="kafka"))
def test_kafka_mode_gives_what_kafka_streams_gives(kafka_streams: KafkaStreams, case: Case) -> None:
    check(kafka_streams, case)


@pytest.mark.slow
@settings(max_examples=6_000, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))
@given(case=cases(semantics="kafka", max_rows=40))
def test_kafka_mode_gives_what_kafka_streams_gives_at_length(kafka_streams: KafkaStreams, case: Case) -> None:
    check(kafka_streams, case)
