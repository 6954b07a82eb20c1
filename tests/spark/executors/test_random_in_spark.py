"""Random windowed graphs with late rows in Spark itself: the same results and late rows, in the same order, as in one process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streamactors import Flow, Keep
from streamactors.spark import SparkExecutors, SparkQueryFailed, SparkSink
from tests.models.window_case import Case, cases
from tests.spark.conftest import SETTINGS
from tests.spark.executors._plain import in_process, read_rows, shown, spark_end, write_rows
from tests.spark.executors.test_program import new_topic
from tests.spark.executors.test_random_errors import build

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]
END_S = 200.0
ROW = "part int, text string"


def as_row(element: Any) -> tuple[int, str]:
    return element.context.partition, repr(shown(element))


def parted(rows: list[Any]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for part, text in rows:
        found.setdefault(part, []).append(text)
    return found


def texts(elements: dict[int, list[Any]]) -> dict[int, list[str]]:
    return {part: list(map(repr, rows)) for part, rows in elements.items()}


@given(case=cases().filter(lambda case: case.windows[0] != "none"), seed=st.integers(0, 1 << 30))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_twenty_random_graphs(cluster: Any, system: Any, tmp_path: Path, case: Case, seed: int) -> None:
    from streamactors.spark import spark_session

    spark = spark_session("tests", **SETTINGS)
    topic, dice = new_topic(), random.Random(seed)
    rows = [(dice.randrange(2), *row) for row in case.rows]
    write_rows(cluster, topic, rows)

    def graph(records: Any, late: Any) -> Any:
        return build(case, set(), "stop", records, late)

    try:
        graph(read_rows(cluster, topic), spark_end())
    except ValueError:
        return  # a case that cannot be built
    wanted = in_process(system, graph, read_rows(cluster, topic))
    written: list[Any] = []
    late_rows: list[Any] = []
    folder = tmp_path / topic
    sink = SparkSink.foreach_batch(
        spark, lambda df, epoch: written.extend(df.collect()), ROW, folder / "ck", max_rows=dice.choice([5, 20, 1_000])
    )
    late = SparkSink.foreach_batch(spark, lambda df, epoch: late_rows.extend(df.collect()), ROW, folder / "unused")
    stream = graph(read_rows(cluster, topic), _rows_into(late)).map(as_row).to_mat(sink, Keep.right)
    query = stream.run(SparkExecutors(spark))
    if wanted.error is not None:
        with pytest.raises(SparkQueryFailed):
            query.await_termination(END_S)
        return
    assert query.await_termination(END_S)
    assert parted(written) == texts(wanted.results)
    assert parted(late_rows) == texts(wanted.late)


def _rows_into(sink: Any) -> Any:
    return Flow.map(as_row).to(sink)
