"""Capsules of groups of a real cluster, and what a replay makes of them beside what the live group did."""

from __future__ import annotations

import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from streamactors import ActorSystem
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    TopicPartition,
    Transactional,
)
from streamactors.kafka.client.admin import LATEST, Admin
from streamactors.kafka.settings import ClientSettings
from streamactors.simulation.capture.capsule import Capsule, CapturedRecord, GraphIdentity, Kind
from streamactors.simulation.capture.capsule_file import read_capsule, write_capsule
from streamactors.simulation.capture.errors import CaptureError
from streamactors.simulation.capture.limiting import Limits
from streamactors.simulation.capture.loading import Begin
from streamactors.simulation.capture.replaying import replay
from streamactors.simulation.capture.taking import capture
from streamactors.windows import TimeWindows

HOUR_MS = 3_600_000
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(ClientSettings(cluster.bootstrap_servers)) as admin:
        yield admin


@pytest.fixture
def take(cluster: Cluster) -> Callable[..., Capsule]:
    def take(group: str, **more: Any) -> Capsule:
        settings = ClientSettings(cluster.bootstrap_servers)
        return capture(settings, group, **{"since_ms": int(time.time() * 1_000) - HOUR_MS, **more})

    return take


def send(cluster: Cluster, topic: str, rows: Iterable[Mapping[str, Any]]) -> None:
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for row in rows:
        producer.produce(topic, **row)
    assert producer.flush(PATIENCE_S) == 0


def until(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def sums(servers: str, group: str) -> Any:
    reader = ConsumerSettings(servers, group, "earliest")
    return (
        Consumer.records(reader, Subscriptions.topics(f"{group}-in"), key="string", value="string")
        .map(lambda row: row.replace(value=int(row.value))).named("number")
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1d").with_grace("1h"))
        .aggregate(lambda: 0, lambda total, number: total + number, name="sum")
        .to_stream()
        .map(lambda row: ProducerRecord(f"{group}-out", str(row.value), row.key)).named("record")
        .to(Transactional.sink(ProducerSettings(servers).with_transactional_id(group)))
    )  # fmt: skip


def read_all(cluster: Cluster, topic: str) -> dict[str, list[str]]:
    """Return the committed values of each key, in their order."""
    client = ck.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "look", "enable.partition.eof": True}
    )
    count = len(client.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
    client.assign([ck.TopicPartition(topic, number, 0) for number in range(count)])
    found: dict[str, list[str]] = {}
    ended = 0
    while ended < count:
        message = client.poll(PATIENCE_S)
        assert message is not None
        if message.error():
            ended += 1
        else:
            found.setdefault(message.key().decode(), []).append(message.value().decode())
    client.close()
    return found


def test_a_replay_repeats_what_the_live_group_did(
    cluster: Cluster, admin: Admin, take: Callable[..., Capsule], tmp_path: Path
) -> None:
    group = "live"
    cluster.create_topic(f"{group}-in", partitions=3)
    cluster.create_topic(f"{group}-out", partitions=2)
    keys = [TopicPartition(f"{group}-in", number) for number in range(3)]

    def is_done() -> bool:
        committed = admin.committed(group, keys)
        return committed == {key: end for key, end in admin.offsets(dict.fromkeys(keys, LATEST)).items() if end}

    def rows(count: int) -> list[dict[str, Any]]:
        return [{"value": f"{number}", "key": f"secret-{number % 7}"} for number in range(count)]

    graph = sums(cluster.bootstrap_servers, group)
    with ActorSystem() as system:
        graph.run(system)
        send(cluster, f"{group}-in", rows(60))
        until(is_done)
        before = read_all(cluster, f"{group}-out")
        time.sleep(0.05)
        since_ms = int(time.time() * 1_000)
        time.sleep(0.05)
        send(cluster, f"{group}-in", rows(40))
        until(is_done)
        taken = take(
            group, since_ms=since_ms, named=[f"{group}-out"], graph=GraphIdentity.of(f"{__name__}:sums", graph)
        )
        redacted = take(group, since_ms=since_ms, redact=hidden)
    live = {key: values[len(before.get(key, ())) :] for key, values in read_all(cluster, f"{group}-out").items()}

    path = tmp_path / "live.capsule"
    write_capsule(taken, path)
    held = read_capsule(path)
    assert held == taken
    assert held.records == 40
    assert [(topic.kind, topic.partitions) for topic in held.topics] == [
        (Kind.INPUT, 3),
        (Kind.CHANGELOG, 3),
        (Kind.OTHER, 2),
    ]
    assert held.notes == ()
    assert held.graph is not None
    assert "number" in held.graph.stages
    assert held.graph.source

    done = replay(held, graph)
    replayed: dict[str, list[str]] = {}
    for each in done.results:
        if each.place == f"{group}-out":
            replayed.setdefault(each.key.strip("'"), []).append(each.value.strip("'"))
    assert replayed == live
    assert done.committed == {str(key): offset for key, offset in admin.committed(group, keys).items()}

    at_the_end = replay(held, graph, begin=Begin.COMMITTED)
    assert (at_the_end.records, at_the_end.results) == (0, [])

    assert [topic.kind for topic in redacted.topics if "changelog" in topic.name] == [Kind.OTHER]
    assert "a redacting function cannot see into state" in " ".join(redacted.notes)
    write_capsule(redacted, path)
    with zipfile.ZipFile(path) as archive:
        assert not any(b"secret" in archive.read(name) for name in archive.namelist())
    assert {each.key for part in redacted.of(Kind.INPUT) for each in part.records} == {b"key"}


def hidden(record: CapturedRecord) -> CapturedRecord:
    """What the test writes in place of a record."""
    return record._replace(key=b"key")


def transactional(cluster: Cluster, name: str) -> Any:
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    return producer


def test_only_what_the_group_reads_is_captured(cluster: Cluster, admin: Admin, take: Callable[..., Capsule]) -> None:
    cluster.create_topic("paid", partitions=1)
    for number, ends in enumerate(("commit_transaction", "abort_transaction", "commit_transaction")):
        producer = transactional(cluster, "writer")
        producer.produce("paid", b"%d" % number)
        assert producer.flush(PATIENCE_S) == 0
        getattr(producer, ends)(PATIENCE_S)
    unfinished = transactional(cluster, "unfinished")
    unfinished.produce("paid", b"open")
    assert unfinished.flush(PATIENCE_S) == 0
    send(cluster, "paid", [{"value": b"after the open one"}])
    admin.commit("cashier", {TopicPartition("paid", 0): 0})

    taken = take("cashier")
    (committed,) = taken.slices
    assert taken.notes == (
        "paid-0 ends at offset 6, where a transaction is open: 2 offsets after it are not read by the group yet",
    )
    assert [(each.offset, each.value) for each in committed.records] == [(0, b"0"), (4, b"2")]
    assert (committed.begin, committed.end) == (0, 6)
    (whole,) = take("cashier", committed_only=False).slices
    assert [each.value for each in whole.records] == [b"0", b"1", b"2", b"open", b"after the open one"]
    unfinished.abort_transaction(PATIENCE_S)

    seen: list[tuple[int, Any]] = []
    reader = ConsumerSettings(cluster.bootstrap_servers, "cashier", "earliest")
    source = Consumer.plain_source(reader, Subscriptions.topics("paid"))
    done = replay(take("cashier", since_ms=int(time.time() * 1_000) - 60_000), _into(source, seen))
    assert seen == [(0, b"0"), (4, b"2"), (7, b"after the open one")]
    assert done.failures == []


def _into(source: Any, seen: list[tuple[int, Any]]) -> Any:
    from streamactors import Sink

    return source.to(Sink.foreach(lambda each: seen.append((each.offset, each.value))))


def test_several_topics_tombstones_headers_tables_and_empty_partitions(
    cluster: Cluster, admin: Admin, take: Callable[..., Capsule]
) -> None:
    cluster.create_topic("clicks", partitions=4)
    admin.create("users", 1, settings={"cleanup.policy": "compact", "max.message.bytes": "2000000"})
    old = int(time.time() * 1_000) - 5 * HOUR_MS
    send(cluster, "users", [{"value": f"{at}", "key": "ann", "timestamp": old + at} for at in range(3)])
    send(cluster, "users", [{"value": "1", "key": "bob", "timestamp": old}, {"value": None, "key": "ann"}])
    send(cluster, "clicks", [{"value": b"\xff", "key": b"\x00", "partition": 2, "headers": [("h", b"1"), ("h", None)]}])
    send(cluster, "clicks", [{"value": b"old", "partition": 1, "timestamp": old}])
    admin.commit("pages", {TopicPartition("clicks", 1): 1, TopicPartition("clicks", 2): 1})

    taken = take("pages", topics=["users"])
    by_name = {each.name: each for each in taken.slices}
    assert {topic.name: topic.kind for topic in taken.topics} == {"users": Kind.TABLE, "clicks": Kind.INPUT}
    assert [(each.key, each.value, each.offset) for each in by_name["users-0"].records] == [(b"ann", b"2", 2), (b"bob", b"1", 3), (b"ann", None, 4)]  # fmt: skip
    assert by_name["users-0"].begin == 4
    assert dict(next(topic.settings for topic in taken.topics if topic.name == "users")) == {"cleanup.policy": "compact", "max.message.bytes": "2000000"}  # fmt: skip
    (click,) = by_name["clicks-2"].records
    assert (click.key, click.value, click.headers) == (b"\x00", b"\xff", (("h", b"1"), ("h", None)))
    assert [
        (name, each.begin, each.end, each.committed, each.records)
        for name, each in by_name.items()
        if name in ("clicks-0", "clicks-1", "clicks-3")
    ] == [
        ("clicks-0", 0, 0, None, ()),
        ("clicks-1", 1, 1, 1, ()),
        ("clicks-3", 0, 0, None, ()),
    ]


def test_what_retention_has_deleted_and_what_lies_before_the_span_is_told(
    cluster: Cluster, admin: Admin, take: Callable[..., Capsule]
) -> None:
    cluster.create_topic("short", partitions=2)
    old = int(time.time() * 1_000) - 5 * HOUR_MS
    for partition in (0, 1):
        send(cluster, "short", [{"value": f"{at}", "partition": partition, "timestamp": old} for at in range(6)])
        send(cluster, "short", [{"value": "new", "partition": partition}])
    admin.delete_records({TopicPartition("short", 0): 4})
    admin.commit("slow", {TopicPartition("short", 0): 2, TopicPartition("short", 1): 3})
    taken = take("slow")
    assert [(each.begin, len(each.records)) for each in taken.slices] == [(4, 3), (3, 4)]
    told = " | ".join(taken.notes)
    assert "short-0: retention has deleted 2 offsets that the group had not read (2 to 3)" in told
    assert "short-1 begins at the group's offset 3, before the span" in told

    admin.delete_records({TopicPartition("short", 0): 7})
    admin.commit("slow", {TopicPartition("short", 0): 7})
    assert [each.begin for each in take("slow").slices] == [7, 3]


def test_what_the_limits_leave_out_is_told(cluster: Cluster, admin: Admin, take: Callable[..., Capsule]) -> None:
    cluster.create_topic("many", partitions=1)
    send(cluster, "many", [{"value": f"{at}"} for at in range(50)])
    admin.commit("m", {TopicPartition("many", 0): 50})
    taken = take("m", limits=Limits(records=10))
    (held,) = taken.slices
    assert ([int(each.value or b"") for each in held.records], held.begin) == (list(range(40, 50)), 40)
    assert "many-0: the first 40 records are left out" in taken.notes[-1]
    assert "the span begins at offset 40" in taken.notes[-1]


def test_a_group_that_is_not_there_is_refused_with_the_way_out(take: Callable[..., Capsule], cluster: Cluster) -> None:
    with pytest.raises(CaptureError, match=r"group nobody has neither committed offsets nor members.*--topics"):
        take("nobody")
    cluster.create_topic("free", partitions=1)
    send(cluster, "free", [{"value": json.dumps([1])}])
    assert take("nobody", topics=["free"]).records == 1  # a source that does not commit


def test_a_group_that_has_committed_nothing_is_known_by_its_members(
    cluster: Cluster, admin: Admin, take: Callable[..., Capsule]
) -> None:
    cluster.create_topic("fresh", partitions=1)
    client = ck.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "new", "enable.auto.commit": False}
    )
    client.subscribe(["fresh"])
    until(lambda: client.poll(0.05) is None and bool(client.assignment()))
    assert [each.name for each in take("new").slices] == ["fresh-0"]
    client.close()


def test_a_topic_that_was_deleted_is_told(cluster: Cluster, admin: Admin, take: Callable[..., Capsule]) -> None:
    cluster.create_topic("stays", partitions=1)
    cluster.create_topic("goes", partitions=1)
    admin.commit("g", {TopicPartition("stays", 0): 0, TopicPartition("goes", 0): 0})
    admin.delete("goes")
    until(lambda: "goes" not in {topic.name for topic in admin.topics()})
    assert [each.name for each in take("g").slices] == ["stays-0"]


def test_the_state_of_a_group_with_a_longer_name_is_not_captured(
    cluster: Cluster, admin: Admin, take: Callable[..., Capsule]
) -> None:
    for name in (
        "bills",
        "pay-sum-changelog",
        "pay-eu-sum-changelog",
        "pay-by-city-repartition",
        "payments-sum-changelog",
    ):
        cluster.create_topic(name, partitions=1)
    for group in ("pay", "pay-eu", "pay-by-city-repartition"):
        admin.commit(group, {TopicPartition("bills", 0): 0})
    assert {topic.name: topic.kind for topic in take("pay").topics} == {
        "bills": Kind.INPUT,
        "pay-sum-changelog": Kind.CHANGELOG,
        "pay-by-city-repartition": Kind.REPARTITION,
    }


def test_a_capture_ends_though_records_keep_coming(
    cluster: Cluster, admin: Admin, take: Callable[..., Capsule]
) -> None:
    cluster.create_topic("busy", partitions=3)
    admin.commit("b", {TopicPartition("busy", 0): 0})
    goes_on = threading.Event()

    def write() -> None:
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
        while not goes_on.wait(0.001):
            producer.produce("busy", b"x")
            producer.poll(0)
        producer.flush(PATIENCE_S)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        until(lambda: take("b").records > 50)
        taken = take("b")
    finally:
        goes_on.set()
        writer.join()
    assert all(len(each.records) == each.end - each.begin for each in taken.slices)
