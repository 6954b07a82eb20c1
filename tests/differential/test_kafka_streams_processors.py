"""Processors in Kafka mode, row by row against Kafka Streams' TopologyTestDriver: stores of each kind, schedules by both clocks, forwards by name.

Needs Java and Maven; the jars come through the Maven that is configured on the machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.differential.kafka_streams.build import classpath
from tests.differential.kafka_streams.case_program import CaseProgram
from tests.models.processor_case import processor_cases, run
from tests.models.topology_case import TopologyCase

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not (shutil.which("java") and shutil.which("mvn")), reason="Java or Maven is not here"),
    pytest.mark.timeout(6_000),
]
_IN_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def processors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseProgram]:
    classes = classpath(tmp_path_factory.mktemp("kafka-streams"))
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as states:
        java = CaseProgram("Processors", classes, states)
        yield java
        java.close()


def check(processors: CaseProgram, case: TopologyCase) -> None:
    theirs = processors.run(case)
    assert theirs.refused is None
    ours = run(case)
    assert ours.given == theirs.given
    assert ours.dropped == theirs.dropped


@settings(max_examples=200, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))
@given(case=processor_cases())
def test_processors_give_what_kafka_streams_gives(processors: CaseProgram, case: TopologyCase) -> None:
    check(processors, case)


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))
@given(case=processor_cases(max_rows=40))
def test_processors_give_what_kafka_streams_gives_at_length(processors: CaseProgram, case: TopologyCase) -> None:
    check(processors, case)
