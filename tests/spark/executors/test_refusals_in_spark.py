"""What a graph on Spark's executors refuses, and how the errors of its tasks name their cause."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from streamactors import BuildError, Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Admin,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    TopicPartition,
    Transactional,
)
from streamactors.kafka.errors import RecordsGone, TopicNotFound
from streamactors.spark import CheckpointError, SparkExecutors, SparkQueryFailed, SparkSink, SparkSinkSettings
from streamactors.spark.sink.batch_size import MAX_ROWS
from tests.spark.executors._plain import write_rows
from tests.spark.executors.in_spark import END_S, HOURS, counted, new_topic, records_of, rows_of


class OrderRejected(Exception):
    """An exception of a user, whose name does not end as those of Python do."""


def failing(spark: Any, stream: Any, folder: Path, schema: str = "n long") -> BaseException | None:
    sink = SparkSink.foreach_batch(spark, lambda df, epoch: df.count(), schema, folder)
    query = stream.to_mat(sink, Keep.right).run(SparkExecutors(spark))
    query.completion.exception(END_S)
    return query.exception()  # type: ignore[no-any-return]


@pytest.mark.slow
def test_errors_of_tasks_topics_and_checkpoints_name_their_cause(spark: Any, cluster: Any, tmp_path: Path) -> None:
    topic = new_topic()
    error = failing(spark, records_of(cluster, topic).map(lambda record: (1,)), tmp_path / "none")
    assert isinstance(error, TopicNotFound)

    write_rows(cluster, topic, rows_of(8, 20))
    bad = records_of(cluster, topic).map(lambda record: (1 // (record.value - 7),)).named("divide")
    error = failing(spark, bad, tmp_path / "user")
    assert isinstance(error, SparkQueryFailed)
    assert "a task failed: ZeroDivisionError" in str(error)
    assert "in stage divide" in str(error)

    def refuses(record: Any) -> Any:
        raise OrderRejected("no price")

    error = failing(spark, records_of(cluster, topic).map(refuses).named("price"), tmp_path / "own")
    assert type(error) is SparkQueryFailed
    assert re.match(r"a task failed: OrderRejected: no price \(in stage price, element Record\(.*\)$", str(error))
    aggregated = (
        records_of(cluster, topic).group_by_key().windowed_by(HOURS).aggregate(int, lambda n, value: 1 // (value - 7))
    )
    error = failing(spark, aggregated.to_stream().map(lambda row: (row.value,)), tmp_path / "aggregate")
    assert isinstance(error, SparkQueryFailed)  # the thread that waits for Spark died here, and the query never ended
    assert "a task failed: AggregationFailed: aggregate" in str(error)

    assert failing(spark, records_of(cluster, topic).map(lambda record: (1,)), tmp_path / "ck") is None
    windows = counted(records_of(cluster, topic)).map(lambda row: (row.value,))
    error = failing(spark, windows, tmp_path / "ck")
    assert isinstance(error, CheckpointError)
    assert "was written by a graph without windows" in str(error)
    assert failing(spark, windows, tmp_path / "windows") is None
    other = records_of(cluster, topic).group_by_key().windowed_by(HOURS).count(name="others").to_stream()
    error = failing(spark, other.map(lambda row: (row.value,)), tmp_path / "windows")
    assert isinstance(error, CheckpointError)
    assert "count-store-0000000001" in str(error)
    assert "others-store" in str(error)
    error = failing(spark, records_of(cluster, topic).map(lambda record: (1,)), tmp_path / "windows")
    assert isinstance(error, CheckpointError)
    assert "has the windows count-store-0000000001" in str(error)
    assert "this graph has no windows" in str(error)
    elsewhere = new_topic()
    write_rows(cluster, elsewhere, [])
    error = failing(spark, records_of(cluster, elsewhere).map(lambda record: (1,)), tmp_path / "ck")
    assert isinstance(error, CheckpointError)
    assert topic in str(error)
    assert elsewhere in str(error)

    with Cluster() as other_cluster:
        write_rows(other_cluster, topic, [])
        error = failing(spark, records_of(other_cluster, topic).map(lambda record: (1,)), tmp_path / "ck")
    assert isinstance(error, CheckpointError)
    assert len(re.findall(r"cluster id [\w-]+", str(error))) == 2

    cluster.delete_topic(topic)
    cluster.create_topic(topic, partitions=2)
    error = failing(spark, records_of(cluster, topic).map(lambda record: (1,)), tmp_path / "ck")
    assert isinstance(error, (RecordsGone, CheckpointError))
    assert topic in str(error)


def test_settings_are_given_once(spark: Any, cluster: Any, tmp_path: Path) -> None:
    rows = records_of(cluster, "t").map(lambda record: (1,))

    def graph(max_rows: int = MAX_ROWS, **settings: Any) -> Any:
        given = SparkSinkSettings(**settings)
        return rows.to(SparkSink.foreach_batch(spark, print, "n long", tmp_path / "ck", max_rows, given))

    with pytest.raises(BuildError, match=r"checkpoint /there differs from the sink's .*ck; give it once"):
        graph().run(SparkExecutors(spark, checkpoint="/there"))
    with pytest.raises(BuildError, match="max_rows 5 differs from the sink's 7"):
        graph(max_rows=7).run(SparkExecutors(spark, max_rows=5))
    with pytest.raises(BuildError, match="a query with an interval as trigger does not"):
        graph().run(SparkExecutors(spark, trigger="5 seconds"))
    with pytest.raises(BuildError, match=r"trigger .* differs from the sink's"):
        graph(trigger=3).run(SparkExecutors(spark, trigger=2))
    with pytest.raises(BuildError, match="query_name 'b' differs from the sink's 'a'; give it once"):
        graph(query_name="a").run(SparkExecutors(spark, query_name="b"))
    with pytest.raises(BuildError, match="max_rows"):
        SparkExecutors(spark, max_rows=0)
    with pytest.raises(BuildError, match="SparkExecutors: query_name must be a string that is not empty, got 7"):
        SparkExecutors(spark, query_name=7)  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="SparkSinkSettings: query_name must be a string that is not empty, got ''"):
        graph(query_name="")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.expects_log("does not exist: its record was deleted")
def test_a_graph_into_a_topic_skips_deleted_records_where_it_is_asked_to(
    spark: Any, cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The error advised fail_on_data_loss=False, which only sinks of Spark had."""
    topic, out = new_topic(), new_topic()
    for name in (topic, out):
        cluster.create_topic(name, 1)
    servers = cluster.bootstrap_servers

    def write(*values: bytes) -> None:
        rows = Source.from_iterable([ProducerRecord(topic, value) for value in values])
        rows.run_with(Producer.plain_sink(ProducerSettings(servers))).result(END_S)

    def ended(**settings: Any) -> Any:
        consumer = ConsumerSettings(servers, group_id=topic, auto_offset_reset="earliest")
        source = Consumer.source(consumer, Subscriptions.topics(topic), until="end")
        end = Transactional.sink(ProducerSettings(servers, transactional_id=topic))
        graph = source.map(lambda record: ProducerRecord(out, record.value)).to_mat(end, Keep.right)
        query = graph.run(SparkExecutors(spark, checkpoint=tmp_path / "ck", **settings))
        query.completion.exception(END_S)
        return query

    write(b"0", b"1")
    query = ended()
    assert query.exception() is None
    # of a graph that ends in a topic Spark counted the tasks, and its query had no name
    assert query.progress()["batch_rows"] == 2
    assert query.spark_query.name == f"Transactional.sink {topic}"
    write(b"2", b"3")
    with Admin(ConsumerSettings(servers)) as admin:
        admin.delete_records({TopicPartition(topic, 0): 3})
    error = ended().exception()
    assert isinstance(error, RecordsGone)
    assert "fail_on_data_loss=False" in str(error)
    caplog.clear()
    query = ended(fail_on_data_loss=False, query_name="the rest")
    assert query.exception() is None
    said = [record.getMessage() for record in caplog.records if "retention" in record.getMessage()]
    assert said == [
        f"retention has passed the checkpoint: {topic}-0 2 to 2 is not there any more; the read continues after them"
    ]
    assert query.progress()["batch_rows"] == 1
    assert query.spark_query.name == "the rest"
    reader = ConsumerSettings(servers, group_id=out, auto_offset_reset="earliest")
    found = Consumer.plain_source(reader, Subscriptions.topics(out), until="end").run_with(Sink.to_list()).result(END_S)
    assert [record.value for record in found] == [b"0", b"1", b"3"]


def test_a_function_that_cannot_be_pickled_is_an_error_of_run_with_its_stage(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    lock = threading.Lock()
    rows = records_of(cluster, "t").map(lambda record: (lock and 1,)).named("locked")
    with pytest.raises(BuildError, match="SparkExecutors: stage 'locked' cannot be sent to Spark's workers"):
        rows.to(SparkSink.foreach_batch(spark, print, "n long", tmp_path / "ck")).run(SparkExecutors(spark))
