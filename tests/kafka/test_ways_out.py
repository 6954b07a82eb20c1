"""Errors and warnings of the connector name the way out."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer as BareConsumer

from streamactors import Keep, Sink, Source
from streamactors.errors import BuildError
from streamactors.kafka import (
    Admin,
    Consumer,
    MetadataClient,
    Producer,
    ProducerMessage,
    ProducerRecord,
    SendProducer,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client import connection, created_topics
from streamactors.kafka.client.admin_values import Member
from streamactors.kafka.errors import RecordError, TopicNotFound
from streamactors.kafka.reading.assignment import waiting_member
from streamactors.kafka.reading.assignment.waiting_member import WaitingMember
from streamactors.kafka.state.changelogs import changelog_topics
from streamactors.windows import Record, TimeWindows


def written(record, settings, system):
    Source.single(record).run_with(Producer.plain_sink(settings), system).result(30)


@pytest.fixture
def one_partition(cluster):
    cluster.create_topic("ways-out", 1)
    yield "ways-out"
    cluster.delete_topic("ways-out")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"timestamp": datetime(2026, 1, 1, tzinfo=UTC)},
            r"timestamp is a datetime .* int\(when\.timestamp\(\) \* 1000\)",
        ),
        ({"timestamp": "now"}, r"timestamp is a str .* None for now"),
        ({"partition": "1"}, r"partition is '1' cannot be sent; it is a number or None"),
        ({"partition": 7}, r"ways-out has no partition 7: .* None chooses one by the key"),
        ({"value": {"a": 1}}, r"a value of dict .* key=… and value=… serialises other types"),
        ({"value": b"x" * 2_000_000}, r"the producer's limit, message\.max\.bytes .*max\.message\.bytes=N"),
    ],
)
def test_a_record_that_cannot_be_written_names_the_way_out(producer_settings, system, one_partition, fields, sentence):
    with pytest.raises(RecordError, match=sentence):
        written(ProducerRecord(one_partition, **fields), producer_settings, system)


def test_a_record_over_the_brokers_limit_names_that_limit(cluster, producer_settings, system, one_partition):
    settings = producer_settings.with_property("message.max.bytes", 5_000_000)
    with pytest.raises(RecordError, match=r"the broker's limit, max\.message\.bytes of the topic"):
        written(ProducerRecord(one_partition, b"x" * 2_000_000), settings, system)


def test_a_mistyped_topic_gets_the_one_that_was_meant(cluster, settings, system, topic_with):
    topic_with("flights", [b"1"])
    with pytest.raises(TopicNotFound, match=r"no topic fligths at .*; did you mean flights\? or create it with"):
        Consumer.source(settings, Subscriptions.topics("fligths")).run_with(Sink.ignore(), system).result(30)
    with MetadataClient(settings) as client, pytest.raises(TopicNotFound):
        client.partitions_for("fligths")


def test_a_source_says_what_its_group_waits_for(settings, system, topic_with, monkeypatch, caplog, wait_for):
    # a killed process left a member behind: the next run waited for its session without a word
    monkeypatch.setattr(waiting_member, "WAITING_MS", 200)
    topic = topic_with("waited-for", [b"1"])
    silent = BareConsumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": settings.group_id})
    silent.subscribe([topic])
    wait_for(lambda: silent.poll(0.1) is None and silent.assignment())
    with caplog.at_level(logging.WARNING, "streamactors.kafka"):
        control = Consumer.source(settings, Subscriptions.topics(topic)).to(Sink.ignore()).run(system)
        wait_for(lambda: "no partitions after 0." in caplog.text)
    assert f"group {settings.group_id}" in caplog.text
    assert "(6 s here, session.timeout.ms)" in caplog.text
    assert "group.instance.id" in caplog.text
    silent.close()
    wait_for(lambda: control.snapshot()["partitions"])
    control.stop()
    control.is_shutdown.result(30)


def test_a_group_whose_members_still_change_waits_for_nobody(settings, caplog):
    # the broker holds back the first rebalance while members come; the log blamed a killed process for it
    shared = SimpleNamespace(settings=settings, client=object(), stopping=False, call_later=lambda ms, then: None)
    waiting = WaitingMember(shared, lambda: False)
    members = [Member(f"m-{n}", "client", f"/10.0.0.{n}", None, ()) for n in range(3)]
    assert not waiting.look_at(())
    assert not waiting.look_at(tuple(members[:1]))
    assert not waiting.look_at(tuple(members[:2]))
    assert not waiting.look_at(tuple(members))
    assert caplog.records == []
    assert waiting.look_at(tuple(members))
    assert (
        "Of its members (client at /10.0.0.0, client at /10.0.0.1, client at /10.0.0.2) the group waits for one"
        in caplog.text
    )


def test_a_source_that_has_its_partitions_says_nothing(settings, system, topic_with, monkeypatch, caplog):
    monkeypatch.setattr(waiting_member, "WAITING_MS", 1_000)
    topic = topic_with("not-waited-for", [b"1"])
    Consumer.source(settings, Subscriptions.topics(topic), until="end").run_with(Sink.ignore(), system).result(30)
    assert "no partitions" not in caplog.text


@pytest.mark.parametrize("source", ["source", "committable_source", "plain_source"])
def test_a_stateful_map_behind_a_source_that_goes_on_after_a_restart_warns(settings, system, caplog, source):
    graph = (
        getattr(Consumer, source)(settings, Subscriptions.topics("t"))
        .stateful_map(int, lambda n, _: (n + 1, n))
        .to(Sink.ignore())
    )
    control = graph.run(system)
    control.is_shutdown.exception(30)
    warned = f"'stateful_map' downstream of 'Consumer.{source}' forgets its state at a restart" in caplog.text
    assert warned == (source == "source")
    assert ("group_by_key()" in caplog.text) == warned


def test_a_topic_that_the_records_bring_into_being_is_said(cluster, producer_settings, system, topic_with, caplog):
    # a misspelt topic was created without a word where the broker creates missing topics
    topic_with("payments", [b"1"])
    for topic in ("payments", "paymetns", "paymetns"):
        written(ProducerRecord(topic, b"1"), producer_settings, system)
    told = [record.getMessage() for record in caplog.records if "was created" in record.getMessage()]
    assert len(told) == 1
    assert "topic paymetns did not exist at" in told[0]
    assert told[0].endswith("was created (auto.create.topics.enable); did you mean payments?")


def test_topics_of_a_topology_that_another_instance_has_just_made_are_not_said(cluster, settings, caplog):
    # Both instances start at once: the producer of one starts, the other creates the changelog, and the first finds it there.
    with Admin(settings) as admin:
        for topic in ("g-rows-repartition", "g-sums-changelog"):
            admin.create(topic, 1)
            created_topics.made_here.discard(topic)
    created = created_topics.CreatedTopics(
        "b:9092", lambda ms, fn: None, lambda: ["g-rows-repartition", "g-sums-changelog", "paymetns"]
    )
    created.start(["payments"])
    changelog_topics.ensure_topic(settings, "g-rows-repartition", 1)
    found = SimpleNamespace(
        _topics={"counts": "g-sums-changelog"}, _refuse_renumbered=lambda *_: None, _tell_of_renamed=lambda *_: None
    )
    changelog_topics.ChangelogTopics._prepare(found, None, {"g-sums-changelog": 1}, 1)
    for topic in ("g-rows-repartition", "g-sums-changelog", "paymetns"):
        created.sent(topic)
    created.look()
    assert [record.args[0] for record in caplog.records] == ["paymetns"]


def test_a_topic_that_this_process_creates_while_the_producer_runs_is_not_said(cluster, settings, caplog):
    created = created_topics.CreatedTopics("b:9092", lambda ms, fn: None, lambda: ["g-counts-changelog", "paymetns"])
    created.start(["payments"])
    with Admin(settings) as admin:
        admin.create("g-counts-changelog", 1)
    created.sent("g-counts-changelog")
    created.sent("paymetns")
    created.look()
    assert [record.args[0] for record in caplog.records] == ["paymetns"]
    cluster.delete_topic("g-counts-changelog")


def test_a_topic_that_the_broker_creates_late_is_said(caplog):
    later, existing = [], []
    created = created_topics.CreatedTopics("b:9092", lambda ms, fn: later.append((ms, fn)), lambda: existing)
    created.start(["payments"])
    created.sent("paymetns")
    for _ in range(2):
        later[-1][1]()
    assert not caplog.records
    existing.append("paymetns")
    later[-1][1]()
    assert [record.args[0] for record in caplog.records] == ["paymetns"]
    assert [ms for ms, _ in later] == [1_000, 2_000, 4_000]


def test_a_topic_that_is_never_created_is_looked_for_a_few_times():
    later = []
    created = created_topics.CreatedTopics("b:9092", lambda ms, fn: later.append(fn), list)
    created.start(["payments"])
    created.sent("paymetns")
    for looked in range(created_topics.LOOKS):
        later[looked]()
    assert len(later) == created_topics.LOOKS


def test_a_sink_that_runs_on_says_it_too(producer_settings, system, monkeypatch, caplog, wait_for):
    monkeypatch.setattr(created_topics, "NEW_TOPIC_MS", 50)
    queue, stored = Source.queue(9).to_mat(Producer.plain_sink(producer_settings), Keep.both).run(system)
    queue.offer(ProducerRecord("never-seen", b"1"))
    wait_for(lambda: "topic never-seen did not exist" in caplog.text)
    queue.complete()
    stored.result(30)


@pytest.mark.parametrize(("timestamp", "said"), [(1_700_000_000, 1), (1_700_000_000_000, 0), (500, 0), (None, 0)])
def test_a_record_with_its_time_in_seconds_is_said_once(
    producer_settings, system, one_partition, caplog, timestamp, said
):
    records = [ProducerRecord(one_partition, b"1", timestamp=timestamp)] * 3
    Source.from_iterable(records).run_with(Producer.plain_sink(producer_settings), system).result(30)
    told = [record.getMessage() for record in caplog.records if "multiply it by 1000" in record.getMessage()]
    assert len(told) == said
    assert all(
        f"topic {one_partition}: the timestamp 1700000000 lies in January or February 1970" in each for each in told
    )


@pytest.mark.expects_log("which librdkafka takes for now")
@pytest.mark.parametrize("headers", [None, [("h", b"1")]])
def test_a_timestamp_of_0_is_written_as_1_by_every_writer(
    cluster, producer_settings, system, read_all, wait_for, headers
):
    # librdkafka takes 0 for now, 56 years later
    topic = f"zero-{'plain' if headers is None else 'headers'}"
    cluster.create_topic(topic, 1)
    record = ProducerRecord(topic, b"1", timestamp=0, headers=headers)
    one = ProducerMessage.message(record)
    transactional = producer_settings.with_transactional_id(topic)
    for source, sink in (
        (record, Producer.plain_sink(producer_settings)),
        (one, Producer.flexi_flow(producer_settings).to(Sink.ignore())),
        (ProducerMessage.multi([record, record]), Producer.flexi_flow(producer_settings).to(Sink.ignore())),
    ):
        Source.single(source).run_with(sink, system)
    Source.single(record).run_with(Transactional.sink(transactional), system).result(30)
    sender = SendProducer(producer_settings)
    sender.send(record).result(30)
    sender.close()
    wait_for(lambda: len(read_all(topic)) >= 6)
    assert [message.timestamp()[1] for message in read_all(topic)] == [1] * 6


def test_a_timestamp_of_0_is_said_once(producer_settings, system, one_partition, caplog):
    # the rows of a table that began at 0 were read behind the rows of a stream that began at 5, and the join found nothing
    records = [ProducerRecord(one_partition, b"1", timestamp=timestamp) for timestamp in (0, 0, 1, None)]
    Source.from_iterable(records).run_with(Producer.plain_sink(producer_settings), system).result(30)
    told = [record.getMessage() for record in caplog.records if "timestamp 0" in record.getMessage()]
    assert told == [f"topic {one_partition}: {connection.ZERO_IS_ONE}"]


@pytest.mark.parametrize(("unit", "said"), [(1, 1), (1000, 0)])
def test_windows_over_times_in_seconds_say_it_once(system, caplog, unit, said):
    caplog.set_level(logging.WARNING, "streamactors.windows")
    rows = [Record("k", n, (1_700_000_000 + n) * unit) for n in range(5)]
    windowed = Source.from_iterable(rows).group_by_key().windowed_by(TimeWindows.of_size("1m").with_no_grace()).count()
    windowed.to_stream().run_with(Sink.ignore(), system).result(30)
    assert caplog.text.count("multiply it by 1000") == said


def test_a_partition_that_is_not_there_is_named_before_anything_is_read(settings, system, one_partition):
    for subscription in (
        Subscriptions.assignment((one_partition, 5)),
        Subscriptions.assignment_with_offset({(one_partition, 5): 0}),
    ):
        source = Consumer.source(settings, subscription, until="end")
        with pytest.raises(TopicNotFound, match=r"ways-out has no partition 5 at .*: it has 1, numbered from 0"):
            source.run_with(Sink.ignore(), system).result(30)
    with MetadataClient(settings) as metadata:
        for ask in (metadata.end_offsets, metadata.beginning_offsets, metadata.committed):
            with pytest.raises(BuildError, match=r"a partition is \(topic, number\), got 'ways-out'"):
                ask([one_partition])
