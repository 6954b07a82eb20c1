"""Vectors recorded from Kafka Streams, replayed without Java: `semantics="kafka"` gives the same rows, times, headers and counts, in the same order.

tests/differential/kafka_streams/record_vectors.py has recorded them, and says what is in each family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.models import processor_case, topology_case
from tests.models.topology_case import TopologyCase

VECTORS = Path(__file__).parent / "kafka_vectors"
FAMILIES = sorted(path.stem for path in VECTORS.glob("*.jsonl"))


def vectors(family: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (VECTORS / f"{family}.jsonl").read_text().splitlines()]


def test_there_are_vectors_of_every_family() -> None:
    assert len(FAMILIES) == 8
    assert sum(len(vectors(family)) for family in FAMILIES) > 1_500


@pytest.mark.parametrize("family", FAMILIES)
def test_kafka_mode_gives_what_kafka_streams_gave(family: str) -> None:
    run = processor_case.run if family == "processors" else topology_case.run
    for number, vector in enumerate(vectors(family)):
        case = TopologyCase([tuple(op) for op in vector["ops"]], [tuple(row) for row in vector["rows"]])
        ours = run(case)
        given = [[list(each) for each in row] for row in ours.given]
        assert given == vector["given"], f"{family}, case {number}: {case}"
        if vector["died"] is None:
            assert ours.dropped == vector["dropped"], f"{family}, case {number}: {case}"
        assert ours.died == vector["died"], f"{family}, case {number}: {case}"


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "processors"])
def test_a_restart_after_each_row_changes_nothing_of_it(family: str) -> None:
    for number, vector in enumerate(vectors(family)):
        case = TopologyCase([tuple(op) for op in vector["ops"]], [tuple(row) for row in vector["rows"]])
        going_on, restarting = topology_case.run(case), topology_case.run(case, restarts=True)
        assert restarting == going_on, f"{family}, case {number}: {case}"
