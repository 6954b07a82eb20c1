"""Flows as transformations of DataFrames, in Spark's workers."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import reactivex.operators as rx

from streamactors import BuildError, Directive, Flow
from streamactors.spark import SparkSetupError, SparkSource, on_spark
from streamactors.spark.shipping import entry
from streamactors.spark.shipping.parcel import _is_installed, made_with, pack

pytestmark = pytest.mark.timeout(300)

BONUS = 100


def with_bonus(row: tuple[int, str]) -> tuple[int, str]:
    """A function of a module that no worker can import."""
    return row[0] + BONUS, row[1]


def frame(spark: Any, n: int = 20) -> Any:
    return spark.createDataFrame([(i, f"k{i % 3}") for i in range(n)], "id long, k string").coalesce(1)


def test_maps_and_filters_run_in_the_workers(spark: Any) -> None:
    flow = Flow.map(with_bonus).filter(lambda row: row[0] % 2 == 0).map(lambda row: {"id": row[0], "k": row[1].upper()})
    out = frame(spark).transform(on_spark(flow, "id long, k string"))
    assert out.schema.simpleString() == "struct<id:bigint,k:string>"
    assert [tuple(row) for row in out.collect()] == [(i + 100, f"K{i % 3}") for i in range(0, 20, 2)]


def test_stages_that_no_loop_holds_run_on_the_engine(spark: Any) -> None:
    """map_concat, coroutines and RxPY pipelines; boundaries change nothing."""

    async def slow(row: tuple[int, str]) -> tuple[int, str]:
        return row[0] * 2, row[1]

    flow = Flow.map_concat(lambda row: [row, (row[0] + 1000, row[1])]).async_boundary().map_async(4, slow)
    flow = flow.via(Flow.rx(rx.map(lambda row: (row[0] + 1, row[1])), rx.filter(lambda row: row[0] != 3)))
    out = on_spark(flow, "id long, k string")(frame(spark, 5))
    wanted = [2 * n + 1 for i in range(5) for n in (i, i + 1000)]
    assert [row.id for row in out.collect()] == [n for n in wanted if n != 3]


def test_an_element_may_be_a_dict_or_a_record_batch(spark: Any) -> None:
    doubled = on_spark(Flow.map(lambda row: (row["id"] * 2,)), "n long", elements="dicts")
    assert [row.n for row in doubled(frame(spark, 4)).collect()] == [0, 2, 4, 6]
    as_they_are = on_spark(Flow.map(lambda batch: batch.slice(1)), "id long, k string", elements="batches")
    assert [row.id for row in as_they_are(frame(spark, 4)).collect()] == [1, 2, 3]


def test_timestamps_keep_their_moment_in_any_session_time_zone(spark: Any) -> None:
    at = datetime(2013, 1, 1, 5, 15, tzinfo=UTC)
    given = spark.createDataFrame([(at,)], "at timestamp")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        out = on_spark(Flow.identity().map(lambda row: row), "at timestamp")(given)
        assert out.selectExpr("unix_timestamp(at) AS s").collect()[0].s == int(at.timestamp())
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.expects_log("skipped")
def test_a_decider_drops_the_row_that_raises_and_without_one_the_query_fails(spark: Any) -> None:
    flow = Flow.map(lambda row: (10 // row[0],))
    kept = flow.with_attributes(decider=lambda error: Directive.RESUME)
    assert [row.n for row in on_spark(kept, "n long")(frame(spark, 3)).collect()] == [10, 5]
    with pytest.raises(Exception, match="ZeroDivisionError"):
        on_spark(flow, "n long")(frame(spark, 3)).collect()


def test_what_remembers_needs_per_task(spark: Any) -> None:
    flow = Flow.grouped(4).map(lambda rows: (len(rows),))
    with pytest.raises(BuildError, match=r"on_spark: stage 'grouped' remembers earlier elements"):
        on_spark(flow, "n long")
    assert [row.n for row in on_spark(flow, "n long", per_task=True)(frame(spark, 10)).collect()] == [4, 4, 2]


@pytest.mark.parametrize(
    ("flow", "says"),
    [
        (lambda: Flow.throttle(1, per="1ms"), "stage 'throttle' would limit the rate of each task"),
        (lambda: Flow.map(str).also_to(_ignore()), "stage 'also_to' joins or splits streams"),
        (lambda: 7, "on_spark expects a Flow .* got int 7"),
    ],
    ids=["throttle", "junction", "number"],
)
def test_what_cannot_run_in_a_task_is_refused_when_it_is_built(flow: Any, says: str) -> None:
    with pytest.raises(BuildError, match=says):
        on_spark(flow(), "n long")


def _ignore() -> Any:
    from streamactors import Sink

    return Sink.ignore()


def test_what_cannot_be_pickled_is_named_with_its_stage(spark: Any) -> None:
    lock = threading.Lock()

    def locked(row: Any) -> Any:
        with lock:
            return row

    flow = Flow.map(with_bonus).map(locked).named("guarded")
    with pytest.raises(BuildError, match=r"stage 'guarded' cannot be sent to Spark's workers: .*lock"):
        on_spark(flow, "id long, k string")(frame(spark))


@pytest.mark.parametrize(
    ("file", "installed"),
    [
        ("/home/me/.local/lib/python3.11/site-packages/x/y.py", True),  # pip install --user
        ("/usr/lib/python3/dist-packages/x.py", True),  # a virtual environment with --system-site-packages
        ("/home/me/project/x.py", False),
        ("/home/me/my-site-packages/x.py", False),
        (None, True),  # built in
    ],
)
def test_functions_of_installed_modules_travel_by_name(file: str | None, installed: bool) -> None:
    module = ModuleType("x")
    module.__file__ = file
    assert _is_installed(module) is installed


def test_a_frame_whose_jvm_is_needed_here_and_something_else_are_refused(spark: Any) -> None:
    kind = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
    transform = on_spark(Flow.map(str), "n long")
    with pytest.raises(SparkSetupError, match=r"on_spark: this DataFrame is of Spark Connect, .* use a DataFrame of a"):
        on_spark(Flow.map(str), "n long", expressions=True)(kind())
    with pytest.raises(SparkSetupError, match=r"SparkSource.of: this DataFrame is of Spark Connect"):
        SparkSource.of(kind())
    with pytest.raises(BuildError, match="on_spark expects a DataFrame of Spark, got list"):
        transform([1])


def test_a_worker_says_in_a_sentence_what_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    parcel = pack(BONUS, "test")
    assert entry.opened(parcel, made_with()) == BONUS
    with pytest.raises(RuntimeError, match=r"runs Python 3\.\d+ and the driver 2\.7; both need the same minor version"):
        entry.opened(parcel, {**made_with(), "python": "2.7"})
    with pytest.raises(RuntimeError, match=r"has streamactors .* and the driver 99; install the same version"):
        entry.opened(parcel, {**made_with(), "streamactors": "99"})
    (tmp_path / "only_here.py").write_text("def fn(x):\n    return x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here  # type: ignore[import-not-found]

    monkeypatch.setattr("streamactors.spark.shipping.parcel._is_installed", lambda module: True)
    by_name = pack((only_here.fn,), "test")
    monkeypatch.delitem(sys.modules, "only_here")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    with pytest.raises(RuntimeError, match="has no module only_here, which the graph needs"):
        entry.opened(by_name, made_with())
    monkeypatch.setitem(sys.modules, "streamactors", None)
    with pytest.raises(RuntimeError, match="has no streamactors"):
        entry.opened(parcel, made_with())
