"""Topologies of several topics in Kafka mode, row by row against Kafka Streams' TopologyTestDriver: joins, tables, cogroups.

Needs Java and Maven; the jars come through the Maven that is configured on the machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.differential.kafka_streams.build import classpath
from tests.differential.kafka_streams.case_program import CaseProgram
from tests.models.topology_case import TopologyCase, run
from tests.models.topology_draw import topology_cases

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not (shutil.which("java") and shutil.which("mvn")), reason="Java or Maven is not here"),
    pytest.mark.timeout(6_000),
]
_IN_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def topologies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseProgram]:
    classes = classpath(tmp_path_factory.mktemp("kafka-streams"))
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as states:
        java = CaseProgram("Topologies", classes, states)
        yield java
        java.close()


def check(topologies: CaseProgram, case: TopologyCase) -> None:
    theirs = topologies.run(case)
    assume(theirs.refused is None)  # for example a cogroup of two streams with changed keys and no names
    ours = run(case)
    assert ours.died == theirs.died
    assert ours.given == theirs.given
    if ours.died is None:
        assert ours.dropped == theirs.dropped


@settings(max_examples=150, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))
@given(case=topology_cases())
def test_topologies_give_what_kafka_streams_gives(topologies: CaseProgram, case: TopologyCase) -> None:
    check(topologies, case)


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))
@given(case=topology_cases(max_rows=25, max_steps=7))
def test_topologies_give_what_kafka_streams_gives_at_length(topologies: CaseProgram, case: TopologyCase) -> None:
    check(topologies, case)


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@pytest.mark.parametrize("stored", ["0", "1"])
def test_a_table_that_meets_its_own_join_gives_what_kafka_streams_gives(
    topologies: CaseProgram, how: str, stored: str
) -> None:
    """The diamond of docs/strict.md: each update passes by both ways, twice with the same result, and an inner join never deletes."""
    ops = [
        ("table", "t", "a", "1"),
        ("table", "u", "b", "1"),
        ("join_tables", "j", "t", "u", "left", stored),
        ("join_tables", "d", "t", "j", how, stored),
        ("to_stream", "s", "d"),
        ("out", "o", "s"),
    ]
    rows = [("b", "k", "u", 0), ("a", "k", "x", 1), ("a", "k", "y", 2), ("a", "k", None, 3), ("b", "k", "v", 4)]
    case = TopologyCase(ops, rows)
    theirs, ours = topologies.run(case), run(case)
    assert (ours.given, ours.dropped) == (theirs.given, theirs.dropped)
    values = [[value for _, value, *_ in row] for row in ours.given]
    assert values[1:3] == [["(x(xu))"] * 2, ["(y(yu))"] * 2]
    assert values[3] == {"inner": [], "left": [None], "outer": [None, None]}[how]
