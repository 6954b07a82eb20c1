"""What may change between two runs with one checkpoint, as docs/spark-checkpoints.md says it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from streamactors import Keep
from streamactors.broker import Cluster
from streamactors.kafka import Admin, Consumer, ConsumerSettings, Subscriptions
from streamactors.spark import CheckpointError, SparkSink

END_S = 300.0


@pytest.fixture
def cluster() -> Iterable[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("t", 1)
        cluster.create_topic("other", 1)
        yield cluster


def fill(cluster: Cluster, numbers: Iterable[int], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for n in numbers:
        producer.produce("t", str(n), partition=partition)
    assert producer.flush(60) == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_steps_sizes_groups_and_partitions_may_change_and_topics_may_not(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "ck"
    batches: list[list[int]] = []

    def numbers(*topics: str, group: str = "g", times: int = 1) -> Any:
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id=group, auto_offset_reset="earliest")
        source = Consumer.source(settings, Subscriptions.topics(*topics), until="end")
        return source.map(lambda record: (times * int(record.value),))

    def take(df: Any, _: int) -> None:
        batches.append(sorted(row.n for row in df.collect()))

    def run(source: Any, **sink: Any) -> list[int]:
        batches.clear()
        end = SparkSink.foreach_batch(spark, take, "n long", checkpoint, **sink)
        assert source.to_mat(end, Keep.right).run().await_termination(END_S)
        return [n for batch in batches for n in batch]

    fill(cluster, range(3))
    assert run(numbers("t")) == [0, 1, 2]

    # other steps, smaller batches, another group: the checkpoint says where to continue
    fill(cluster, range(3, 7))
    assert run(numbers("t", group="h", times=10), max_rows=2) == [30, 40, 50, 60]
    assert max(map(len, batches)) == 2

    # a partition that was added is read from its first record
    with Admin(ConsumerSettings(cluster.bootstrap_servers)) as admin:
        admin.grow("t", 2)
    fill(cluster, (7, 8), partition=1)
    assert sorted(run(numbers("t"))) == [7, 8]

    # a batch that is repeated has the range that it had, and the rows that the steps make of it now
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (checkpoint / "commits").glob(f"*{last.name}*"):
        path.unlink()
    assert sorted(run(numbers("t", times=100))) == [700, 800]

    # the sink may be another one
    fill(cluster, [9])
    table = SparkSink.parquet(spark, tmp_path / "table", "n long", checkpoint)
    assert numbers("t").to_mat(table, Keep.right).run().await_termination(END_S)
    assert [row.n for row in spark.read.parquet(str(tmp_path / "table")).collect()] == [9]

    # topics may not be added
    with pytest.raises(CheckpointError, match="it was written for topic t, this graph reads topic other, t"):
        run(numbers("t", "other"))

    # a file of a newer streamactors is not guessed at
    ours = checkpoint / "streamactors.json"
    ours.write_text(ours.read_text().replace('"version": 2', '"version": 3'))
    with pytest.raises(CheckpointError, match=r"has version 3 of streamactors\.json, this is 2"):
        run(numbers("t"))
