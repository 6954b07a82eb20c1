"""Tasks that write a topic: exactly once, whatever fails between the records, the state and the commit."""

from __future__ import annotations

import json
import random
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import Producer as BareProducer
from confluent_kafka import TopicPartition as BareTopicPartition

from streamactors import BuildError, Flow, VirtualClock
from streamactors.broker import Cluster as BrokerCluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client.range_writer import RangeWriter
from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark import CheckpointError
from streamactors.spark.executors import offsets
from streamactors.spark.executors.program import KeptTasks
from streamactors.spark.executors.ranges import At, Range
from streamactors.spark.executors.topic_end import TopicEnd, Writers, must_write
from streamactors.spark.executors.translate import explained, translate
from streamactors.windows import BufferConfig, Suppressed, TimeWindows
from tests.bare_clients import TO_THE_END
from tests.spark.executors._plain import in_process, read_rows, spark_end, tasks_of, write_rows

pytestmark = pytest.mark.timeout(300)
CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())


def rows_of(seed: int, n: int = 80) -> list[tuple[int, str, int, int]]:
    dice = random.Random(seed)
    return [(dice.randrange(2), dice.choice("abc"), i, max(0, i * 9 - dice.choice([0, 0, 20, 200]))) for i in range(n)]


def counted(records: Any, late: Any = None) -> Any:
    windows = TimeWindows.of_size(100).with_grace(50)
    return records.group_by_key().windowed_by(windows, late=late).count().suppress(CLOSED).to_stream()


def as_record(topic: str) -> Callable[[Any], ProducerRecord]:
    def make(row: Any) -> ProducerRecord:
        if hasattr(row, "record"):
            value: list[Any] = ["late", row.record.key, row.start, row.record.timestamp]
        else:
            value = [row.key, row.start, row.value, row.timestamp]
        return ProducerRecord(topic, json.dumps(value), partition=row.context.partition)

    return make


def read_topic(cluster: Any, topic: str, isolation: str = "read_committed") -> dict[int, list[Any]]:
    consumer = BareConsumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            **TO_THE_END,
            "isolation.level": isolation,
        }
    )
    consumer.assign([BareTopicPartition(topic, i, 0) for i in range(2)])
    found: dict[int, list[Any]] = {0: [], 1: []}
    ended = 0
    while ended < 2:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            found[message.partition()].append(json.loads(message.value()))
        else:
            ended += 1
    consumer.close()
    return found


def wanted_of(system: Any, cluster: Any, topic: str) -> dict[int, list[Any]]:
    wanted = in_process(system, counted, read_rows(cluster, topic))
    found: dict[int, list[Any]] = {0: [], 1: []}
    for partition, rows in wanted.results.items():
        found[partition] = [[row[1], row[2], row[5], row[6]] for row in rows]
    return found


class Attempts:
    """Tasks that write to a topic, on executors that come and go."""

    def __init__(self, cluster: Any, topic: str, out: str, folder: Path) -> None:
        graph = counted(read_rows(cluster, topic), Flow.map(as_record(out)).to(spark_end())).map(as_record(out))
        self.tasks = tasks_of(cluster, topic, graph.to(spark_end()), folder)
        self.tasks.program.late = None
        self.end = TopicEnd(ProducerSettings(cluster.bootstrap_servers), f"{topic}.spark")
        self.writers = Writers()
        self.topic = topic

    def run(self, partition: int, start: At, stop: At) -> bool:
        """Return whether this attempt wrote."""
        return self.run_range(Range(TopicPartition(self.topic, partition), start, stop, 0))

    def run_range(self, what: Range) -> bool:
        """As `run`."""
        outputs = self.tasks.program.run(what, self.tasks.read, self.tasks.states, self.tasks.kept)
        return self.end.write(what, outputs, self.writers) is not None

    def sparks(self, partition: int, start: At, stop: At) -> Iterator[Any]:
        """Yield what Spark gets of an attempt, row by row."""
        what = Range(TopicPartition(self.topic, partition), start, stop, 0)
        outputs = self.tasks.program.run(what, self.tasks.read, self.tasks.states, self.tasks.kept)
        for output in self.end.sparks(what, outputs, self.writers):
            yield from output.rows

    def moved(self) -> None:
        """The next attempt runs on another executor."""
        self.writers, self.tasks.kept = Writers(), KeptTasks()


def test_each_range_is_in_the_topic_once_whatever_attempts_there_were(
    cluster: Any, system: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, out = f"t{uuid.uuid4().hex[:8]}", f"o{uuid.uuid4().hex[:8]}"
    rows = rows_of(1)
    write_rows(cluster, topic, rows)
    cluster.create_topic(out, partitions=2)
    attempts = Attempts(cluster, topic, out, tmp_path)
    dice = random.Random(4)
    genuine = RangeWriter.commit

    def dies(self: Any, position: int, note: str) -> None:
        raise ConnectionError("the executor dies between its state and its commit")

    for partition in (0, 1):
        count = sum(row[0] == partition for row in rows)
        start = At(0)
        for position in sorted({dice.randint(1, count - 1) for _ in range(3)} | {count}):
            stop = At(position, ended=position == count)
            if dice.random() < 0.7:
                monkeypatch.setattr(RangeWriter, "commit", dies)
                with pytest.raises(ConnectionError):
                    attempts.run(partition, start, stop)
                monkeypatch.setattr(RangeWriter, "commit", genuine)
            if dice.random() < 0.5:
                attempts.moved()
            assert attempts.run(partition, start, stop)
            if dice.random() < 0.7:
                if dice.random() < 0.5:
                    attempts.moved()
                assert not attempts.run(partition, start, stop), "Spark repeats a range whose commit it has not seen"
            start = stop
    assert read_topic(cluster, out) == wanted_of(system, cluster, topic)


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["results to the topic", "late rows to the topic"])
def test_what_spark_gets_comes_with_every_attempt_and_what_a_topic_gets_is_there_once(
    cluster: Any, system: Any, tmp_path: Path, late: bool
) -> None:
    topic, out = f"t{uuid.uuid4().hex[:8]}", f"o{uuid.uuid4().hex[:8]}"
    rows = rows_of(1)
    write_rows(cluster, topic, rows)
    cluster.create_topic(out, partitions=2)
    attempts = Attempts(cluster, topic, out, tmp_path)
    graph = counted(read_rows(cluster, topic), Flow.map(as_record(out)).to(spark_end())).map(as_record(out))
    attempts.tasks = tasks_of(cluster, topic, graph.to(spark_end()), tmp_path)
    attempts.end = TopicEnd(ProducerSettings(cluster.bootstrap_servers), f"{topic}.spark", results=not late, late=late)
    dice = random.Random(5)
    found: dict[int, list[Any]] = {0: [], 1: []}
    for partition in (0, 1):
        count = sum(row[0] == partition for row in rows)
        places = [At(0), *map(At, sorted(dice.sample(range(1, count), 3))), At(count, ended=True)]
        for start, stop in pairwise(places):
            early = attempts.sparks(partition, start, stop)
            next(early, None)
            early.close()  # Spark needed no more rows; such an attempt writes only if it had come to its end
            attempts.moved()
            given = list(attempts.sparks(partition, start, stop))
            if dice.random() < 0.5:
                attempts.moved()
            assert list(attempts.sparks(partition, start, stop)) == given
            found[partition] += [json.loads(record.value) for record in given]
    wanted = in_process(system, counted, read_rows(cluster, topic))
    results = {p: [[row[1], row[2], row[5], row[6]] for row in wanted.results[p]] for p in (0, 1)}
    lates = {p: [["late", row[2], row[6], row[4]] for row in wanted.late[p]] for p in (0, 1)}
    assert (found, read_topic(cluster, out)) == ((results, lates) if late else (lates, results))
    assert min(map(len, lates.values())) > 1


def test_a_partition_without_records_behind_an_end_of_the_input_stays_there(cluster: Any, tmp_path: Path) -> None:
    # p0 ended in the last batch of the first run, and had no records in the first batch of the second run: its place went from "10e" back to
    # "10". The output had come to "10e", which is not "10". And the state of "10" was written as a change of that of "10e", which was a
    # change of that of "10": whoever read one of them never came to an end.
    topic, out = f"t{uuid.uuid4().hex[:8]}", f"o{uuid.uuid4().hex[:8]}"
    write_rows(cluster, topic, [(partition, "a", n, n * 40) for n in range(20) for partition in (0, 1)])
    cluster.create_topic(out, partitions=2)
    attempts = Attempts(cluster, topic, out, tmp_path)
    first, second = f"0/{topic}-0", f"0/{topic}-1"
    here = offsets.initial({first: 0, second: 0}, windows=True)
    for ends, is_end in [((10, 10), False), ((10, 10), True), ((10, 15), False), ((20, 15), False), ((20, 20), True)]:
        end = offsets.following(here, dict(zip((first, second), ends, strict=True)), 100, is_end=is_end)
        for what in offsets.ranges(here, end, {}):
            attempts.moved()
            assert attempts.run_range(what)
            attempts.moved()
            assert not attempts.run_range(what)
        kept = {
            f"{topic}-{p}": [offsets.at(o, name, {}) for o in (here, end)] for p, name in enumerate((first, second))
        }
        attempts.tasks.states.collect(kept)
        here = end
    alone = Attempts(cluster, topic, out, tmp_path / "alone").tasks
    places = [At(0), At(10, ended=True), At(20, ended=True)]
    for partition, rows in read_topic(cluster, out).items():
        records = [row for at in pairwise(places) for each in alone.run(partition, *at) for row in each.rows]
        assert rows == [json.loads(record.value) for record in records]
        assert len(rows) > 6


def test_of_attempts_at_the_same_moment_one_commits_and_the_others_fail_or_find_it_done(
    cluster: Any, system: Any, tmp_path: Path
) -> None:
    topic, out = f"t{uuid.uuid4().hex[:8]}", f"o{uuid.uuid4().hex[:8]}"
    rows = [(0, "a", i, i * 30) for i in range(30)]
    write_rows(cluster, topic, rows)
    cluster.create_topic(out, partitions=2)
    several = [Attempts(cluster, topic, out, tmp_path) for _ in range(3)]
    wrote: list[bool] = []
    errors: list[
        str
    ] = []  # an error would keep its frames, which keep this list, and with them the consumers of the attempts
    together = threading.Barrier(3)

    def attempt(mine: Attempts) -> None:
        together.wait()
        try:
            wrote.append(mine.run(0, At(0), At(30, ended=True)))
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=attempt, args=(each,)) for each in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not any(wrote):  # every one was fenced by the next: Spark tries again
        wrote.append(several[0].run(0, At(0), At(30, ended=True)))
    for each in several:
        each.tasks.close()
    assert wrote.count(True) == 1
    assert len(wrote) + len(errors) >= 3
    assert read_topic(cluster, out)[0] == wanted_of(system, cluster, topic)[0]


def test_a_task_that_takes_longer_than_its_transaction_may_says_which_property_to_raise() -> None:
    # "fenced by a newer instance" was all that it said, at each attempt, and the checkpoint fixes the size of the batch
    clock = VirtualClock()
    with BrokerCluster(clock=clock) as cluster:
        for topic in ("in", "out"):
            cluster.create_topic(topic, partitions=1)
        writer = TopicEnd(ProducerSettings(cluster.bootstrap_servers), "g").writer(
            Range(TopicPartition("in", 0), At(0), At(1), 0)
        )
        try:
            assert writer.open() is None
            writer.write([ProducerRecord("out", b"1")])
            writer._producer.call(writer._producer.flush).result(
                30
            )  # the broker's transaction begins with the first record there
            clock.advance("75s")
            with pytest.raises(
                ProducerFailed, match=r"g-in-0: .* the transaction lasted longer than transaction\.timeout\.ms"
            ):
                writer.commit(1, "1")
        finally:
            writer.close()


def test_a_checkpoint_and_an_output_that_do_not_fit_are_an_error() -> None:
    def range_of(start: At, end: At, first: int = 0) -> Range:
        return Range(TopicPartition("t", 0), start, end, first)

    assert must_write(None, range_of(At(0), At(5)), "g")
    assert must_write((5, "5"), range_of(At(5), At(9)), "g")
    assert must_write((5, "5e"), range_of(At(5, ended=True), At(9)), "g")
    assert not must_write((9, "9"), range_of(At(5), At(9)), "g")
    assert not must_write((9, "9e"), range_of(At(9), At(9, ended=True)), "g")
    assert must_write((9, "9"), range_of(At(9), At(9, ended=True)), "g")
    with pytest.raises(CheckpointError, match="group g has no committed position"):
        must_write(None, range_of(At(5), At(9)), "g")
    with pytest.raises(
        CheckpointError, match=r"t-0: the output was written up to 7, and Spark's checkpoint wants 5 to 9"
    ):
        must_write((7, "7"), range_of(At(5), At(9)), "g")
    with pytest.raises(CheckpointError, match="the checkpoint is not the one that belongs to group g"):
        must_write((3, "3"), range_of(At(5), At(9)), "g")


def test_sinks_of_topics_are_translated_and_those_of_this_process_refused() -> None:
    settings = ConsumerSettings("localhost:9", group_id="g")
    source = Consumer.records(settings, Subscriptions.topics("t"), key="string", value="json")
    producer = ProducerSettings("localhost:9")
    transactional = producer.with_transactional_id("x")
    late = Flow.map(as_record("late")).to(Transactional.sink(transactional))
    graph = counted(source, late).map(as_record("out")).to(Transactional.sink(transactional, value="string"))
    found = translate(graph.module)
    assert found.topic is not None
    assert found.topic.settings == transactional
    assert found.program.late is not None
    assert re.search(r"Transactional\.sink +executors: one transaction per task", explained(graph.module))
    with Producer.shared(producer) as shared, pytest.raises(BuildError, match="shares a producer of this process"):
        translate(source.map(as_record("o")).to(Producer.plain_sink(producer, producer=shared)).module)
    mixed = translate(counted(source, late).to(spark_end()).module)
    assert mixed.topic is None
    assert mixed.late_topic is not None
    assert mixed.producer is mixed.late_topic
    text = explained(counted(source, late).to(spark_end()).module)
    assert re.search(r"Transactional\.sink +executors: one transaction per task", text)
    assert re.search(r"SparkSink\.foreach_batch +Spark: the results are a DataFrame", text)
    other = counted(source, late).map(as_record("out")).to(Producer.plain_sink(producer))
    with pytest.raises(BuildError, match="their producers have different settings"):
        translate(other.module)


def test_dead_letters_are_in_the_transaction_of_their_range(cluster: Any, system: Any, tmp_path: Path) -> None:
    """What cannot be read leaves the chain before the windows, also when a lost state is computed again: each letter is stored once."""
    topic, out, dead = (f"{kind}{uuid.uuid4().hex[:8]}" for kind in "tod")
    write_rows(cluster, topic, [(0, "a", i, i * 30) for i in range(20)])
    bare = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
    for i in range(20, 30):
        bare.produce(topic, json.dumps([i, i * 30]) if i % 3 else b"no json", "a", partition=0)
    assert bare.flush(10) == 0
    for name in (out, dead):
        cluster.create_topic(name, partitions=2)
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id=topic, auto_offset_reset="earliest")
    source = Consumer.records(
        settings,
        Subscriptions.topics(topic),
        key="string",
        value="json",
        timestamp=lambda record: record.value[1],
        dead_letters=dead,
        until="end",
    )
    results = counted(source).map(as_record(out))
    graph = results.to(Transactional.sink(ProducerSettings(cluster.bootstrap_servers, transactional_id=topic)))
    attempts = Attempts(cluster, topic, out, tmp_path)
    attempts.tasks = tasks_of(cluster, topic, graph, tmp_path)
    places = [At(0), At(10), At(24), At(30, ended=True)]
    for start, stop in pairwise(places):
        what = Range(TopicPartition(topic, 0), start, stop, 0)
        left = attempts.tasks.program.run(what, attempts.tasks.read, attempts.tasks.states, attempts.tasks.kept)
        next(left, None)
        left.close()
        attempts.moved()
        for path in (tmp_path / f"{topic}-0").glob("*") if start.position == 24 else ():
            path.unlink()
        assert attempts.run(0, start, stop)
        assert not attempts.run(0, start, stop)
    dead_letters = BareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "d", **TO_THE_END})
    dead_letters.assign([BareTopicPartition(dead, i, 0) for i in range(2)])
    found, ended = [], 0
    while ended < 2:
        message = dead_letters.poll(30)
        if message.error() is None:
            found.append(message)
        else:
            ended += 1
    dead_letters.close()
    assert [message.value() for message in found] == [b"no json"] * 3
    counts = sum(value for _, _, value, _ in read_topic(cluster, out)[0])
    assert counts == 27
    assert re.search(
        r"divert_to +executors: what leaves here is written in the task's transaction", explained(graph.module)
    )
