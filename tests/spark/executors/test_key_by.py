"""key_by on executors: two queries under one handle, with a topic between them. The results are those of one process."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamactors import BuildError, Flow, Keep, Sink
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    MetadataClient,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.spark import SparkExecutors, SparkSink
from streamactors.windows import BufferConfig, Suppressed, TimeWindows
from tests.spark.executors._plain import spark_end, write_rows
from tests.spark.executors.test_in_spark import END_S, new_topic, records_of, rows_of, to_late, write_rows_again

pytestmark = pytest.mark.timeout(400)
CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())
LATE = "part int, key long, start long, ts long, offset long"
ROW = "key long, start long, n long, ts long, seen long"


def counted(records: Any, late: Any = None, grace: int = 50) -> Any:
    """Count by the remainder of the value: a key that the input's partitions do not follow."""
    windows = TimeWindows.of_size(100).with_grace(grace)
    keyed = records.key_by(lambda row: row.value % 3).windowed_by(windows, late=late)
    return keyed.count(name="n").suppress(CLOSED).to_stream()


def to_row(row: Any) -> tuple[Any, ...]:
    return row.key, row.start, row.value, row.timestamp, row.context.offset


def without_offset(rows: list[Any]) -> list[tuple[Any, ...]]:
    """An offset of the topic between counts the markers of transactions, and the two runs have different ones."""
    return [tuple(row)[:-1] for row in rows]


def test_a_graph_with_key_by_is_two_chains_and_explain_shows_both() -> None:
    settings = ConsumerSettings("nowhere:1", group_id="g")
    records = Consumer.records(settings, Subscriptions.topics("t"), key="string", value="json", until="end")
    graph = counted(records).map(to_row).to(spark_end())
    told = SparkExecutors.explain(None, graph).splitlines()  # type: ignore[arg-type]
    assert [line.split("  ")[0] for line in told] == [
        "Consumer.records",
        "map",
        "write g-n-repartition",
        "key_by",
        "key_by",
        "read g-n-repartition",
        "windows",
        "map",
        "SparkSink.foreach_batch",
    ]
    assert "the first query writes g-n-repartition, and the second query reads it" in told[3]
    assert "one task per partition reads its range of g-n-repartition" in told[4]
    assert "cannot run" not in "\n".join(told)


def test_a_second_key_by_is_refused(spark: Any, tmp_path: Path) -> None:
    settings = ConsumerSettings("nowhere:1", group_id="g")
    records = Consumer.records(settings, Subscriptions.topics("t"), key="string", value="json")
    twice = counted(counted(records).map(lambda row: row.record())).map(to_row)
    with pytest.raises(BuildError, match="after a second key_by, through_topic or a merge use two graphs"):
        twice.to(SparkSink.foreach_batch(spark, print, ROW, tmp_path / "ck")).run(SparkExecutors(spark))


@pytest.mark.slow
def test_rows_under_new_keys_give_the_results_and_late_rows_of_one_process(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    """One input partition: the topic between has the same order in both runs, so late rows are the same, too."""
    topic = new_topic()
    write_rows(cluster, topic, [(0, *row[1:]) for row in rows_of(3)], partitions=1)
    written: list[Any] = []
    late_rows: list[Any] = []

    def run() -> Any:
        late = SparkSink.foreach_batch(spark, lambda df, epoch: late_rows.extend(df.collect()), LATE, tmp_path / "no")
        sink = SparkSink.foreach_batch(
            spark, lambda df, epoch: written.extend(df.collect()), ROW, tmp_path / "ck", max_rows=90
        )
        stream = counted(records_of(cluster, topic), Flow.map(to_late).to(late)).map(to_row)
        control, query = stream.to_mat(sink, Keep.both).run(SparkExecutors(spark))
        assert query.await_termination(END_S)
        control.is_shutdown.result(END_S)
        return query

    query = run()
    late_here: list[Any] = []
    late_sink = Sink.to_list().map_materialized_value(late_here.append)
    here = counted(records_of(cluster, topic, group="here"), late_sink).map(to_row)
    wanted = here.run_with(Sink.to_list(), system).result(END_S)
    wanted_late = late_here[0].result(END_S)
    assert without_offset(written) == without_offset(wanted)
    assert len(wanted) > 5
    assert without_offset(late_rows) == [
        (row.context.partition, row.record.key, row.start, row.record.timestamp) for row in wanted_late
    ]
    assert len(wanted_late) > 3
    between = f"g-{topic}-n-repartition"
    assert query.progress()["checkpoint"] == {
        f"0/{topic}-0": 200,
        f"0/{between}-0": query.progress()["checkpoint"][f"0/{between}-0"],
    }
    assert set(query.lag().values()) == {0}
    with MetadataClient(ConsumerSettings(cluster.bootstrap_servers, group_id=f"g-{topic}")) as client:
        assert client.committed([(topic, 0)]) == {(topic, 0): 200}
    # the next run goes on behind the end in both queries
    written.clear()
    write_rows_again(cluster, topic, [(0, *row[1:]) for row in rows_of(4, 100, 200)])
    run()
    again = counted(records_of(cluster, topic, group="here")).map(to_row).run_with(Sink.to_list(), system).result(END_S)
    assert without_offset(written) == without_offset(again)
    assert again


@pytest.mark.slow
def test_an_unbounded_graph_runs_both_queries_side_by_side_until_it_is_stopped(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    topic, out = new_topic(), new_topic()
    write_rows(cluster, topic, [(0, "abc"[i % 3], i, i * 7) for i in range(200)])
    cluster.create_topic(out, partitions=1)
    records = records_of(cluster, topic, until=None)
    results = counted(records, grace=200).map(lambda row: ProducerRecord(out, json.dumps(to_row(row)[:3])))
    sink = Transactional.sink(ProducerSettings(cluster.bootstrap_servers, transactional_id=out))
    query = results.to(sink).run(SparkExecutors(spark, checkpoint=tmp_path / "ck"))
    wanted = Counter(((i % 3), i * 7 // 100 * 100) for i in range(200))
    settings = ConsumerSettings(cluster.bootstrap_servers, "reader", "earliest")
    found: dict[tuple[int, int], int] = {}
    arrived = threading.Event()

    def take(record: Any) -> None:
        key, start, n = json.loads(record.value)
        assert (key, start) not in found
        found[key, start] = n
        if len(found) >= 25:
            arrived.set()

    control = Consumer.source(settings, Subscriptions.topics(out)).to_mat(Sink.foreach(take), Keep.left).run()
    assert arrived.wait(END_S)
    query.stop()
    assert not query.is_active
    assert query.exception() is None
    control.shutdown().result(30)
    assert all(wanted[each] == n for each, n in found.items())
