"""What cannot work is refused in one sentence, where it is written or before anything runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from streamactors import Flow, Keep, Merge, RestartSettings, RestartSource, Sink, Source
from streamactors.errors import BuildError
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.spark import CheckpointError, SparkSetupError, SparkSink, SparkSinkSettings, SparkStreamQuery
from streamactors.spark.errors import SparkError
from streamactors.windows import TimeWindows

pytestmark = pytest.mark.timeout(600)
END_S = 300.0
SETTINGS = ConsumerSettings("127.0.0.1:1", group_id="g")
TOPIC = Subscriptions.topics("t")
ENDS = SparkSinkSettings(trigger="available_now")


@pytest.fixture
def sink(spark: Any, tmp_path: Path) -> Sink[Any, SparkStreamQuery]:
    return SparkSink.foreach_batch(spark, lambda df, epoch: None, "n long", tmp_path / "ck")


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (Flow.scan(0, lambda a, b: a + b), r"remembers earlier elements; write its results with through_topic"),
        (Flow.grouped(3), r"'grouped' blurs them"),
        (Flow.map_async_unordered(2, lambda n: n), r"use map_async for map_async_unordered"),
        (Flow.sliding(2), r"blurs them"),
        (Flow.drop(1), r"remembers"),
    ],
)
def test_a_path_that_blurs_or_remembers_names_the_stage_and_the_way_out(
    sink: Sink[Any, Any], flow: Flow[Any, Any, Any], said: str
) -> None:
    with pytest.raises(BuildError, match=f"SparkSink.foreach_batch .*{said}"):
        Source.range(0, 10).via(flow).to(sink).run()


def test_windows_in_this_process_are_refused_and_executors_named(sink: Sink[Any, Any]) -> None:
    records = Consumer.records(SETTINGS, TOPIC, key="string", value="json")
    counts = records.group_by_key().windowed_by(TimeWindows.of_size("1h").with_grace("1m")).count().to_stream()
    said = r"SparkSink.foreach_batch .*'windows' .*run the graph on Spark's executors: graph\.run\(SparkExecutors\(spark\)\)"
    with pytest.raises(BuildError, match=said):
        counts.map(lambda hour: (hour.value,)).to(sink).run()


def test_a_merge_is_refused(sink: Sink[Any, Any]) -> None:
    with pytest.raises(BuildError, match="'merge' blurs"):
        Source.combine([Source.range(0, 3), Source.range(0, 3)], Merge).to(sink).run()


@pytest.mark.parametrize(
    "source",
    [Source.queue(10), Source.tick("1ms", "1ms", "x"), Source.from_iterable(iter([1])), Source.repeat(1)],
    ids=["queue", "tick", "iterator", "repeat"],
)
def test_a_source_that_cannot_be_read_again_is_refused(sink: Sink[Any, Any], source: Source[Any, Any]) -> None:
    with pytest.raises(BuildError, match="cannot be replayed; write it to a topic"):
        source.to(sink).run()


@pytest.mark.parametrize("of", [Source.range(0, 10), Consumer.source(SETTINGS, TOPIC)], ids=["range", "kafka"])
def test_a_source_that_is_made_anew_within_the_run_is_refused(sink: Sink[Any, Any], of: Source[Any, Any]) -> None:
    """Spark's checkpoint says where a run begins; elements of the first instance may still be on their way when the second begins."""
    source = RestartSource.on_failures_with_backoff(RestartSettings("1ms", "2ms"), lambda: of)
    with pytest.raises(BuildError, match=r"'restart_source' creates its source again .* run the whole graph again"):
        source.async_boundary().to(sink).run()


def test_a_source_with_two_sparks_behind_it_is_refused(spark: Any, sink: Sink[Any, Any], tmp_path: Path) -> None:
    other = SparkSink.foreach_batch(spark, lambda df, epoch: None, "n long", tmp_path / "other")
    with pytest.raises(BuildError, match=r"'range' would have 2 owners in one run.*use two graphs"):
        Source.range(0, 3).also_to(other).to(sink).run()


def test_a_transaction_beside_spark_is_refused(sink: Sink[Any, Any]) -> None:
    settings = ProducerSettings("127.0.0.1:1").with_transactional_id("t")
    branch = Flow.of(object).map(lambda _: ProducerRecord("t", b"")).to(Transactional.sink(settings))
    with pytest.raises(BuildError, match=r"2 owners in one run, Spark's checkpoint .* and the run's transaction"):
        Consumer.source(SETTINGS, TOPIC).also_to(branch).to(sink).run()


@pytest.mark.parametrize(
    "source",
    [Consumer.committable_source, Consumer.at_most_once_source, Transactional.source],
    ids=["committable", "at_most_once", "transactional"],
)
def test_a_source_whose_offsets_somebody_else_keeps_is_refused(sink: Sink[Any, Any], source: Any) -> None:
    with pytest.raises(BuildError, match="2 owners in one run"):
        source(SETTINGS, TOPIC).to(sink).run()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"fn": 5}, "expects a function"),
        ({"schema": "n lng"}, r"schema 'n lng': \[UNSUPPORTED_DATATYPE\]"),
        ({"schema": "n long,, k"}, r"schema 'n long,, k': \[PARSE_SYNTAX_ERROR\] \S+"),
        ({"schema": ""}, "schema"),
        ({"schema": "n long, n int"}, "twice"),
        ({"schema": 5}, "schema must be DDL"),
        (
            {"schema": "n long, t time"},
            "schema: field 't' is of type TIME, which Spark does not take .*bigint of microseconds",
        ),
        ({"schema": "a array<struct<t: time(3)>>"}, r"field 'a\.element\.t' is of type TIME"),
        ({"schema": "m map<string, time>"}, r"field 'm\.value' is of type TIME"),
        ({"checkpoint": ""}, "checkpoint must be a folder"),
        ({"checkpoint": 5}, "checkpoint must be a folder"),
        ({"max_rows": 0}, "max_rows"),
        ({"settings": {"trigger": 5}}, "SparkSink.foreach_batch: settings must be SparkSinkSettings"),
        ({"spark": "spark"}, "a SparkSession expected, got str"),
    ],
)
def test_arguments_are_checked_where_they_are_written(
    spark: Any, tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    good = {"spark": spark, "fn": lambda df, epoch: None, "schema": "n long", "checkpoint": tmp_path / "ck"}
    with pytest.raises(BuildError, match=said):
        SparkSink.foreach_batch(**{**good, **arguments})


@pytest.mark.parametrize("name", ["foreach_batch", "parquet", "delta"])
def test_a_setting_among_the_arguments_is_told_where_it_belongs(name: str) -> None:
    """`trigger="5 seconds"` was an unexpected keyword argument, as if the sinks had no trigger."""
    factory: Any = getattr(SparkSink, name)
    said = re.escape(
        f"SparkSink.{name}: trigger is one of its settings: settings=SparkSinkSettings(trigger='5 seconds')"
    )
    with pytest.raises(TypeError, match=said):
        factory("spark", "x", "n long", "ck", trigger="5 seconds")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"partition_by": ["epoch_id"]}, "own columns"),
        ({"partition_by": ["Epoch_ID"]}, "own columns"),
        ({"schema": "query_id string, n long"}, "SparkSink.parquet: schema: column 'query_id' has the name"),
        ({"schema": "n long, epoch_id long"}, "column 'epoch_id' has the name of one of the table's own columns"),
        ({"schema": "Query_ID string"}, "column 'Query_ID' has the name"),
        ({"partition_by": [5]}, "names of columns"),
        ({"path": ""}, "path"),
    ],
)
def test_arguments_of_parquet_are_checked_too(spark: Any, tmp_path: Path, arguments: dict[str, Any], said: str) -> None:
    good = {"spark": spark, "path": tmp_path / "t", "schema": "n long", "checkpoint": tmp_path / "ck"}
    with pytest.raises(BuildError, match=said):
        SparkSink.parquet(**{**good, **arguments})


def test_spark_connect_is_refused_by_name(tmp_path: Path) -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(SparkSetupError, match="Spark Connect runs foreachBatch in a process of the server"):
        SparkSink.foreach_batch(session, lambda df, epoch: None, "n long", tmp_path)


def test_pyspark_too_old_is_said(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    with pytest.raises(SparkSetupError, match=r"PySpark 3\.5\.1 is too old, 4\.2 or newer is needed"):
        SparkSink.foreach_batch(spark, lambda df, epoch: None, "n long", tmp_path)


def fails_with(query: SparkStreamQuery, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        query.await_termination(END_S)


def run(spark: Any, folder: Path | str, source: Any, **more: Any) -> SparkStreamQuery:
    sink = SparkSink.foreach_batch(spark, lambda df, epoch: df.count(), "n long", folder, **more)
    query: SparkStreamQuery = source.to_mat(sink, Keep.right).run()
    return query


def test_checkpoints_that_cannot_be_gone_on_from(spark: Any, tmp_path: Path) -> None:
    """One checkpoint, and everything that may have happened to it."""
    import json
    import shutil

    whole = tmp_path / "whole"
    source = Source.range(0, 40).map(lambda n: (n,)).max_chunk(10)
    assert run(spark, whole, source, max_rows=10).await_termination(END_S)
    last = max(int(path.name) for path in (whole / "commits").iterdir() if path.name.isdigit())
    assert last >= 2

    def copy(name: str) -> Path:
        return Path(shutil.copytree(whole, tmp_path / name))

    fails_with(
        run(spark, copy("other"), Source.from_iterable([(1,)])),
        "belongs to another graph: it was written for range, this graph reads from_iterable",
    )
    for name, gone, said in [
        ("a", "streamactors.json", "was not written by this sink, or streamactors.json was deleted"),
        ("b", "metadata", "is incomplete: metadata"),
        ("c", f"offsets/{last}", f"is incomplete: offsets/{last} is gone"),
        ("d", f"commits/{last - 1}", f"is incomplete: commits/{last - 1} is gone"),
        ("e", "offsets", f"is incomplete: offsets/{last} is gone"),
    ]:
        folder = copy(name)
        for path in [folder / gone, (folder / gone).with_name(f".{Path(gone).name}.crc")]:
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
        if name == "d":
            (folder / f"commits/{last}").unlink()
        fails_with(run(spark, folder, source), said)
    torn = copy("torn")
    (torn / "streamactors.json").write_text(json.dumps({"version": 1})[:-3])
    fails_with(run(spark, torn, source), "streamactors.json cannot be read")
    shorter = copy("shorter")
    (shorter / f"commits/{last}").unlink()
    # where the last batch begins depends on the machine's speed; its last row is 39
    fails_with(
        run(spark, shorter, Source.range(0, 39).map(lambda n: (n,))),
        "cannot be repeated: the input ended with 0/0 at 39",
    )


def test_two_queries_on_one_checkpoint(spark: Any, tmp_path: Path) -> None:
    import threading

    inside, go_on = threading.Event(), threading.Event()

    def waits(df: Any, epoch: int) -> None:
        inside.set()
        assert go_on.wait(END_S)

    source = Source.range(0, 3).map(lambda n: (n,))
    first: SparkStreamQuery = source.to_mat(
        SparkSink.foreach_batch(spark, waits, "n long", tmp_path / "ck"), Keep.right
    ).run()
    assert inside.wait(END_S)
    fails_with(run(spark, tmp_path / "ck", source), "in use by another query")
    go_on.set()
    assert first.await_termination(END_S)


def test_available_now_needs_a_source_that_ends(spark: Any, tmp_path: Path) -> None:
    query = run(spark, tmp_path / "ck", Consumer.source(SETTINGS, TOPIC).map(lambda r: (1,)), settings=ENDS)
    with pytest.raises(SparkSetupError, match="topic t never ends"):
        query.await_termination(END_S)


def test_a_checkpoint_where_nothing_can_be_written(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    fails_with(run(spark, tmp_path / "file" / "ck", Source.range(0, 3)), "checkpoint .*Not a directory")


@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [
        ("foo://bucket/ck", 'Spark cannot use its file system: .*No FileSystem for scheme "foo"'),
        ("s3a://bucket/ck", "Spark cannot use its file system: .*S3AFileSystem not found"),
        ("hdfs://127.0.0.1:1/ck", "ConnectException: .*refused"),
    ],
)
def test_a_checkpoint_on_a_file_system_that_cannot_be_reached(spark: Any, checkpoint: str, said: str) -> None:
    # each exception of Java's was taken for a JVM that had gone away
    query = run(spark, checkpoint, Source.range(0, 3))
    with pytest.raises(SparkError, match=f"{checkpoint}: {said}"):
        query.await_termination(END_S)


def test_a_delta_table_needs_delta_lake_in_the_session(spark: Any, tmp_path: Path) -> None:
    """tests/spark/delta runs the sink, with the PySpark that Delta Lake is made for."""
    said = rf"Delta Lake 4\.4\.0.*made for Spark 4\.2, and Spark {re.escape(spark.version)} runs here; install PySpark 4\.2.*io\.delta:delta-spark_4\.2_2\.13"
    with pytest.raises(SparkSetupError, match=said):
        SparkSink.delta(spark, tmp_path / "table", "n long", tmp_path / "ck")
