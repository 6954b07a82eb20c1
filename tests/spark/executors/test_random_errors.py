"""Random graphs whose functions raise, with late rows and every kind of decider: a task's program equals the single-process run."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streamactors import Directive
from tests.models.window_case import Case, add, cases, merge
from tests.spark.executors._plain import in_process, on_tasks, read_rows, spark_end, tasks_of, write_rows
from tests.spark.executors.test_program import ends_of, new_topic
from tests.windows.run_case import definition, with_steps

pytestmark = pytest.mark.timeout(300)


class Bad(Exception):
    """A row that a decider may skip."""


class Worse(Exception):
    """A row that one of the deciders does not skip."""


DECIDERS: dict[str, Callable[[Exception], Directive]] = {
    "resume": lambda error: Directive.RESUME,
    "restart": lambda error: Directive.RESTART,
    "stop": lambda error: Directive.STOP,
    "by type": lambda error: Directive.RESUME if isinstance(error, Bad) else Directive.STOP,
}
PLACES = ["before", "inside", "full", "behind"]


def build(case: Case, raises: set[str], decider: str, records: Any, late: Any) -> Any:
    def before(record: Any) -> Any:
        if "before" in raises and record.value == "yy":
            raise Bad("before the windows")
        return record

    def added(old: str, new: str) -> str:
        if "inside" in raises and new == "zzz":
            raise Bad("in the aggregate")
        if "full" in raises and new == "x" and len(old) > 6:
            raise Worse("in the aggregate")
        return add(old, new)

    def behind(row: Any) -> Any:
        if "behind" in raises and row.value is not None and len(str(row.value)) % 3 == 0:
            raise Bad("behind the windows")
        return row

    windowed = (
        records.map(before).group_by_key().windowed_by(definition(case.windows), semantics=case.semantics, late=late)
    )
    if case.aggregate == "count":
        table = windowed.count()
    elif case.aggregate == "reduce":
        table = windowed.reduce(added)
    else:
        table = windowed.aggregate(str, added, merge)
    return with_steps(table, case).map(behind).with_attributes(decider=DECIDERS[decider])


def equal_on_tasks(
    cluster: Any, system: Any, folder: Path, case: Case, seed: int, raises: set[str], decider: str
) -> None:
    topic, dice = new_topic(), random.Random(seed)
    rows = [(dice.randrange(2), *row) for row in case.rows]
    write_rows(cluster, topic, rows)

    def graph(records: Any, late: Any) -> Any:
        return build(case, raises, decider, records, late)

    try:
        on_executors = graph(read_rows(cluster, topic), spark_end()).to(spark_end())
    except ValueError:
        return  # a case that cannot be built
    wanted = in_process(system, graph, read_rows(cluster, topic))
    found = on_tasks(tasks_of(cluster, topic, on_executors, folder / topic), ends_of(rows), dice)
    if wanted.error is not None:
        assert found.error is not None  # each partition may fail of another error, and either comes first
    else:
        assert found == wanted


WINDOWED = cases().filter(lambda case: case.windows[0] != "none")
GIVEN = {
    "case": WINDOWED,
    "seed": st.integers(0, 1 << 30),
    "raises": st.sets(st.sampled_from(PLACES)),
    "decider": st.sampled_from(sorted(DECIDERS)),
}


@given(**GIVEN)
@settings(max_examples=4, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@pytest.mark.expects_log("skipped")
def test_random_errors_and_late_rows(
    cluster: Any, system: Any, tmp_path: Path, case: Case, seed: int, raises: set[str], decider: str
) -> None:
    equal_on_tasks(cluster, system, tmp_path, case, seed, raises, decider)


@pytest.mark.slow
@given(**GIVEN)
@settings(max_examples=300, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_three_hundred_random_graphs_with_errors_and_late_rows(
    cluster: Any, system: Any, tmp_path: Path, case: Case, seed: int, raises: set[str], decider: str
) -> None:
    equal_on_tasks(cluster, system, tmp_path, case, seed, raises, decider)
