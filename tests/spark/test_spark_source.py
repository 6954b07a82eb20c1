"""DataFrames as sources of streams."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamactors import BuildError, Keep, Sink
from streamactors.spark import SparkSink, SparkSource
from streamactors.spark.errors import SparkSetupError

pytestmark = pytest.mark.timeout(300)
END_S = 120.0


def test_rows_come_in_the_order_of_the_partitions_and_each_run_is_a_job_of_its_own(spark: Any) -> None:
    source = SparkSource.of(spark.range(0, 100, 1, 3).selectExpr("id", "id % 7 AS k"))
    for _ in range(2):
        rows = source.map(lambda row: row[0] * 10 + row[1]).run_with(Sink.to_list()).result(END_S)
        assert rows == [i * 10 + i % 7 for i in range(100)]


def test_elements_may_be_dicts_or_record_batches(spark: Any) -> None:
    frame = spark.createDataFrame([(1, ["a"]), (None, None)], "n long, tags array<string>").coalesce(1)
    assert SparkSource.of(frame, elements="dicts").run_with(Sink.to_list()).result(END_S) == [
        {"n": 1, "tags": ["a"]},
        {"n": None, "tags": None},
    ]
    batches = SparkSource.of(frame, elements="batches").run_with(Sink.to_list()).result(END_S)
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert sum(batch.num_rows for batch in batches) == 2
    with pytest.raises(BuildError, match="elements must be one of 'tuples', 'dicts', 'batches', 'pandas', got 'rows'"):
        SparkSource.of(frame, elements="rows")  # type: ignore[arg-type]


def test_every_type_arrives_as_spark_itself_collects_it(spark: Any) -> None:
    frame = spark.range(0, 5, 1, 2).selectExpr(
        "if(id = 3, null, concat('k', id)) AS text",
        "id * 1.5D AS double",
        "timestamp_seconds(id) AS time",
        "timestamp_ntz'2026-01-01 12:00:00' AS naive",
        "date_add(date'2026-01-01', int(id)) AS day",
        "make_dt_interval(int(id)) AS took",
        "cast(id AS decimal(12, 2)) AS price",
        "cast(concat('b', id) AS binary) AS bytes",
        "array(id, null) AS list",
        "named_struct('n', id, 'inner', named_struct('s', 'x')) AS struct",
        "null AS nothing",
    )
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = SparkSource.of(frame, elements="dicts").run_with(Sink.to_list()).result(END_S)
        expected = frame.toArrow().to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert rows == expected
    assert str(rows[0]["time"].tzinfo) == "America/New_York"  # the zone of the session


def test_batches_have_as_many_rows_as_the_session_says(spark: Any) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        source = SparkSource.of(spark.range(0, 40, 1, 2), elements="batches")
        batches = source.run_with(Sink.to_list()).result(END_S)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert [batch.num_rows for batch in batches] == [7, 7, 6, 7, 7, 6]


def test_rows_reach_the_driver_without_a_python_worker(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row went through a Python worker of Spark, for nothing but another form."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/python/here")
    rows = SparkSource.of(spark.range(3).repartition(2).sort("id")).run_with(Sink.to_list()).result(END_S)
    assert rows == [(0,), (1,), (2,)]


def test_a_stream_that_ends_early_leaves_the_session_usable(spark: Any) -> None:
    source = SparkSource.of(spark.range(0, 50_000, 1, 4))
    assert source.take(3).run_with(Sink.to_list()).result(END_S) == [(0,), (1,), (2,)]
    assert spark.range(5).count() == 5


def test_a_job_that_fails_fails_the_stream(spark: Any) -> None:
    failing = SparkSource.of(spark.range(3).selectExpr("raise_error('no such flight')"))
    with pytest.raises(Exception, match="no such flight"):
        failing.run_with(Sink.ignore()).result(END_S)


def test_no_rows_is_an_empty_stream(spark: Any) -> None:
    assert SparkSource.of(spark.range(0)).run_with(Sink.to_list()).result(END_S) == []


def test_rows_that_cannot_be_replayed_are_refused_before_spark_sink(spark: Any, tmp_path: Any) -> None:
    sink = SparkSink.foreach_batch(spark, lambda df, epoch: None, "n long", tmp_path / "ck")
    with pytest.raises(BuildError, match="source 'spark_frame' cannot be replayed"):
        SparkSource.of(spark.range(3)).to(sink).run()


# ── streaming ─────────────────────────────────────────────────────────────────────────────────────────────────────────

N_FILES = 3


@pytest.fixture
def files(spark: Any, tmp_path: Path) -> Any:
    """A streaming DataFrame over JSON files, one file per batch, and the function that writes the next file."""
    folder = tmp_path / "in"
    folder.mkdir()

    def write(i: int) -> None:
        text = "\n".join(f'{{"n": {i * 10 + j}}}' for j in range(10))
        (tmp_path / f"{i}.tmp").write_text(text)
        os.utime(tmp_path / f"{i}.tmp", (1_700_000_000 + i, 1_700_000_000 + i))  # Spark's order of files
        (tmp_path / f"{i}.tmp").rename(folder / f"{i}.json")

    def frame() -> Any:
        return spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(folder))

    return write, frame


def test_a_streaming_frame_is_a_source_whose_batches_are_marks(spark: Any, tmp_path: Path, files: Any) -> None:
    write, frame = files
    for i in range(N_FILES):
        write(i)

    seen: list[int] = []

    def stream() -> Any:
        source = SparkSource.of_stream(frame(), checkpoint=tmp_path / "ck", trigger="available_now")
        query, done = source.map(lambda row: row[0]).to_mat(Sink.foreach(seen.append), Keep.both).run()
        done.result(END_S)
        assert query.await_termination(END_S)
        return query

    query = stream()
    assert seen == list(range(30))
    assert query.progress()["batches"] == N_FILES
    write(N_FILES)
    stream()
    assert seen == list(range(40))


def test_a_batch_that_was_done_before_a_crash_is_recognised_and_one_that_was_not_comes_again(
    spark: Any, tmp_path: Path, files: Any
) -> None:
    write, frame = files
    for i in range(2):
        write(i)
    seen: list[int] = []

    def run(fn: Any = seen.append) -> Any:
        source = SparkSource.of_stream(frame(), checkpoint=tmp_path / "ck", trigger="available_now")
        return source.map(lambda row: row[0]).to_mat(Sink.foreach(fn), Keep.both).run()

    def fails_at_15(n: int) -> None:
        if n == 15:
            raise OSError("the disk is full")
        seen.append(n)

    query, done = run(fails_at_15)
    assert isinstance(done.exception(END_S), OSError)
    query.completion.exception(END_S)
    assert seen == list(range(15))
    query, done = run()
    done.result(END_S)
    assert seen == list(range(15)) + list(range(10, 20))
    # the crash between the last row's effect and Spark's commit: the commit file is gone, ours is there
    (commit,) = (tmp_path / "ck" / "commits").glob("1")
    commit.unlink()
    for shadow in (tmp_path / "ck" / "commits").glob(".1.crc"):
        shadow.unlink()
    before = len(seen)
    _, done = run()
    done.result(END_S)
    assert len(seen) == before


def test_a_stage_that_blurs_cuts_and_a_second_owner_are_refused(spark: Any, tmp_path: Path, files: Any) -> None:
    _, frame = files
    source = SparkSource.of_stream(frame(), checkpoint=tmp_path / "ck")
    with pytest.raises(BuildError, match=r"SparkSource.of_stream, .* needs exact cuts, and stage 'grouped' blurs them"):
        source.grouped(7).to(Sink.ignore()).run()
    sink = SparkSink.foreach_batch(spark, lambda df, epoch: None, "n long", tmp_path / "ck2")
    with pytest.raises(BuildError, match="Spark's checkpoint of the source"):
        source.to(sink).run()
    with pytest.raises(
        BuildError, match=r"takes a batch DataFrame, and this one is streaming; use SparkSource.of_stream"
    ):
        SparkSource.of(frame())
    with pytest.raises(BuildError, match=r"takes a streaming DataFrame, and this one is not; use SparkSource.of\(df\)"):
        SparkSource.of_stream(spark.range(3), checkpoint=tmp_path / "ck")


def test_leaving_the_stream_stops_the_query(spark: Any, tmp_path: Path, files: Any) -> None:
    write, frame = files
    write(0)
    source = SparkSource.of_stream(frame(), checkpoint=tmp_path / "ck")
    query, done = source.take(3).to_mat(Sink.to_list(), Keep.both).run()
    assert done.result(END_S) == [(0,), (1,), (2,)]
    assert query.await_termination(END_S)


def test_a_pyspark_without_the_way_of_record_batches_is_named(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.range(3)  # PySpark imports it itself with the first frame
    monkeypatch.delattr("pyspark.util._local_iterator_from_socket")
    with pytest.raises(
        SparkSetupError, match=r"SparkSource.of cannot read record batches with PySpark \d.*_local_iterator_from_socket"
    ):
        SparkSource.of(frame).run_with(Sink.to_list()).result(60)
