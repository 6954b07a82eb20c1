"""through_topic: rows written to a topic transactionally and read back as what they were."""

from __future__ import annotations

import threading

import pytest

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.errors import BuildError
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    MetadataClient,
    ProducerSettings,
    Subscriptions,
    Transactional,
    through_topic,
)
from streamactors.kafka.errors import TopicError, TopicNotFound
from streamactors.kafka.state.topic_rows import NoRow
from streamactors.windows import Record, TimeWindows, WindowedRecord
from streamactors.windows.record import RecordContext
from tests.kafka._windows import CLOSED, produce


def test_K_21_rows_come_back_as_they_were_and_the_stream_ends(settings, system, read_all):
    rows = [Record(("key", i), {"n": i}, 1_700_000_000_000 + i) for i in range(2_000)]
    flow = through_topic("rows", settings, partitions=1)
    back = Source.from_iterable(rows).via(flow).run_with(Sink.to_list(), system).result(60)
    assert back == rows
    assert back[0].context == RecordContext("rows", 0, 0)
    offsets = [row.context.offset for row in back]
    assert offsets == sorted(set(offsets)), "markers of commits lie between"
    assert len(read_all("rows")) == 2_000


def test_K_21_odd_rows_come_back_too(settings, system):
    rows = [
        Record(None, "no key", 5),
        Record("tombstone", None, 6),
        Record("zero", 1, 0),
        Record("before 1970", 1, -86_400_000),
        WindowedRecord("w", 0, 60_000, 12.5, 59_999, None, True),
        WindowedRecord("early", 0, 60_000, None, 7),
        Record("headers", b"\x00", 8, RecordContext("elsewhere", 1, 5, (("a", b"1"), ("a", None)))),
    ]
    flow = through_topic("odd", settings, partitions=2)
    back = Source.from_iterable(rows).via(flow).run_with(Sink.to_list(), system).result(60)
    by_key = {row.key: row for row in back}
    assert by_key == {row.key: row for row in rows}
    assert [by_key[key].is_final for key in ("w", "early")] == [True, False]
    assert by_key["headers"].context.partition == 1, "it stays in its partition"
    assert by_key["headers"].context.headers == (("a", b"1"), ("a", None))


def test_K_21_an_empty_stream_ends(settings, system):
    flow = through_topic("empty-through", settings, partitions=3)
    assert Source.empty().via(flow).run_with(Sink.to_list(), system).result(60) == []


@pytest.mark.expects_log("keep no changelog (changelog=False)")
def test_K_21_windows_from_a_topic_through_a_topic_are_committed_on_both_sides(
    settings, system, topic_with, committed, read_all, wait_for
):
    topic = topic_with("inputs", [b"%d" % i for i in range(300)], 3)
    source = Consumer.records(
        settings, Subscriptions.topics(topic), timestamp=lambda r: 60_000 * r.context.offset, value="json", until="end"
    ).map(lambda record: record.replace(key=record.context.partition))
    rows = (
        source.group_by_key(changelog=False)
        .windowed_by(TimeWindows.of_size("10m").with_grace("0m"))
        .count()
        .to_stream()
    )
    back = rows.via(through_topic("results", settings, partitions=3)).run_with(Sink.to_list(), system).result(90)
    totals = {}
    for row in back:
        assert type(row) is WindowedRecord
        assert row.context.partition == row.key
        totals[row.key, row.start] = row.value
    assert sum(totals.values()) == 300
    assert len(read_all("results", 3)) == len(back)
    wait_for(lambda: committed(topic, 3) == dict.fromkeys(range(3), 100), 60)


def test_K_21_behind_it_a_stage_that_blurs_or_remembers_is_forgotten(
    settings, producer_settings, system, topic_with, read_all
):
    topic = topic_with("blurred", [b"%d" % i for i in range(100)])
    transactional = producer_settings.with_transactional_id("blurred")
    source = Transactional.source(settings, Subscriptions.topics(topic), until="end")
    rows = source.map(lambda r: Record(r.key, int(r.value), r.timestamp))
    flow = through_topic("unblurred", settings, producer=transactional, partitions=1)
    back = rows.via(flow).map_async_unordered(4, lambda row: row.value).run_with(Sink.to_list(), system)
    assert sorted(back.result(60)) == list(range(100))
    assert len(read_all("unblurred")) == 100


def test_K_21_a_restart_goes_on_behind_what_was_done(settings, system, committed, wait_for):
    flow = through_topic("resumed", settings, partitions=1)
    first = Source.range(0, 100).map(lambda i: Record("k", i, 1 + i)).via_mat(flow, Keep.right)
    control, done = first.map(lambda row: row.value).to_mat(Sink.to_list(), Keep.both).run(system)
    assert done.result(60) == list(range(100))
    control.is_shutdown.result(60)
    second = Source.range(100, 110).map(lambda i: Record("k", i, 1 + i)).via(flow).map(lambda row: row.value)
    assert second.run_with(Sink.to_list(), system).result(60) == list(range(100, 110))


def test_a_failure_before_it_fails_what_is_behind_and_nothing_of_the_open_transaction_is_seen(
    settings, system, read_all
):
    flow = through_topic("torn", settings, partitions=1)

    def row(i):
        if i == 50:
            raise KeyError("row 50")
        return Record("k", i, 1)

    error = Source.range(0, 100).map(row).via(flow).run_with(Sink.ignore(), system).exception(60)
    assert isinstance(error, KeyError)
    assert len(read_all("torn")) in (0, 50)


def test_a_cancel_behind_it_ends_what_is_before(settings, system):
    ended = threading.Event()
    endless = (
        Source.repeat(1)
        .map(lambda i: Record("k", i, 1))
        .watch_termination(lambda value, future: future.add_done_callback(lambda _: ended.set()))
    )
    flow = through_topic("cancelled", settings, partitions=1)
    rows = endless.throttle(100, "100ms").via(flow).take(5).run_with(Sink.to_list(), system)
    assert len(rows.result(60)) == 5
    assert ended.wait(60)


def test_a_failure_behind_it_fails_what_is_before(settings, system):
    seen = []
    source = Source.repeat(1).map(lambda i: Record("k", i, 1)).throttle(100, "100ms")
    before = source.watch_termination(lambda value, future: seen.append(future))
    flow = through_topic("fails-behind", settings, partitions=1)

    def fail(row):
        raise LookupError("behind")

    error = before.via(flow).map(fail).run_with(Sink.ignore(), system).exception(60)
    assert isinstance(error, LookupError)
    seen[0].exception(60)


def test_what_is_wrong_is_told_in_one_sentence(settings, system, cluster):
    error = (
        Source.single(5)
        .via(through_topic("numbers", settings, partitions=1))
        .run_with(Sink.ignore(), system)
        .exception(60)
    )
    assert isinstance(error, NoRow)
    assert "got int" in str(error)
    record = Record("k", 1, 1)
    for _ in range(2):  # it was not created by asking for it
        with pytest.raises(TopicNotFound, match="no topic no-topic"):
            Source.single(record).via(through_topic("no-topic", settings)).run_with(Sink.ignore(), system)
    cluster.create_topic("two", partitions=2)
    with pytest.raises(TopicError, match="has 2 partitions, not 3"):
        Source.single(record).via(through_topic("two", settings, partitions=3)).run_with(Sink.ignore(), system)
    with pytest.raises(BuildError, match="needs a group_id"):
        through_topic("x", settings.with_group_id(None))
    with pytest.raises(BuildError, match="value must be a Serde"):
        through_topic("x", settings, value="yaml")
    with pytest.raises(BuildError, match="transactional_id"):
        through_topic("x", settings, producer=ProducerSettings(settings.bootstrap_servers))


@pytest.mark.slow
@pytest.mark.expects_log("keep no changelog (changelog=False)")
def test_K_21_the_end_of_the_topic_is_waited_for_until_other_instances_have_written_theirs():
    """One instance is at the end of its input while another one still writes: what is behind must not end before those rows."""
    go, found = threading.Event(), []

    def held(record):
        if record.context.partition == 1:
            go.wait(60)
        return Record(record.key, b"", record.timestamp)  # without a context: into the partition of its key

    # so long the first generation is waited for: both instances are in it
    with Cluster(config={"group.initial.rebalance.delay.ms": 2_000}) as cluster:
        produce(cluster, "shared", [(i % 2, letter, 5_000 + i) for i, letter in enumerate("abcde" * 100)], 2)
        # The instance that ends first leaves its group. An eager assignor would take the other one's partition, with open windows.
        assignor = {"partition.assignment.strategy": "cooperative-sticky"}
        settings = ConsumerSettings(
            cluster.bootstrap_servers, "shared", "earliest", commit_interval_ms=50, properties=assignor
        )

        def start(system, number):
            producer = ProducerSettings(cluster.bootstrap_servers, transactional_id=str(number), commit_interval_ms=20)
            source = Consumer.records(settings, Subscriptions.topics("shared"), key="string", until="end").map(held)
            rows = source.via(through_topic("passed", settings, producer=producer, partitions=2))
            windows = rows.group_by_key(changelog=False).windowed_by(TimeWindows.of_size("1h").with_grace("0s"))
            return windows.count().suppress(CLOSED).to_stream().run_with(Sink.foreach(found.append), system)

        def committed(group, topic):
            with MetadataClient(settings.with_group_id(group)) as client:
                return client.committed((topic, number) for number in range(2))

        with ActorSystem("one") as one, ActorSystem("two") as two:
            runs = [start(one, 1), start(two, 2)]
            wait(lambda: committed("shared", "shared").get(("shared", 0), 0) == 250)
            wait(lambda: sum(committed("shared.passed", "passed").values()) >= 250)
            go.set()
            for done in runs:
                done.result(60)
    assert sorted((row.key, row.value) for row in found) == [(letter, 100) for letter in "abcde"]


def wait(condition):
    pause = threading.Event()
    for _ in range(1_200):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError("the condition did not come true")
