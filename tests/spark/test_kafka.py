"""Kafka topics into Spark: the run assigns its partitions, the group follows the checkpoint, and a busy Spark pauses partitions."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as BareProducer
from confluent_kafka import TopicPartition as BareTopicPartition
from confluent_kafka.admin import AdminClient

from streamactors import Keep
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, MetadataClient, Subscriptions, TopicPartition
from streamactors.kafka.errors import GroupInUse, RecordsGone, TopicNotFound
from streamactors.spark import CheckpointError, SparkSink, SparkSinkSettings, SparkStreamQuery

pytestmark = pytest.mark.timeout(600)
END_S = 300.0


@pytest.fixture
def cluster() -> Iterable[Cluster]:
    with Cluster(process=True) as cluster:
        yield cluster


def fill(cluster: Cluster, topic: str, numbers: Iterable[int], *, partitions: int = 3, padding: str = "") -> None:
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})
    for n in numbers:
        producer.produce(topic, json.dumps({"n": n, "k": f"k{n % 7}", "p": padding}), partition=n % partitions)
        producer.poll(0)
    producer.flush()


def settings_of(cluster: Cluster, group: str = "to-spark", **more: Any) -> ConsumerSettings:
    return ConsumerSettings(cluster.bootstrap_servers, group_id=group, auto_offset_reset="earliest", **more)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + END_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def to_row(record: Any) -> tuple[int, str]:
    found = json.loads(record.value)
    return found["n"], found["k"]


def test_parquet_has_every_record_once_and_the_group_follows_the_checkpoint(
    spark: Any, tmp_path: Path, cluster: Cluster
) -> None:
    import pandas

    cluster.create_topic("t", partitions=3)
    fill(cluster, "t", range(3_000))
    settings = settings_of(cluster)
    table, checkpoint = tmp_path / "table", tmp_path / "ck"

    def run() -> SparkStreamQuery:
        control, query = (
            Consumer.source(settings, Subscriptions.topics("t"), until="end")
            .map(to_row)
            .filter(lambda row: row[0] % 10)
            .to_mat(
                SparkSink.parquet(
                    spark,
                    table,
                    "n long, k string",
                    checkpoint,
                    transform=lambda df, epoch: df.withColumn("twice", df.n * 2),
                    partition_by="k",
                    max_rows=1_000,
                ),
                Keep.both,
            )
            .run()
        )
        assert query.await_termination(END_S)
        control.is_shutdown.result(60)
        return query

    def committed() -> dict[TopicPartition, int]:
        with MetadataClient(settings) as client:
            return client.committed([("t", i) for i in range(3)])

    first = run()
    assert committed() == {TopicPartition("t", i): 1_000 for i in range(3)}
    assert first.progress()["checkpoint"] == {f"0/t-{i}": 1_000 for i in range(3)}
    fill(cluster, "t", range(3_000, 4_000))
    run()
    assert sum(committed().values()) == 4_000
    truth = sorted(n for n in range(4_000) if n % 10)
    rows = spark.read.parquet(str(table)).collect()
    assert sorted(row.n for row in rows) == truth
    assert all(row.twice == 2 * row.n and row.k == f"k{row.n % 7}" for row in rows)
    assert {row.query_id for row in rows} == {first.id}
    assert sorted(pandas.read_parquet(table).n) == truth


def test_a_slow_function_pauses_partitions_and_memory_stays_flat(spark: Any, tmp_path: Path, cluster: Cluster) -> None:
    """Spark is busy -> no demand -> buffers fill -> the partitions are paused; when it asks again they are resumed."""
    cluster.create_topic("t", partitions=3)
    n = 6_000
    fill(cluster, "t", range(n), padding="x" * 500)
    settings = settings_of(
        cluster,
        high_bytes=300_000,
        low_bytes=100_000,
        max_buffered_bytes=1_000_000,
        pause_dwell_ms=0,
        max_poll_records=1_000,  # without demand it polls now and then only
    )
    busy = threading.Event()
    seen: list[int] = []
    retained: list[int] = []
    counts: dict[str, Any] = {}
    release = threading.Semaphore(0)

    def slow(df: Any, epoch: int) -> None:
        busy.set()
        seen.extend(row[0] for row in df.collect())
        assert release.acquire(timeout=END_S)

    control, query = (
        Consumer.source(settings, Subscriptions.topics("t"), until="end")
        .map(to_row)
        .to_mat(SparkSink.foreach_batch(spark, slow, "n long, k string", tmp_path / "ck", max_rows=1_000), Keep.both)
        .run()
    )
    while query.is_active:
        if not busy.wait(0.1):
            continue
        busy.clear()
        if len(seen) < n // 2:
            wait_for(lambda: control.snapshot()["pauses"] > 0 and not control.snapshot()["demand"])
        retained.append(query.progress()["retained_rows"])
        buffered = sum(p["buffered_bytes"] for p in control.snapshot().get("partitions", {}).values())
        assert buffered <= 2 * 1_000_000
        counts = control.metrics() or counts
        release.release()
    assert query.await_termination(END_S)
    assert sorted(seen) == list(range(n))
    assert counts["pauses"] > 0
    assert counts["resumes"] > 0
    assert max(retained) <= 2 * 1_000 + 2_048


def test_new_partitions_are_picked_up_and_a_stopped_source_drains(spark: Any, tmp_path: Path, cluster: Cluster) -> None:
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.settings import ClientSettings

    cluster.create_topic("t", partitions=1)
    fill(cluster, "t", range(10), partitions=1)
    settings = settings_of(cluster).with_property("topic.metadata.refresh.interval.ms", 200)
    seen: Counter[int] = Counter()
    control, query = (
        Consumer.source(settings, Subscriptions.topics("t"))
        .map(to_row)
        .to_mat(
            SparkSink.foreach_batch(
                spark,
                lambda df, epoch: seen.update(row[0] for row in df.collect()),
                "n long, k string",
                tmp_path / "ck",
            ),
            Keep.both,
        )
        .run()
    )
    wait_for(lambda: len(seen) == 10)
    wait_for(lambda: query.lag() == {"0/t-0": 0})  # the checkpoint has it a moment later
    Admin(ClientSettings(cluster.bootstrap_servers)).grow("t", 3)
    fill(cluster, "t", range(10, 40))
    wait_for(lambda: len(seen) == 40)
    control.stop()
    assert query.await_termination(END_S)
    control.is_shutdown.result(60)  # the consumer is gone, too
    assert set(seen.values()) == {1}


def failing(spark: Any, folder: Path, source: Any, **more: Any) -> BaseException | None:
    sink = SparkSink.foreach_batch(spark, lambda df, epoch: df.count(), "n long, k string", folder, **more)
    _, query = source.map(to_row).to_mat(sink, Keep.both).run()
    query.completion.exception(END_S)
    return query.exception()


@pytest.mark.slow
@pytest.mark.expects_log("retention has passed the checkpoint: t-0 10 to 14 is not there any more")
def test_a_group_with_members_no_topic_and_a_topic_whose_records_are_gone(
    spark: Any, tmp_path: Path, cluster: Cluster
) -> None:
    from streamactors import Sink

    settings = settings_of(cluster)
    topic = Subscriptions.topics("t")
    error = failing(spark, tmp_path / "none", Consumer.source(settings, topic, until="end"))
    assert isinstance(error, TopicNotFound)

    cluster.create_topic("t", partitions=1)
    fill(cluster, "t", range(10), partitions=1)
    member, _ = Consumer.source(settings, topic).to_mat(Sink.ignore(), Keep.both).run()
    wait_for(lambda: bool(member.snapshot()["partitions"]))
    error = failing(spark, tmp_path / "ck", Consumer.source(settings, topic, until="end"))
    assert isinstance(error, GroupInUse)
    assert "group to-spark has 1 live member" in str(error)
    member.shutdown().result(60)

    other = settings.with_group_id("other")
    assert failing(spark, tmp_path / "ck", Consumer.source(other, topic, until="end")) is None
    fill(cluster, "t", range(10, 20), partitions=1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (deleted,) = admin.delete_records([BareTopicPartition("t", 0, 15)]).values()
    deleted.result(60)
    error = failing(spark, tmp_path / "ck", Consumer.source(other, topic, until="end"))
    assert isinstance(error, RecordsGone)
    assert "retention has passed the checkpoint: t-0 10 to 14 is not there any more" in str(error)
    rows: list[int] = []
    sink = SparkSink.foreach_batch(
        spark,
        lambda df, epoch: rows.extend(row[0] for row in df.collect()),
        "n long, k string",
        tmp_path / "ck",
        settings=SparkSinkSettings(fail_on_data_loss=False),
    )
    assert (
        Consumer.source(other, topic, until="end").map(to_row).to_mat(sink, Keep.right).run().await_termination(END_S)
    )
    assert rows == list(range(15, 20))

    cluster.delete_topic("t")
    cluster.create_topic("t", partitions=1)
    error = failing(spark, tmp_path / "ck", Consumer.source(other, topic, until="end"))
    assert isinstance(error, CheckpointError)
    assert "with id of topic t " in str(error)
