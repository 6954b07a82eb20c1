"""Graphs without windows move between one process and executors: each row and each dead letter is written once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Keep
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark import CheckpointError, SparkExecutors, SparkSink
from streamactors.spark.executors.carried import carry_back_positions, catch_up, check_not_overtaken, written
from tests.spark.executors.in_spark import END_S, new_topic
from tests.spark.executors.test_carried import LocalFiles
from tests.spark.executors.test_topic_end import read_topic

pytestmark = pytest.mark.timeout(600)


def write(cluster: Any, topic: str, numbers: Iterable[int]) -> None:
    """Write numbers to partitions 0 and 1; those that 4 divides are no JSON."""
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1})
    for n in numbers:
        producer.produce(topic, b"%d" % n if n % 4 else b"no json", b"%d" % n, partition=n % 2)
    assert producer.flush(30) == 0


def settings_of(cluster: Any, group: str) -> ConsumerSettings:
    return ConsumerSettings(cluster.bootstrap_servers, group_id=group, auto_offset_reset="earliest")


@pytest.mark.slow
def test_dead_letters_move_with_the_checkpoint_of_their_query(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    """Executors refused a checkpoint that SparkSink had begun or continued: their group had no position, or an older one."""
    topic, dead = new_topic(), new_topic()
    for name in (topic, dead):
        cluster.create_topic(name, partitions=2)

    def run(*where: Any) -> None:
        settings = settings_of(cluster, f"g-{topic}")
        records = Consumer.records(settings, Subscriptions.topics(topic), value="json", dead_letters=dead, until="end")
        rows = records.map(lambda record: (record.value,))
        sink = SparkSink.parquet(spark, tmp_path / "table", "n long", tmp_path / "ck", max_rows=15)
        assert rows.to_mat(sink, Keep.right).run(*where).await_termination(END_S)

    pieces = [range(start, start + 40) for start in range(0, 160, 40)]
    for piece, where in zip(pieces, [(), (SparkExecutors(spark),)] * 2, strict=True):
        write(cluster, topic, piece)
        run(*where)
    table = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(row.n for row in table) == [n for n in range(160) if n % 4]
    letters = Consumer.plain_source(settings_of(cluster, "r"), Subscriptions.topics(dead), until="end")
    keys = [letter.key for letter in letters.run_iter(system)]
    assert sorted(int(key or 0) for key in keys) == list(range(0, 160, 4))


@pytest.mark.slow
def test_steps_that_end_in_a_topic_move_to_executors_and_back(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    topic, out = new_topic(), new_topic()
    for name in (topic, out):
        cluster.create_topic(name, partitions=2)
    written_so_far = 0

    def graph() -> Any:
        source = Consumer.source(settings_of(cluster, f"g-{topic}"), Subscriptions.topics(topic), until="end")
        producer = ProducerSettings(cluster.bootstrap_servers, transactional_id=out)
        results = source.map(lambda r: ProducerRecord(out, json.dumps(int(r.key or 0)), partition=r.partition))
        return results.to_mat(Transactional.sink(producer), Keep.right)

    def executors(checkpoint: str) -> SparkExecutors:
        return SparkExecutors(spark, checkpoint=tmp_path / checkpoint, max_rows=15)

    def more() -> None:
        nonlocal written_so_far
        write(cluster, topic, range(written_so_far, written_so_far + 40))
        written_so_far += 40

    def here() -> None:
        graph().run(system).result(END_S)

    def there(checkpoint: str) -> None:
        assert graph().run(executors(checkpoint)).await_termination(END_S)

    def check() -> None:
        found = read_topic(cluster, out)
        assert found == {part: list(range(part, written_so_far, 2)) for part in (0, 1)}

    more()
    here()
    more()
    there("first")
    # as after a query that was stopped before Spark had asked for the next batch
    with Admin(settings_of(cluster, f"g-{topic}")) as admin:
        admin.commit(f"g-{topic}", {TopicPartition(topic, 0): 30, TopicPartition(topic, 1): 30})
    assert executors("first").carry_back(graph()) == {f"{topic}-0": 40, f"{topic}-1": 40}
    more()
    here()
    check()
    more()
    with pytest.raises(CheckpointError, match=r"has reached 60 of .*-0, and checkpoint .*first ends at 40"):
        there("first")
    there("second")
    check()


def test_positions_of_a_checkpoint_and_of_groups_are_compared(cluster: Any, tmp_path: Path) -> None:
    """As above, without Spark."""
    topic = new_topic()
    cluster.create_topic(topic, partitions=2)
    names, keys = [f"0/{topic}-{i}" for i in (0, 1)], [TopicPartition(topic, i) for i in (0, 1)]
    first = dict.fromkeys(names, 5)
    files: Any = LocalFiles(tmp_path)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    assert written(files, first) == (first, True)
    settings = settings_of(cluster, topic)
    with pytest.raises(CheckpointError, match="has no batch; there is nothing to carry back"):
        carry_back_positions(settings, files)
    for batch, places in enumerate([(5, 9), (7, 9), (12, 10)]):
        offsets = json.dumps(dict(zip(names, places, strict=True)))
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offsets}")
    assert written(files, first) == (first, False)
    for batch in (0, 1):
        (tmp_path / "commits" / str(batch)).write_text("")
    positions, is_whole = written(files, first)
    assert (positions, is_whole) == ({names[0]: 7, names[1]: 9}, False)
    with Admin(settings) as admin:
        # a batch was begun: nobody knows whether a partition without a position was written
        catch_up(settings, f"{topic}.a", positions)
        assert admin.committed(f"{topic}.a", keys) == {}
        admin.commit(f"{topic}.a", {keys[0]: 6, keys[1]: 10})
        catch_up(settings, f"{topic}.a", positions)
        assert admin.committed(f"{topic}.a", keys) == {keys[0]: 7, keys[1]: 10}
        catch_up(settings, f"{topic}.b", {names[0]: 5, names[1]: 9}, first)
        assert admin.committed(f"{topic}.b", keys) == {keys[1]: 9}
        check_not_overtaken(settings, files, positions)
        admin.commit(topic, {keys[0]: 7, keys[1]: 9})
        check_not_overtaken(settings, files, positions)
        admin.commit(topic, {keys[1]: 10})
        with pytest.raises(
            CheckpointError, match=rf"{topic} has reached 10 of {topic}-1, and checkpoint .* ends at 9:"
        ):
            check_not_overtaken(settings, files, positions)
        (tmp_path / "commits" / "2").write_text("")
        assert written(files, first)[1]
        assert carry_back_positions(settings, files) == {keys[0]: 12, keys[1]: 10}
        assert admin.committed(topic, keys) == {keys[0]: 12, keys[1]: 10}
        admin.commit(topic, {keys[0]: 13})
        with pytest.raises(
            CheckpointError, match=rf"{topic} has reached 13 of {topic}-0, and checkpoint .* ends at 12:"
        ):
            carry_back_positions(settings, files)
