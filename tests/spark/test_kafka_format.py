"""The format streamactors-kafka: topics as tables and streams of Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException

from streamactors import Sink
from streamactors.broker import Cluster
from streamactors.kafka import Admin, Consumer, ConsumerSettings, Subscriptions
from streamactors.spark import register_kafka_format
from tests.spark.own_queries import finished

pytestmark = pytest.mark.timeout(600)
END_S = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def session(spark: Any) -> Any:
    register_kafka_format(spark)
    return spark


def fill(cluster: Cluster, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for n in numbers:
        producer.produce(topic, f"v{n}", f"k{n}", partition=n % 2, headers=[("n", b"%d" % n)], timestamp=1_000 + n)
    assert producer.flush(60) == 0


def records_in(cluster: Cluster, topic: str) -> list[Any]:
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id=uuid.uuid4().hex, auto_offset_reset="earliest")
    source = Consumer.plain_source(settings, Subscriptions.topics(topic), until="end")
    return source.run_with(Sink.to_list()).result(END_S)


def groups(cluster: Cluster) -> set[str]:
    with Admin(ConsumerSettings(cluster.bootstrap_servers)) as admin:
        return {each.group for each in admin.groups() if each.group.startswith("streamactors-kafka")}


def options(cluster: Cluster, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **more}


def reading(session: Any, cluster: Cluster, **more: str) -> Any:
    return session.read.format("streamactors-kafka").options(**options(cluster, **more))


@pytest.mark.slow
def test_a_topic_is_a_table_with_the_columns_of_sparks_own_source(session: Any, cluster: Cluster) -> None:
    cluster.create_topic("table", 2)
    fill(cluster, "table", range(6))
    frame = reading(session, cluster, subscribe="table", includeHeaders="true").load()
    row = frame.where("offset = 1 AND partition = 1").collect()[0]
    assert row.asDict(recursive=True) == {
        "key": b"k3",
        "value": b"v3",
        "topic": "table",
        "partition": 1,
        "offset": 1,
        "timestamp": row.timestamp,
        "timestampType": 0,
        "headers": [{"key": "n", "value": b"3"}],
    }
    assert row.timestamp.timestamp() == 1.003
    some = {"startingOffsets": '{"table": {"0": 1, "1": -2}}', "endingOffsets": '{"table": {"0": -1, "1": 2}}'}
    found = reading(session, cluster, assign='{"table": [0, 1]}', **some).load().selectExpr("CAST(value AS string) v")
    assert sorted(row.v for row in found.collect()) == ["v1", "v2", "v3", "v4"]
    with pytest.raises(Exception, match=r"no topic nowhere at .*create it with: streamactors topics create nowhere"):
        reading(session, cluster, subscribe="nowhere").load().collect()
    with pytest.raises(Exception, match=r"no client property 'scurity.protocol'; did you mean security.protocol"):
        reading(session, cluster, subscribe="table", **{"kafka.scurity.protocol": "SSL"}).load().collect()


@pytest.mark.slow
def test_a_table_without_records_has_no_rows_and_a_topic_named_twice_is_read_once(
    session: Any, cluster: Cluster
) -> None:
    cluster.create_topic("no-records", 1)
    cluster.create_topic("six", 2)
    fill(cluster, "six", range(6))
    assert reading(session, cluster, subscribe="no-records").load().collect() == []
    assert reading(session, cluster, subscribe="six", startingOffsets="latest").load().count() == 0
    assert reading(session, cluster, subscribe="six,six").load().count() == 6
    with pytest.raises(Exception, match="option startingOffsets has 999 for six-0, which ends at 3"):
        reading(session, cluster, subscribe="six", startingOffsets='{"six": {"0": 999, "1": 0}}').load().collect()


def test_a_stream_with_ending_offsets_is_refused(session: Any, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("endless", 1)
    source = session.readStream.format("streamactors-kafka")
    frame = source.options(**options(cluster, subscribe="endless", endingOffsets="latest")).load()
    writing = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamingQueryException, match=r"option endingOffsets is for spark\.read"):
        writing.start().awaitTermination(END_S)


@pytest.mark.slow
def test_a_stream_goes_on_behind_its_checkpoint_and_writes_each_batch_once(
    session: Any, cluster: Cluster, tmp_path: Path
) -> None:
    for topic in ("in", "out"):
        cluster.create_topic(topic, 2)
    fill(cluster, "in", range(40))

    def run(topic: str = "in") -> None:
        source = session.readStream.format("streamactors-kafka")
        frame = source.options(
            **options(cluster, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="25")
        ).load()
        writing = frame.select("key", "value", "partition").writeStream.format("streamactors-kafka")
        writing = writing.options(**options(cluster, topic="out", checkpointLocation=str(tmp_path / "ck")))
        finished(writing.trigger(availableNow=True).start)

    def written() -> list[bytes]:
        return sorted(record.value for record in records_in(cluster, "out"))

    run()
    assert written() == sorted(b"v%d" % n for n in range(40))
    commits = sorted((tmp_path / "ck" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) >= 2
    for path in (tmp_path / "ck" / "commits").glob(f"*{commits[-1].name}*"):
        path.unlink()  # as after a crash when the last batch was written: Spark repeats it
    fill(cluster, "in", range(40, 50))
    run()
    assert written() == sorted(b"v%d" % n for n in range(50))

    cluster.create_topic("elsewhere", 2)
    with pytest.raises(StreamingQueryException, match="was written for topic in, and this frame reads topic elsewhere"):
        run("elsewhere")


@pytest.mark.slow
def test_a_query_that_is_started_again_does_not_ask_again_where_it_begins(
    session: Any, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("begins", 1)
    found: list[bytes] = []

    def put(first: int, last: int, partition: int) -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for n in range(first, last):
            producer.produce("begins", b"%d" % n, partition=partition)
        assert producer.flush(60) == 0

    def run(begin: str) -> None:
        source = session.readStream.format("streamactors-kafka")
        frame = source.options(**options(cluster, subscribe="begins", startingOffsets=begin)).load()
        writing = frame.writeStream.foreachBatch(lambda df, _: found.extend(row.value for row in df.collect()))
        finished(writing.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start)

    put(0, 10, 0)
    run('{"begins": {"0": 4}}')
    assert found == [b"%d" % n for n in range(4, 10)]
    for path in (tmp_path / "commits").glob("*0*"):
        path.unlink()  # as after a crash in batch 0, whose start Spark does not keep
    found.clear()
    put(10, 20, 0)
    run("latest")
    assert found == [b"%d" % n for n in range(4, 20)]
    found.clear()
    with Admin(ConsumerSettings(cluster.bootstrap_servers)) as admin:
        admin.grow("begins", 2)
    put(20, 23, 1)
    run('{"begins": {"0": 4}}')
    assert found == [b"20", b"21", b"22"]


@pytest.mark.slow
def test_topics_of_a_pattern_are_read_from_a_time_on_by_as_many_tasks_as_asked_for(
    session: Any, cluster: Cluster, tmp_path: Path
) -> None:
    for topic in ("day-1", "day-2", "a-day-1"):
        cluster.create_topic(topic, 2)
        fill(cluster, topic, range(20))  # record n has the time 1,000 + n
    given = {"subscribePattern": "day-.", "startingTimestamp": "1010", "minPartitions": "6"}
    frame = reading(session, cluster, **given).load()
    assert frame.rdd.getNumPartitions() == 6
    wanted = sorted((topic, b"v%d" % n) for topic in ("day-1", "day-2") for n in range(10, 20))
    assert sorted((row.topic, row.value) for row in frame.collect()) == wanted

    found: list[Any] = []
    tasks: list[int] = []

    def take(df: Any, _: int) -> None:
        tasks.append(df.rdd.getNumPartitions())
        found.extend((row.topic, row.value) for row in df.collect())

    stream = session.readStream.format("streamactors-kafka").options(**options(cluster, **given)).load()
    writing = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
    finished(writing.trigger(availableNow=True).start)
    assert (sorted(found), tasks) == (wanted, [6])


@pytest.mark.slow
def test_a_table_is_written_to_topics_of_a_column(session: Any, cluster: Cluster) -> None:
    for topic in ("left", "right"):
        cluster.create_topic(topic, 1)
    frame = session.createDataFrame(
        [("left", "a", b"1"), ("right", None, b"2"), ("left", "b", None)], "topic string, key string, value binary"
    )
    before = groups(cluster)
    frame.coalesce(1).write.format("streamactors-kafka").options(**options(cluster)).mode("append").save()
    assert [(r.key, r.value) for r in records_in(cluster, "left")] == [(b"a", b"1"), (b"b", None)]
    assert [(r.key, r.value) for r in records_in(cluster, "right")] == [(None, b"2")]
    assert groups(cluster) == before
    with pytest.raises(Exception, match="a topic cannot be overwritten; use mode"):
        frame.write.format("streamactors-kafka").options(**options(cluster)).mode("overwrite").save()
    with pytest.raises(Exception, match="the rows have n; select what to write"):
        session.range(1).selectExpr("id AS n").write.format("streamactors-kafka").options(
            **options(cluster, topic="left")
        ).mode("append").save()
