"""What a worker of Spark keeps from run to run of a query: Spark does not end it with the query, and each run comes with another parcel."""

from __future__ import annotations

import gc
import uuid
import weakref
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamactors.kafka import ConsumerSettings, ProducerRecord, ProducerSettings, Subscriptions, Transactional
from streamactors.kafka.client.range_writer import RangeWriter
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.executors.planner import Plans
from streamactors.spark.executors.query import ShippedQuery
from streamactors.spark.executors.ranges import At, Range
from streamactors.spark.executors.topic_end import TopicEnd
from streamactors.spark.executors.translate import translate
from streamactors.spark.shipping.parcel import pack, unpack
from tests.spark.executors._plain import read_rows, spark_end, write_rows
from tests.spark.executors.test_topic_end import counted


def run_of(cluster: Any, topic: str, graph: Any, end: TopicEnd | None, state_folder: str = "") -> Any:
    """Return the query as a worker opens it in another run: with another parcel."""
    program = translate(graph.module).program
    if program.windows is not None:
        program.windows.partitions = 2
    plans = Plans(
        settings=ConsumerSettings(cluster.bootstrap_servers, group_id=topic),
        subscription=Subscriptions.topics(topic),
        first={},
        ends=None,
        commits=False,
        windows=bool(state_folder),
        idle_after_ms=None,
        state_folder=state_folder,
        max_rows=100,
        target_ms=1_000,
        skip_lost=False,
        drain_file=uuid.uuid4().hex,
    )
    schema = pa.schema([("partition", pa.int32()) if end is not None else ("n", pa.int64())])
    return unpack(pack(ShippedQuery(plans, program, schema, end), "a test"))


def run(shipped: Any, topic: str, start: int, end: int) -> list[Any]:
    batches = shipped.read(Range(TopicPartition(topic, 0), At(start), At(end), 0).packed())
    return [row for batch in batches for row in batch.to_pylist()]


def test_the_next_run_of_a_query_takes_over_or_closes_the_writers_of_the_run_before(
    cluster: Any, open_writers: list[RangeWriter]
) -> None:
    # each run had writers of its own: two clients of librdkafka for each partition, for as long as the worker lived
    topic, out = f"t{uuid.uuid4().hex[:8]}", f"o{uuid.uuid4().hex[:8]}"
    write_rows(cluster, topic, [(0, "a", n, n) for n in range(9)])
    cluster.create_topic(out, partitions=1)
    settings = ProducerSettings(cluster.bootstrap_servers, transactional_id=topic)
    graph = read_rows(cluster, topic).map(lambda row: ProducerRecord(out, str(row.value)))
    end = TopicEnd(settings, f"{topic}.spark")

    def wrote(start: int, stop: int, group: str = end.group) -> int:
        """Return how many rows Spark counts."""
        another = run_of(cluster, topic, graph.to(Transactional.sink(settings)), TopicEnd(settings, group))
        return len(run(another, topic, start, stop))

    assert wrote(0, 3) == 3
    (first,) = open_writers
    assert wrote(3, 6) == 3
    assert open_writers == [first]  # it stands where this run begins
    assert wrote(3, 6) == 0
    assert open_writers == []  # it stood elsewhere, and nothing was to be written
    assert wrote(6, 9) == 3
    assert wrote(0, 3, f"{topic}.other") == 3
    assert len(open_writers) == 2  # two queries over one topic do not share a writer


def test_the_tasks_of_an_earlier_run_are_dropped(cluster: Any, tmp_path: Path) -> None:
    topic = f"t{uuid.uuid4().hex[:8]}"
    write_rows(cluster, topic, [(0, "a", n, n * 50) for n in range(9)])
    graph = counted(read_rows(cluster, topic)).map(lambda row: (row.value,)).to(spark_end())
    first = run_of(cluster, topic, graph, None, str(tmp_path))
    assert run(first, topic, 0, 5) == [{"n": 2}]
    kept = weakref.ref(first._kept)
    second = run_of(cluster, topic, graph, None, str(tmp_path))
    assert run(second, topic, 5, 9) == [{"n": 2}, {"n": 2}]
    gc.collect()
    assert kept() is None
