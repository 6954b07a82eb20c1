"""Streams that end in foreachBatch, in this process, with a real Spark."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from streamactors import BuildError, Flow, Keep, Sink, Source
from streamactors.spark import RowError, SparkSink, SparkSinkSettings, SparkStreamQuery
from streamactors.spark.files import absolute

pytestmark = pytest.mark.timeout(600)
END_S = 300.0

Written = list[tuple[int, list[tuple[Any, ...]]]]


def collect(into: Written) -> Any:
    """A function for foreach_batch that keeps the rows of each epoch."""
    return lambda df, epoch: into.append((epoch, [tuple(row) for row in df.collect()]))


def run(source: Any, sink: Any) -> SparkStreamQuery:
    query: SparkStreamQuery = source.to_mat(sink, Keep.right).run()
    return query


@pytest.mark.expects_log("cannot verify that this")
def test_a_second_run_of_the_same_snippet_goes_on_behind_the_checkpoint(spark: Any, tmp_path: Path) -> None:
    written: Written = []

    def snippet(n: int) -> SparkStreamQuery:
        sink = SparkSink.foreach_batch(spark, collect(written), "n long, k string", tmp_path / "ck", max_rows=60)
        return run(Source.from_iterable([(i, f"k{i % 3}") for i in range(n)]).async_boundary(), sink)

    first = snippet(100)
    assert first.await_termination(END_S)
    assert first.exception() is None
    assert sorted(row for _, rows in written for row in rows) == [(i, f"k{i % 3}") for i in range(100)]
    assert all(len(rows) <= 60 for _, rows in written)
    before = len(written)
    assert snippet(130).await_termination(END_S)
    assert sorted(row[0] for _, rows in written[before:] for row in rows) == list(range(100, 130))
    assert [epoch for epoch, _ in written] == list(range(len(written)))


def test_rows_reach_spark_over_tls(spark: Any, tmp_path: Path) -> None:
    written: Written = []
    sink = SparkSink.foreach_batch(
        spark, collect(written), "n long", tmp_path / "ck", settings=SparkSinkSettings(encrypt=True)
    )
    assert run(Source.range(0, 50).map(lambda n: (n,)), sink).await_termination(END_S)
    assert sorted(row for _, rows in written for row in rows) == [(n,) for n in range(50)]


@pytest.mark.expects_log("nobody has read its result")
def test_a_side_sink_that_fails_late_ends_the_query_and_its_element_comes_again(spark: Any, tmp_path: Path) -> None:
    """The side's failure came when `also_to` had completed, and the query waited forever for the side to be done."""
    written: Written = []
    seen: list[int] = []

    def graph(fails: bool) -> SparkStreamQuery:
        def see(row: Any) -> None:
            if fails and row == (19,):
                raise LookupError(row)
            seen.append(row[0])

        side = Flow.map(lambda row: row).async_boundary().map(see).to(Sink.ignore())
        sink = SparkSink.foreach_batch(spark, collect(written), "n long", tmp_path / "ck")
        return run(Source.range(0, 20).map(lambda n: (n,)).max_chunk(5).also_to(side), sink)

    with pytest.raises(LookupError):
        graph(fails=True).await_termination(END_S)
    assert (19,) not in [row for _, rows in written for row in rows]
    assert graph(fails=False).await_termination(END_S)
    assert sorted(row[0] for _, rows in written for row in rows) == list(range(20))
    assert set(seen) == set(range(20))


@pytest.mark.expects_log("cannot verify that this")
def test_a_function_that_declares_query_id_gets_the_id_that_the_checkpoint_keeps(spark: Any, tmp_path: Path) -> None:
    ids: list[str] = []

    def write(df: Any, epoch: int, *, query_id: str) -> None:
        ids.append(query_id)

    sink = SparkSink.foreach_batch(spark, write, "n long", tmp_path / "ck")
    for n in (3, 6):
        query = run(Source.from_iterable([(i,) for i in range(n)]), sink)
        assert query.await_termination(END_S)
        assert query.exception() is None
    assert len(ids) >= 2
    assert set(ids) == {query.id}


def test_the_users_error_is_the_querys_and_a_restart_resumes_at_that_batch(spark: Any, tmp_path: Path) -> None:
    written: Written = []
    error = ZeroDivisionError("in the user's function")
    tried: Written = []

    def fails_at_two(df: Any, epoch: int) -> None:
        rows = [tuple(row) for row in df.collect()]
        if epoch == 2:
            tried.append((epoch, rows))
            raise error
        written.append((epoch, rows))

    def sink(fn: Any) -> Any:
        return SparkSink.foreach_batch(spark, fn, "n long", tmp_path / "ck", max_rows=20)

    source = Source.range(0, 100).map(lambda n: (n,)).max_chunk(10)
    query = run(source, sink(fails_at_two))
    with pytest.raises(ZeroDivisionError) as raised:
        query.await_termination(END_S)
    assert raised.value is error
    assert query.exception() is error
    assert any(entry.name == "fails_at_two" for entry in raised.traceback)
    again = run(source, sink(collect(written)))
    assert again.await_termination(END_S)
    assert again.id == query.id
    assert written[2] == tried[0]  # the same batch, row for row
    assert [row[0] for _, rows in written for row in rows] == list(range(100))


def _exits(*_: Any) -> Any:
    sys.exit("the configuration is missing")


def _interrupts(*_: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("fn", "error"), [(_exits, SystemExit), (_interrupts, KeyboardInterrupt)])
def test_a_function_that_exits_ends_the_query_with_that_error(
    spark: Any, tmp_path: Path, fn: Any, error: type[BaseException]
) -> None:
    """The query neither ended nor logged anything: Py4J gave Spark no answer."""
    source = Source.range(0, 3).map(lambda n: (n,))
    query = run(source, SparkSink.foreach_batch(spark, fn, "n long", tmp_path / "ck"))
    assert isinstance(query.completion.exception(END_S), error)
    assert not query.is_active
    written: Written = []
    assert run(source, SparkSink.foreach_batch(spark, collect(written), "n long", tmp_path / "ck")).await_termination(
        END_S
    )
    assert written == [(0, [(0,), (1,), (2,)])]  # nothing counts as written


def test_a_transform_that_exits_ends_the_query_with_that_error(spark: Any, tmp_path: Path) -> None:
    sink = SparkSink.parquet(spark, tmp_path / "table", "n long", tmp_path / "ck", transform=_exits)
    query = run(Source.from_iterable([(1,)]), sink)
    assert isinstance(query.completion.exception(END_S), SystemExit)


def test_a_transform_that_returns_no_frame_is_named_with_the_batch(spark: Any, tmp_path: Path) -> None:
    """The error was an AttributeError of this package's own line."""
    sink = SparkSink.parquet(spark, tmp_path / "table", "n long", tmp_path / "ck", transform=lambda df, epoch: None)
    with pytest.raises(
        BuildError, match=r"SparkSink\.parquet: transform must return .*returned None for batch 0; .*foreach_batch"
    ):
        run(Source.from_iterable([(1,)]), sink).await_termination(END_S)


def test_dead_letters_that_exit_end_the_query_with_that_error(spark: Any, tmp_path: Path) -> None:
    sink = SparkSink.foreach_batch(
        spark, lambda df, epoch: None, "n long", tmp_path / "ck", settings=SparkSinkSettings(dead_letters=_exits)
    )
    query = run(Source.from_iterable([("one",)]), sink)
    assert isinstance(query.completion.exception(END_S), SystemExit)


def test_stop_interrupts_a_batch_which_comes_again(spark: Any, tmp_path: Path) -> None:
    written: Written = []
    inside = threading.Event()

    def never_ends(df: Any, epoch: int) -> None:
        df.persist()
        while True:
            df.count()
            inside.set()

    def sink(fn: Any) -> Any:
        return SparkSink.foreach_batch(spark, fn, "n long", tmp_path / "ck")

    source = Source.range(0, 30).map(lambda n: (n,))
    query = run(source, sink(never_ends))
    assert inside.wait(END_S)
    query.stop(END_S)
    assert not query.is_active
    assert query.exception() is None
    assert run(source, sink(collect(written))).await_termination(END_S)
    assert [row[0] for _, rows in written for row in rows] == list(range(30))
    assert written[0][0] == 0


def test_rows_of_every_kind_arrive_nested_and_dead_letters_do_not(spark: Any, tmp_path: Path) -> None:
    written: Written = []
    dead: list[Any] = []
    schema = "id int not null, at struct<x: double, tags: array<string>>, by map<string, bigint>"
    rows = [
        (1, (1.5, ["a", "b"]), {"p": 7}),
        {"id": 2, "at": {"x": 2.5}},
        {"id": None},
        (3, None, {}),
    ]
    sink = SparkSink.foreach_batch(
        spark,
        collect(written),
        schema,
        tmp_path / "ck",
        settings=SparkSinkSettings(dead_letters=lambda row, error: dead.append((row, str(error)))),
    )
    assert run(Source.from_iterable(rows), sink).await_termination(END_S)
    found = sorted((row for _, batch in written for row in batch), key=lambda row: row[0])
    assert [row[0] for row in found] == [1, 2, 3]
    assert (found[0][1].x, found[0][1].tags, found[0][2]) == (1.5, ["a", "b"], {"p": 7})
    assert (found[1][1].x, found[1][1].tags, found[1][2]) == (2.5, None, None)
    assert dead[0][0] == {"id": None}
    assert "field 'id' must not be null" in dead[0][1]


@pytest.mark.slow
def test_tables_are_not_asked_for_as_if_they_were_rows(spark: Any, tmp_path: Path) -> None:
    """Every element is 100 rows: what is held stays about two batches, not two thousand elements."""
    import pyarrow as pa

    tables = [pa.RecordBatch.from_pydict({"n": list(range(i * 100, i * 100 + 100))}) for i in range(60)]
    retained: list[int] = []
    rows: list[int] = []

    def write(df: Any, epoch: int) -> None:
        rows.extend(row.n for row in df.collect())
        retained.append(query.progress()["retained_rows"])

    sink = SparkSink.foreach_batch(spark, write, "n long", tmp_path / "ck", max_rows=500)
    query = run(Source.from_iterable(tables), sink)
    assert query.await_termination(END_S)
    assert sorted(rows) == list(range(6_000))
    assert max(retained) <= 2_000


@pytest.mark.slow
def test_relative_folders_begin_where_this_process_is(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM was started elsewhere; it would make them there."""
    monkeypatch.chdir(tmp_path)
    sink = SparkSink.parquet(spark, "out/table", "n long", "out/ck")
    monkeypatch.chdir("/")
    assert run(Source.from_iterable([(1,), (2,)]), sink).await_termination(END_S)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"table", "ck"}
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "out" / "table")).collect()) == [1, 2]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("a/b", "/here/a/b"),
        ("file:a", "file:/here/a"),
        ("/a", "/a"),
        ("file:///a", "file:///a"),
        ("hdfs://host/a", "hdfs://host/a"),
        ("s3a://bucket/a", "s3a://bucket/a"),
    ],
)
def test_what_is_not_relative_or_not_local_is_left_alone(
    spark: Any, monkeypatch: pytest.MonkeyPatch, given: str, meant: str
) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/here")
    assert absolute(spark, given) == meant


def test_a_row_that_does_not_fit_fails_the_query(spark: Any, tmp_path: Path) -> None:
    sink = SparkSink.foreach_batch(spark, lambda df, epoch: None, "n long", tmp_path / "ck")
    query = run(Source.from_iterable([(1,), ("two",)]), sink)
    with pytest.raises(RowError, match=r"row \('two',\): field 'n'"):
        query.await_termination(END_S)


def test_an_upstream_error_is_the_querys(spark: Any, tmp_path: Path) -> None:
    sink = SparkSink.foreach_batch(spark, lambda df, epoch: None, "n double", tmp_path / "ck")
    query = run(Source.from_iterable([1, 0]).map(lambda n: (1 / n,)), sink)
    with pytest.raises(ZeroDivisionError):
        query.await_termination(END_S)


@pytest.mark.parametrize("trigger", ["available_now", 0.2])
def test_triggers_end_with_the_input(spark: Any, tmp_path: Path, trigger: Any) -> None:
    written: Written = []
    sink = SparkSink.foreach_batch(
        spark, collect(written), "n long", tmp_path / "ck", 15, SparkSinkSettings(trigger=trigger)
    )
    assert run(Source.range(0, 40).map(lambda n: (n,)).max_chunk(5), sink).await_termination(END_S)
    assert [row[0] for _, rows in written for row in rows] == list(range(40))
    assert len(written) >= 3


def test_nothing_to_write_ends_well_and_the_checkpoint_can_be_used_again(spark: Any, tmp_path: Path) -> None:
    written: Written = []
    (tmp_path / "ck" / "offsets").mkdir(parents=True)
    sink = SparkSink.foreach_batch(spark, collect(written), "n long", tmp_path / "ck")
    assert run(Source.from_iterable([]), sink).await_termination(END_S)
    # what a crash within Spark's first write leaves there; it would refuse the folder
    for path in (tmp_path / "ck" / "offsets").iterdir():
        path.unlink()
    for path in (tmp_path / "ck" / "commits").iterdir():
        path.unlink()
    (tmp_path / "ck" / "offsets" / ".0.8c0f.tmp").touch()
    assert run(Source.from_iterable([(1,)]), sink).await_termination(END_S)
    assert [row for _, rows in written for row in rows] == [(1,)]


@pytest.mark.slow
def test_a_sink_beside_spark_is_done_first(spark: Any, tmp_path: Path) -> None:
    """grouped(25) holds elements back; a batch never ends at one that it has not passed on, and nothing stands still for it."""
    from streamactors import Flow, Sink

    stored: list[int] = []
    ahead: list[int] = []

    def write(df: Any, epoch: int) -> None:
        rows = [row[0] for row in df.collect()]
        ahead.extend(n for n in rows if n not in stored)

    beside = Flow.of(tuple).map(lambda row: row[0]).grouped(25).to(Sink.foreach(stored.extend))
    sink = SparkSink.foreach_batch(spark, write, "n long", tmp_path / "ck", max_rows=10)
    assert run(Source.range(0, 100).map(lambda n: (n,)).also_to(beside), sink).await_termination(END_S)
    assert ahead == []
    assert stored == list(range(100))
