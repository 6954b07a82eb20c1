"""Consumer.topics: joins and tables over Kafka, through repartition topics, changelogs and a restart."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer as BareProducer
from confluent_kafka.admin import AdminClient, ConfigResource

from streamactors import ActorSystem, Keep, Sink
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, ConsumerSettings, ProducerSettings
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.errors import ConsumerFailed, NoBroker, TopicError, TopicNotFound
from streamactors.kafka.settings import ClientSettings
from streamactors.kafka.state import topic_upkeep
from streamactors.windows import JoinWindows, TimeWindows
from streamactors.windows.errors import OperatorFailed

PARTITIONS = 3


@pytest.fixture
def write(cluster):
    """write(topic, [(key, value, timestamp)])"""
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"})

    def write(topic, rows):
        for key, value, timestamp in rows:
            data = None if value is None else json.dumps(value).encode()
            producer.produce(topic, key=key, value=data, timestamp=timestamp)
        producer.flush()

    return write


def running(system, source, results, enough, then=lambda: None):
    """Run a source until it gave `enough` results and `then` has returned."""
    seen = threading.Event()

    def take(record):
        results.append(record)
        if len(results) >= enough:
            seen.set()

    control, done = source.to_mat(Sink.foreach(take), Keep.both).run(system)
    try:
        assert seen.wait(60), f"{len(results)} of {enough} results"
        then()
    finally:
        control.drain_and_shutdown(done, timeout=30)


def latest(results):
    return {record.key: record.value for record in results}


def joined(settings):
    topics = Consumer.topics(settings)
    orders = topics.stream("orders", value="json")
    people = topics.table("people", value="json", name="people")
    countries = topics.global_table("countries", value="json")
    known = orders.join_table(people, lambda order, person: order | (person or {}), how="left")
    known = known.join_global(countries, lambda row, country: row | country, key=lambda r: r.value["c"])
    known.select_key(lambda record: record.value["c"]).group_by_key().count(name="by-country").to(
        "counts", value="json"
    )
    return topics.source(known)


def test_rows_meet_tables_and_global_tables_and_a_restart_finds_both(
    cluster, settings, system, write, read_all, wait_for
) -> None:
    for topic in ("orders", "people", "counts"):
        cluster.create_topic(topic, partitions=PARTITIONS)
    cluster.create_topic("countries", partitions=2)
    write("countries", [(f"c{i}", {"land": i}, 1) for i in range(3)])
    write("people", [(f"p{i}", {"name": f"n{i}"}, 1_000 + i) for i in range(6)])
    write("orders", [(f"p{i % 7}", {"o": i, "c": f"c{i % 3}"}, 2_000 + i) for i in range(21)])
    first: list[Any] = []
    running(system, joined(settings), first, 21)
    assert latest(first)["p3"] == {"o": 17, "c": "c2", "name": "n3", "land": 2}
    assert latest(first)["p6"] == {"o": 20, "c": "c2", "land": 2}
    write("orders", [(f"p{i % 7}", {"o": i, "c": f"c{i % 3}"}, 3_000 + i) for i in range(21, 42)])
    second: list[Any] = []
    with ActorSystem("again") as again:
        all_counted = lambda: wait_for(lambda: len(read_all("counts", PARTITIONS)) >= 42)  # noqa: E731
        running(again, joined(settings), second, 21, all_counted)
    assert sorted(record.value["o"] for record in second) == list(range(21, 42))
    assert latest(second)["p3"]["name"] == "n3"
    counts = read_all("counts", PARTITIONS)
    newest = {}
    for each in counts:
        newest[bytes(each.key())] = max(newest.get(bytes(each.key()), 0), json.loads(each.value()))
    assert newest == {b"c0": 14, b"c1": 14, b"c2": 14}
    assert len(counts) == 42  # each row counted once, over both runs


def test_a_foreign_key_join_goes_to_the_partition_of_the_foreign_key_and_back(cluster, settings, system, write) -> None:
    for topic in ("items", "owners"):
        cluster.create_topic(topic, partitions=PARTITIONS)
    write("owners", [(f"p{i}", {"name": f"n{i}"}, 1_000) for i in range(4)])
    write("items", [(f"i{i}", {"owner": f"p{i % 4}"}, 2_000 + i) for i in range(12)])
    topics = Consumer.topics(settings)
    items, owners = topics.table("items", value="json"), topics.table("owners", value="json")
    table = items.join_foreign_key(
        owners, lambda key, item: item["owner"], lambda item, owner: item | owner, name="owned"
    )
    results: list[Any] = []
    running(system, topics.source(table), results, 12)
    assert latest(results) == {f"i{i}": {"owner": f"p{i % 4}", "name": f"n{i % 4}"} for i in range(12)}


def test_streams_are_joined_whatever_topic_is_read_first(cluster, settings, system, write) -> None:
    for topic in ("clicks", "views"):
        cluster.create_topic(topic, partitions=PARTITIONS)
    write("views", [(f"u{i % 9}", i, 1_000 + 10 * i) for i in range(90)])
    write("clicks", [(f"u{i % 9}", i, 1_003 + 10 * i) for i in range(90)])
    topics = Consumer.topics(settings)
    clicks, views = topics.stream("clicks", value="json"), topics.stream("views", value="json")
    windows = JoinWindows.of("5ms").with_grace("0ms")
    results: list[Any] = []
    running(system, topics.source(clicks.join(views, lambda click, view: (click, view), windows)), results, 90)
    assert sorted(record.value for record in results) == [(i, i) for i in range(90)]


def test_a_bounded_topology_ends_with_its_topics(cluster, settings, system, write) -> None:
    for topic in ("bounded-orders", "bounded-people"):
        cluster.create_topic(topic, partitions=PARTITIONS)
    write("bounded-people", [(f"p{i}", f"n{i}", 1_000 + i) for i in range(6)])
    write("bounded-orders", [(f"p{i % 7}", i, 2_000 + i) for i in range(40)])
    topics = Consumer.topics(settings, until="end")
    people = topics.table("bounded-people", value="json")
    known = topics.stream("bounded-orders", value="json").join_table(people, lambda o, p: (o, p), how="left")
    rows = topics.source(known).run_with(Sink.to_list(), system).result(60)
    assert sorted(row.value for row in rows if row.value[1]) == [(i, f"n{i % 7}") for i in range(40) if i % 7 != 6]
    assert len(rows) == 40
    assert topics.source(known).run_with(Sink.to_list(), system).result(60) == []


def test_a_commit_in_the_middle_does_not_wait_for_a_list_that_waits_for_the_end(
    cluster, settings, system, write
) -> None:
    # the commit waited for the list, the list for the end of the stream, and the topology ends only when its state is committed
    for topic in ("long-orders", "long-people"):
        cluster.create_topic(topic, partitions=PARTITIONS)
    write("long-people", [(f"p{i}", f"n{i}", 1_000 + i) for i in range(7)])
    write("long-orders", [(f"p{i % 7}", i, 2_000 + i) for i in range(4_000)])
    often = ProducerSettings(cluster.bootstrap_servers, transactional_id="long", commit_interval_ms=1)
    topics = Consumer.topics(replace(settings, max_in_flight=20), until="end", producer=often)
    people = topics.table("long-people", value="json")
    known = topics.stream("long-orders", value="json").join_table(people, lambda o, p: o, how="left")
    rows = topics.source(known).run_with(Sink.to_list(), system).result(60)
    assert sorted(row.value for row in rows) == list(range(4_000))


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_bounded_topology_processes_its_repartition_topics_to_the_end(
    cluster, settings, system, write, exactly_once, read_all
) -> None:
    topic, out = f"words-{exactly_once}", f"lengths-{exactly_once}"
    cluster.create_topic(topic, partitions=PARTITIONS)
    cluster.create_topic(out, partitions=PARTITIONS)
    write(topic, [(f"k{i}", f"w{i % 11}", 1_000 + i) for i in range(120)])
    producer = ProducerSettings(cluster.bootstrap_servers, transactional_id=out) if exactly_once else None
    topics = Consumer.topics(replace(settings, group_id=topic), until="end", producer=producer)
    words = topics.stream(topic, value="json").group_by(lambda record: record.value).count(name="words").to_stream()
    lengths = words.group_by(lambda record: str(len(record.key))).count(name="lengths")
    lengths.to(out, value="json")
    topics.graph().run(system).is_shutdown.result(60)
    found: dict[bytes, int] = {}
    for message in read_all(out, PARTITIONS):
        found[message.key()] = max(found.get(message.key(), 0), json.loads(message.value()))
    assert found == {b"2": 110, b"3": 10}  # w0 to w9, and w10, which comes ten times


def test_internal_topics_have_kafka_streams_settings_and_keep_no_rows_that_are_done(
    cluster, settings, system, write, wait_for, monkeypatch
) -> None:
    monkeypatch.setattr(topic_upkeep, "PURGE_INTERVAL_MS", 50)
    cluster.create_topic("visits", partitions=PARTITIONS)
    write("visits", [(f"u{i}", {"page": f"p{i % 5}"}, 1_000 + i) for i in range(60)])
    topics = Consumer.topics(settings)
    visits = topics.stream("visits", value="json")
    pages = visits.select_key(lambda record: record.value["page"]).group_by_key()
    hourly = pages.windowed_by(TimeWindows.of_size("1h").with_grace("1m")).count(name="hourly")
    visits.to_table(name="users", history="2h")
    visits.group_by_key().count(name="by-user")
    results: list[Any] = []
    admin = Admin(ClientSettings(cluster.bootstrap_servers))
    name = f"{settings.group_id}-hourly-repartition"

    def purged():
        wait_for(lambda: sum(each.latest for each in admin.describe(name).partitions) >= 60)
        wait_for(lambda: max(each.latest - each.earliest for each in admin.describe(name).partitions) <= 1)  # a marker

    running(system, topics.source(hourly), results, 60, purged)
    assert sum(latest(results).values()) == 60
    found, client = {}, AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for store in ("hourly", "users", "by-user"):
        resource = ConfigResource(ConfigResource.Type.TOPIC, f"{settings.group_id}-{store}-changelog")
        config = client.describe_configs([resource])[resource].result(30)
        found[store] = [config[each].value for each in ("cleanup.policy", "retention.ms", "min.compaction.lag.ms")]
    day, hour = 86_400_000, 3_600_000
    assert found["hourly"][:2] == ["compact,delete", str(hour + 60_000 + day)]
    assert (found["users"][0], found["users"][2]) == ("compact", str(2 * hour + day))
    assert (found["by-user"][0], found["by-user"][2]) == ("compact", "0")


def test_topics_of_a_join_with_different_numbers_of_partitions_are_refused_by_name(cluster, settings, system) -> None:
    cluster.create_topic("three", partitions=3)
    cluster.create_topic("two", partitions=2)
    topics = Consumer.topics(settings)
    joined = topics.stream("three").join_table(topics.table("two"), lambda left, right: left, name="mismatch")
    with pytest.raises(TopicError, match="mismatch: three has 3 partitions, two has 2 partitions"):
        topics.source(joined).to(Sink.ignore()).run(system)


def test_a_topology_without_topics_or_of_another_group_is_refused(settings) -> None:
    with pytest.raises(BuildError, match="not a stream or table of this topology"):
        Consumer.topics(settings).source(Consumer.topics(settings).stream("x"))
    with pytest.raises(BuildError, match="reads no topic"):
        Consumer.topics(settings).graph()


def test_a_topology_that_fails_at_the_start_leaves_no_run_behind(system):
    # "1 stream was still running when the process ended"
    topics = Consumer.topics(ConsumerSettings("127.0.0.1:1", "g", preflight_timeout_ms=100))
    topics.stream("orders").to("copies")
    with pytest.raises(NoBroker):
        topics.graph().run(system)
    assert list(system.streams()) == []


def test_a_topology_whose_global_table_is_not_there_leaves_no_thread_behind(cluster, settings, system) -> None:
    """Threads that look after the internal topics ran already when the missing topic was found, and asked the broker ten times a second forever."""
    cluster.create_topic("no-table-orders", partitions=1)
    topics = Consumer.topics(replace(settings, group_id="no-table"), until="end")
    countries = topics.global_table("no-such-table")
    known = topics.stream("no-table-orders").join_global(countries, lambda row, country: row, key=lambda r: r.key)
    known.select_key(lambda record: record.value).group_by_key().count(name="orders")
    known.to("no-table-out")
    with pytest.raises(TopicNotFound, match="no-such-table"):
        topics.graph().run(system)
    assert not [each.name for each in threading.enumerate() if "no-table" in each.name]


@pytest.mark.expects_log("the topology of group")
def test_a_global_table_that_cannot_be_read_on_ends_the_topology_with_its_name(cluster, write, wait_for) -> None:
    # The error was logged, and the rows met a table that stood still.
    for topic in ("stands-orders", "stands-countries", "stands-out"):
        cluster.create_topic(topic, partitions=1)
    write("stands-countries", [("c", {"land": 1}, 1)])
    topics = Consumer.topics(ConsumerSettings(cluster.bootstrap_servers, "stands", "earliest"))
    countries, met = topics.global_table("stands-countries", value="json"), []
    orders = topics.stream("stands-orders", value="json")
    orders.join_global(countries, lambda row, country: met.append(row) or country, key=lambda r: "c").to(
        "stands-out", value="json"
    )
    with ActorSystem("stands") as system:
        control = topics.graph().run(system)
        write("stands-orders", [("a", 1, 1)])
        wait_for(lambda: met)
        producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("stands-countries", b"no json", key=b"c")
        producer.flush(10)
        with pytest.raises(ConsumerFailed, match="global tables stands-countries: reading has failed: "):
            control.completion.result(timeout=20)


def test_the_failure_of_a_topology_is_the_error_of_its_completion_and_is_logged(cluster, write, caplog) -> None:
    # A program that waited for `is_shutdown` of a run with until="end" ended with exit code 0.
    cluster.create_topic("fails-orders", partitions=1)
    write("fails-orders", [("a", 1, 1)])
    topics = Consumer.topics(ConsumerSettings(cluster.bootstrap_servers, "fails", "earliest"), until="end")
    topics.stream("fails-orders", value="json").map_values(lambda value: value / 0, name="halves").to(
        "fails-out", value="json"
    )
    with ActorSystem("fails") as system:
        control = topics.graph().run(system)
        said = r"halves: the function of key 'a' raised ZeroDivisionError: .* \(record fails-orders-0@0, .*test_topics.py:\d+\)"
        with pytest.raises(OperatorFailed, match=said):
            control.completion.result(timeout=30)
        with pytest.raises(OperatorFailed):
            control.drain_and_shutdown(timeout=30)
    assert "the topology of group fails has failed: OperatorFailed: halves: the function of key 'a'" in caplog.text


def test_the_completion_of_a_topology_that_is_done_has_no_error(cluster, write) -> None:
    cluster.create_topic("ends-orders", partitions=1)
    cluster.create_topic("ends-out", partitions=1)
    write("ends-orders", [("a", 1, 1)])
    topics = Consumer.topics(ConsumerSettings(cluster.bootstrap_servers, "ends", "earliest"), until="end")
    topics.stream("ends-orders", value="json").to("ends-out", value="json")
    with ActorSystem("ends") as system:
        control = topics.graph().run(system)
        assert control.completion.exception(timeout=30) is None
        control.drain_and_shutdown(timeout=30)


def test_a_producer_that_is_none_is_refused_where_it_is_given() -> None:
    with pytest.raises(BuildError, match=r"Consumer.topics: producer is 'x'; give ProducerSettings"):
        Consumer.topics(ConsumerSettings("localhost:1", "g"), producer="x")


def test_a_new_store_beside_the_changelog_of_a_store_that_is_gone_is_told(cluster, write, caplog) -> None:
    # A store was renamed: the new one began empty, and nothing said so.
    cluster.create_topic("renames-orders", partitions=1)
    cluster.create_topic("renames-out", partitions=1)
    write("renames-orders", [("a", 1, 1)])

    def run(name: str) -> None:
        topics = Consumer.topics(ConsumerSettings(cluster.bootstrap_servers, "renames", "earliest"), until="end")
        topics.stream("renames-orders", value="json").group_by_key().count(name=name).to_stream().to(
            "renames-out", value="json"
        )
        with ActorSystem(name) as system:
            topics.graph().run(system).completion.result(timeout=30)

    run("before")
    assert "does not belong to any step" not in caplog.text
    run("after")
    assert (
        "renames-before-changelog does not belong to any step of this run, and renames-after-changelog is new"
        in caplog.text
    )


def test_a_second_source_of_a_topology_is_refused() -> None:
    # The first source gave the rows of both.
    topics = Consumer.topics(ConsumerSettings("localhost:1", "g"))
    orders = topics.stream("orders")
    topics.source(orders)
    topics.source(orders)
    with pytest.raises(BuildError, match=r"topics\.source: this topology has the source of another stream already"):
        topics.source(topics.stream("payments"))
