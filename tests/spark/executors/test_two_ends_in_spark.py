"""Results in Spark with late rows and dead letters in topics, and results in a topic with late rows in Spark: each is there once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Flow, Keep
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.spark import SparkExecutors, SparkSink
from tests.spark.executors._plain import in_process, write_rows
from tests.spark.executors.in_spark import END_S, counted, new_topic, records_of, rows_of

pytestmark = pytest.mark.timeout(400)
RESULT = "part int, key string, start long, n long"
LATE = "part int, key string, start long, ts long"


def written(cluster: Any, system: Any, topic: str) -> dict[int, list[Any]]:
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id=f"r-{topic}", auto_offset_reset="earliest")
    found: dict[int, list[Any]] = {}
    for record in Consumer.plain_source(settings, Subscriptions.topics(topic), until="end").run_iter(system):
        found.setdefault(record.partition, []).append(json.loads(record.value))
    return found


def parted(rows: list[Any]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for part, *row in rows:
        found.setdefault(part, []).append(row)
    return found


def wanted_of(cluster: Any, system: Any, topic: str) -> tuple[dict[int, list[Any]], dict[int, list[Any]]]:
    """Results as (key, start, n) and late rows as (key, start, timestamp), by partition."""
    wanted = in_process(system, counted, records_of(cluster, topic, group="here"))
    results = {p: [[row[1], row[2], row[5]] for row in rows] for p, rows in wanted.results.items()}
    late = {p: [[row[2], row[6], row[4]] for row in rows] for p, rows in wanted.late.items()}
    assert sum(map(len, late.values())) > 3
    return results, late


@pytest.mark.slow
def test_late_rows_go_to_a_topic_though_the_function_takes_no_row_of_the_results(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    topic, late_topic = new_topic(), new_topic()
    write_rows(cluster, topic, rows_of(1))
    cluster.create_topic(late_topic, partitions=2)
    taken: list[Any] = []
    epochs: list[int] = []

    def write(df: Any, epoch: int) -> None:
        epochs.append(epoch)
        if len(epochs) > 1:
            taken.extend(df.collect())

    late = Flow.map(
        lambda row: ProducerRecord(
            late_topic,
            json.dumps([row.record.key, row.start, row.record.timestamp]),
            partition=row.context.partition,
        )
    ).to(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers)))
    rows = counted(records_of(cluster, topic), late).map(
        lambda row: (row.context.partition, row.key, row.start, row.value)
    )
    sink = SparkSink.foreach_batch(spark, write, RESULT, tmp_path / "ck", max_rows=90)
    control, query = rows.to_mat(sink, Keep.both).run(SparkExecutors(spark))
    assert query.await_termination(END_S)
    control.is_shutdown.result(END_S)
    results, lates = wanted_of(cluster, system, topic)
    assert written(cluster, system, late_topic) == lates
    assert len(epochs) >= 3
    for part, found in parted(taken).items():
        assert 0 < len(found) < len(results[part])
        assert found == results[part][-len(found) :]  # the first batch was not taken


@pytest.mark.slow
def test_results_go_to_a_topic_and_late_rows_to_spark(spark: Any, cluster: Any, system: Any, tmp_path: Path) -> None:
    topic, out = new_topic(), new_topic()
    write_rows(cluster, topic, rows_of(1))
    cluster.create_topic(out, partitions=2)
    late_rows: list[Any] = []
    late = Flow.map(lambda row: (row.context.partition, row.record.key, row.start, row.record.timestamp)).to(
        SparkSink.foreach_batch(spark, lambda df, epoch: late_rows.extend(df.collect()), LATE, tmp_path / "ck")
    )
    results = counted(records_of(cluster, topic), late).map(
        lambda row: ProducerRecord(out, json.dumps([row.key, row.start, row.value]), partition=row.context.partition)
    )
    graph = results.to(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers)))
    query = graph.run(SparkExecutors(spark, max_rows=90))  # the checkpoint is that of the sink of late rows
    assert query.await_termination(END_S)
    wanted, lates = wanted_of(cluster, system, topic)
    assert written(cluster, system, out) == wanted
    assert parted(late_rows) == lates


@pytest.mark.slow
def test_dead_letters_go_to_a_topic_beside_results_in_spark(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    topic, dead = new_topic(), new_topic()
    for name in (topic, dead):
        cluster.create_topic(name, partitions=2)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
    for i in range(60):
        producer.produce(topic, b"%d" % i if i % 4 else b"no json", partition=i % 2)
    assert producer.flush(30) == 0
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id=f"g-{topic}", auto_offset_reset="earliest")
    source = Consumer.records(settings, Subscriptions.topics(topic), value="json", dead_letters=dead, until="end")
    seen: list[int] = []

    def write(df: Any, epoch: int) -> None:
        rows = df.collect()
        assert df.count() == len(rows)  # a second action runs no task again
        seen.extend(row.n for row in rows)

    sink = SparkSink.foreach_batch(spark, write, "n long", tmp_path / "ck", max_rows=25)
    query = source.map(lambda record: (record.value,)).to_mat(sink, Keep.right).run(SparkExecutors(spark))
    assert query.await_termination(END_S)
    assert sorted(seen) == [i for i in range(60) if i % 4]
    reading = ConsumerSettings(cluster.bootstrap_servers, group_id="r", auto_offset_reset="earliest")
    letters = Consumer.plain_source(reading, Subscriptions.topics(dead), until="end").run_iter(system)
    assert [letter.value for letter in letters] == [b"no json"] * 15
