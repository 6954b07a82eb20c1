"""The same graph in this process and on Spark's executors: the same rows, late rows and finals, in the same order per partition."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from streamactors import BuildError, Flow, Keep
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    DrainingControl,
    MetadataClient,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.spark import SparkExecutors, SparkSink, SparkSource
from streamactors.spark.query import runner as query_runner
from tests.spark.executors._plain import in_process, write_rows
from tests.spark.executors.in_spark import END_S, counted, new_topic, records_of, rows_of
from tests.spark.own_queries import finished

pytestmark = pytest.mark.timeout(400)


ROW = "part int NOT NULL, key string NOT NULL, start long, n long, ts long, offset long, seen double"


LATE = "part int NOT NULL, key string NOT NULL, start long, ts long, offset long"


def to_row(row: Any) -> tuple[Any, ...]:
    return row.context.partition, row.key, row.start, row.value, row.timestamp, row.context.offset, row.value / 2


def to_late(row: Any) -> tuple[Any, ...]:
    return row.context.partition, row.record.key, row.start, row.record.timestamp, row.context.offset


def parted(rows: list[Any]) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(tuple(row))
    return found


@pytest.mark.slow
def test_windows_with_late_rows_run_on_executors_batch_by_batch_and_go_on_after_the_end(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    topic = new_topic()
    written: list[Any] = []
    late_rows: list[Any] = []
    epochs: list[int] = []

    def write(df: Any, epoch: int) -> None:
        epochs.append(epoch)
        written.extend(df.collect())

    def run() -> Any:
        late = SparkSink.foreach_batch(
            spark, lambda df, epoch: late_rows.extend(df.collect()), LATE, tmp_path / "unused"
        )
        sink = SparkSink.foreach_batch(spark, write, ROW, tmp_path / "ck", max_rows=90)
        stream = counted(records_of(cluster, topic), _late_to(late))
        control, query = stream.map(to_row).to_mat(sink, Keep.both).run(SparkExecutors(spark))
        assert query.await_termination(END_S)
        control.is_shutdown.result(END_S)
        return query

    write_rows(cluster, topic, rows_of(1))
    query = run()
    wanted = in_process(system, lambda records, late: counted(records, late), records_of(cluster, topic, group="here"))
    assert parted(written) == {part: [_plain(row) for row in rows] for part, rows in wanted.results.items()}
    assert sum(map(len, wanted.late.values())) > 3
    assert {part: len(rows) for part, rows in parted(late_rows).items()} == {p: len(r) for p, r in wanted.late.items()}
    assert len(epochs) >= 3
    assert query.progress()["checkpoint"] == {f"0/{topic}-{p}": sum(r[0] == p for r in rows_of(1)) for p in (0, 1)}
    with MetadataClient(ConsumerSettings(cluster.bootstrap_servers, group_id=f"g-{topic}")) as client:
        assert sum(client.committed([(topic, 0), (topic, 1)]).values()) == 200
    # the next run goes on behind the end; the single process keeps its state in changelog topics
    written.clear()
    write_rows_again(cluster, topic, rows_of(2, 100, 200))
    run()
    again = in_process(system, lambda records, late: counted(records, late), records_of(cluster, topic, group="here"))
    assert parted(written) == {part: [_plain(row) for row in rows] for part, rows in again.results.items()}
    assert written


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["results", "results and late rows"])
def test_a_function_that_does_not_take_all_rows_leaves_no_state_out(
    spark: Any, cluster: Any, tmp_path: Path, late: bool
) -> None:
    # A task that is left early writes no state: each batch was computed again from the first record, longer and longer.
    topic = new_topic()
    write_rows(cluster, topic, rows_of(31))

    def write(df: Any, epoch: int) -> None:
        df.limit(1).collect()

    sink = SparkSink.foreach_batch(spark, write, ROW, tmp_path / "ck", max_rows=90)
    late_rows = Flow.map(to_late).to(SparkSink.foreach_batch(spark, write, LATE, tmp_path / "no")) if late else None
    graph = counted(records_of(cluster, topic), late_rows).map(to_row).to_mat(sink, Keep.right)
    query = graph.run(SparkExecutors(spark))
    assert query.await_termination(END_S)
    ends = query.progress()["checkpoint"]
    assert query.progress()["batches"] >= 3
    for partition in (0, 1):
        names = {path.stem for path in (tmp_path / "ck" / "streamactors-state" / f"{topic}-{partition}").iterdir()}
        assert f"{ends[f'0/{topic}-{partition}']}e" in names
        assert len(names) >= 2


@pytest.mark.slow
def test_rows_of_two_topics_come_in_time_order_into_a_topic_and_into_a_frame(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    topics = new_topic(), new_topic()
    write_rows(cluster, topics[0], rows_of(21, 150))
    write_rows(cluster, topics[1], [(p, key, n, at + 700) for p, key, n, at in rows_of(22, 60)])
    out = new_topic()
    cluster.create_topic(out, partitions=2)
    written: list[Any] = []
    sink = SparkSink.foreach_batch(
        spark, lambda df, epoch: written.extend(df.collect()), ROW, tmp_path / "ck", max_rows=50
    )
    graph = counted(records_of(cluster, *topics)).map(to_row).to_mat(sink, Keep.right)
    query = graph.run(SparkExecutors(spark))
    assert query.await_termination(END_S)
    assert query.progress()["batches"] >= 4
    wanted = in_process(system, counted, records_of(cluster, *topics, group="here"))
    assert parted(written) == {part: [_plain(row) for row in rows] for part, rows in wanted.results.items()}

    results = counted(records_of(cluster, *topics, group="there")).map(
        lambda row: ProducerRecord(out, json.dumps([row.start, row.value]), row.key, row.context.partition)
    )
    sink = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    query = results.to(sink).run(SparkExecutors(spark, checkpoint=tmp_path / "topic", max_rows=50))
    assert query.await_termination(END_S)
    found: dict[int, list[Any]] = {}
    reading = ConsumerSettings(cluster.bootstrap_servers, auto_offset_reset="earliest")
    assigned = Subscriptions.assignment((out, 0), (out, 1))
    for record in Consumer.plain_source(reading, assigned, until="end").run_iter(system):
        found.setdefault(record.partition, []).append((record.key.decode(), *json.loads(record.value)))
    assert found == {part: [(row[1], row[2], row[5]) for row in rows] for part, rows in wanted.results.items()}


@pytest.mark.slow
def test_a_graph_without_windows_moves_between_this_process_and_the_executors_with_its_checkpoint(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    topic = new_topic()

    def run(*where: Any) -> None:
        rows = (
            records_of(cluster, topic)
            .filter(lambda record: record.value % 2)
            .map(lambda r: (r.context.partition, r.value))
        )
        sink = SparkSink.parquet(spark, tmp_path / "table", "part int, n long", tmp_path / "ck", partition_by="part")
        assert rows.to_mat(sink, Keep.right).run(*where).await_termination(END_S)

    write_rows(cluster, topic, rows_of(3, 50))
    run(SparkExecutors(spark))
    write_rows_again(cluster, topic, rows_of(4, 50, 50))
    run()
    write_rows_again(cluster, topic, rows_of(5, 50, 100))
    run(SparkExecutors(spark))
    found = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(row.n for row in found) == list(range(1, 150, 2))
    assert len({row.query_id for row in found}) == 1


def test_an_unbounded_graph_is_stopped_and_goes_on_behind_its_checkpoint(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    topic = new_topic()
    write_rows(cluster, topic, rows_of(6, 40))
    seen: list[int] = []
    arrived = threading.Event()

    def write(df: Any, epoch: int) -> None:
        seen.extend(row.n for row in df.collect())
        arrived.set()

    def start() -> tuple[Any, Any]:
        sink = SparkSink.foreach_batch(spark, write, "n long", tmp_path / "ck")
        rows = records_of(cluster, topic, until=None).map(lambda record: (record.value,))
        return rows.to_mat(sink, Keep.both).run(SparkExecutors(spark, max_rows=1_000))  # type: ignore[no-any-return]

    control, query = start()
    assert arrived.wait(END_S)
    while query.lag() != {f"0/{topic}-0": 0, f"0/{topic}-1": 0}:
        assert not query.completion.done(), query.exception()
        threading.Event().wait(0.05)
    arrived.clear()
    control.stop()
    assert query.await_termination(END_S)
    assert control.snapshot()["checkpoint"] == query.progress()["checkpoint"]
    write_rows_again(cluster, topic, rows_of(7, 10, 40))
    control, query = start()
    assert arrived.wait(END_S)
    query.stop()
    assert sorted(seen) == list(range(50))


def test_a_query_that_is_drained_ends_behind_the_batch_that_is_being_written(
    spark: Any, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: Queue[str] = Queue()
    monkeypatch.setattr(query_runner, "SLOW_END_S", 0.01)
    monkeypatch.setattr(query_runner._log, "warning", lambda text, *values: told.put(text % values))
    topic = new_topic()
    write_rows(cluster, topic, rows_of(12, 60))
    seen: list[int] = []
    writing, release = threading.Event(), threading.Event()

    def write(df: Any, epoch: int) -> None:
        writing.set()
        assert release.wait(END_S)
        seen.extend(row.n for row in df.collect())

    def start() -> Any:
        writing.clear()
        sink = SparkSink.foreach_batch(spark, write, "n long", tmp_path / "ck", max_rows=20)
        rows = records_of(cluster, topic, until=None).map(lambda record: (record.value,))
        return rows.to_mat(sink, DrainingControl.create).run(SparkExecutors(spark))

    control = start()
    assert writing.wait(END_S)
    control.stop()
    # other warnings may come before: on a busy machine a process of Spark comes up late
    while "it waits for the function that writes batch 0" not in told.get(timeout=END_S):
        pass
    release.set()
    control.drain_and_shutdown(timeout=END_S)
    assert 0 < len(seen) <= 20
    assert sum(control.snapshot()["checkpoint"].values()) == len(seen)
    control = start()
    while len(seen) < 60:
        assert not control.stream_completion.done(), control.stream_completion.exception(0)
        threading.Event().wait(0.05)
    control.drain_and_shutdown(timeout=END_S)
    assert sorted(seen) == list(range(60))


def test_a_topic_and_its_late_rows_are_written_by_the_tasks(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    topic, out, late_topic = new_topic(), new_topic(), new_topic()
    write_rows(cluster, topic, rows_of(9))
    cluster.create_topic(out, partitions=2)
    cluster.create_topic(late_topic, partitions=2)
    producer = ProducerSettings(cluster.bootstrap_servers)
    sink: Any = Producer.plain_sink(producer)
    late = Flow.map(lambda row: ProducerRecord(late_topic, str(row.start), row.record.key, row.context.partition)).to(
        sink
    )
    results = counted(records_of(cluster, topic), late).map(
        lambda row: ProducerRecord(out, json.dumps([row.start, row.value]), row.key, row.context.partition)
    )
    with pytest.raises(BuildError, match="needs SparkExecutors\\(spark, checkpoint=…\\)"):
        results.to(sink).run(SparkExecutors(spark))
    query = results.to(sink).run(SparkExecutors(spark, checkpoint=tmp_path / "ck", max_rows=120))
    assert query.await_termination(END_S)
    wanted = in_process(system, counted, records_of(cluster, topic, group="here"))
    written = Consumer.plain_source(
        ConsumerSettings(cluster.bootstrap_servers, group_id="r", auto_offset_reset="earliest"),
        Subscriptions.topics(out, late_topic),
        until="end",
    )
    found: dict[tuple[str, int], list[Any]] = {}
    for record in written.map(lambda r: (r.topic, r.partition, r.key.decode(), r.value.decode())).run_iter(system):
        found.setdefault(record[:2], []).append(record[2:])
    for partition, rows in wanted.results.items():
        assert found[out, partition] == [(row[1], json.dumps([row[2], row[5]])) for row in rows]
    assert sum(len(found.get((late_topic, p), [])) for p in (0, 1)) > 3


@pytest.mark.slow
def test_a_source_with_its_steps_is_a_streaming_frame_for_queries_of_sparks_own(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    topic = new_topic()
    write_rows(cluster, topic, rows_of(11, 60))
    source = records_of(cluster, topic, until=None).map(lambda record: (record.key, record.value))
    frame = SparkSource.frame(spark, source, "k string, n long", max_rows=40)
    assert frame.isStreaming
    counts = frame.groupBy("k").count()
    writing = counts.writeStream.outputMode("complete").format("memory").queryName(topic)
    query = finished(writing.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start)
    found = {row["k"]: row["count"] for row in spark.table(topic).collect()}
    assert found == dict(Counter(key for _, key, _, _ in rows_of(11, 60)))
    ends = {f"0/{topic}-{p}": sum(row[0] == p for row in rows_of(11, 60)) for p in (0, 1)}
    assert json.loads(query.lastProgress["sources"][0]["latestOffset"]) == ends
    elsewhere = new_topic()
    write_rows(cluster, elsewhere, [])
    other = records_of(cluster, elsewhere, until=None).map(lambda record: (record.key, record.value))
    writing = SparkSource.frame(spark, other, "k string, n long").writeStream.format("noop")
    writing = writing.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match=f"was written for topic {topic}, and this frame reads topic"):
        finished(writing.start)
    with pytest.raises(
        BuildError, match=r"SparkSource.frame: the state of 'windows' would need a checkpoint of its own"
    ):
        SparkSource.frame(spark, counted(records_of(cluster, topic)), ROW)
    with pytest.raises(BuildError, match=r"SparkSource.frame: stage 'scan' remembers"):
        SparkSource.frame(spark, source.scan(0, lambda n, _: n + 1), "n long")


def _late_to(sink: Any) -> Any:
    return Flow.map(to_late).to(sink)


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    _, key, start, _, _, value, timestamp, context = row
    return context.partition, key, start, value, timestamp, context.offset, value / 2


def write_rows_again(cluster: Any, topic: str, rows: Any) -> None:
    from confluent_kafka import Producer as BareProducer

    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1})
    for partition, key, value, at in rows:
        producer.produce(topic, json.dumps([value, at]), key, partition=partition)
    assert producer.flush(30) == 0
