"""What a task of a writer of streamactors-kafka writes when Spark repeats it, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from streamactors.broker import Cluster
from streamactors.spark.kafka_format import writing
from tests.spark.test_kafka_format import records_in

ROWS = [("x", b"1"), ("y", b"2"), ("y", b"3")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def written(cluster: Cluster, batch: int, rows: list[tuple[str, bytes]]) -> int:
    columns = pa.RecordBatch.from_pydict({"topic": [topic for topic, _ in rows], "value": [value for _, value in rows]})
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    return writing._write(options, "streamactors-kafka-query-0", batch, iter([columns])).rows


def test_a_repeated_batch_whose_rows_come_in_another_order_is_not_written_again(cluster: Cluster) -> None:
    # the number of the batch lay with the topic of the first row, and was looked for there: y first found no number
    for topic in ("w", "x", "y"):
        cluster.create_topic(topic, 1)
    assert written(cluster, 6, [("w", b"0")]) == 1
    assert written(cluster, 7, ROWS) == 3
    assert written(cluster, 7, ROWS) == 0
    assert written(cluster, 7, ROWS[1:] + ROWS[:1]) == 0
    assert written(cluster, 8, ROWS[1:]) == 2
    assert written(cluster, 8, ROWS[:0:-1]) == 0
    assert [record.value for record in records_in(cluster, "x")] == [b"1"]
    assert [record.value for record in records_in(cluster, "y")] == [b"2", b"3", b"2", b"3"]
