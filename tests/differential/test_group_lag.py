"""`streamactors groups describe` beside Apache Kafka's kafka-consumer-groups.sh, both asking the same broker: ours, and Apache Kafka 4.4.0.

The lag in seconds, which Apache's tool does not have, is compared with what kafka-python reads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streamactors.broker import Cluster
from streamactors.cli.main import run
from tests.differential.apache_kafka import broker as apache

kafka = pytest.importorskip("kafka")

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(900),
]

GROUP, TOPIC = "readers", "orders"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
COMMITTED = {0: 4, 1: 2, 3: 20}
"""Partition 1 has lost its first five records, partition 2 is never committed, partition 3 is read to its end."""


@pytest.fixture(scope="module", params=["ours", "Apache's"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "ours":
        with Cluster(process=True, listen="127.0.0.1:0") as cluster:
            yield cluster.bootstrap_servers
        return
    theirs = apache.ApacheKafka(Path(tmp_path_factory.mktemp("kafka")) / "data")
    theirs.start()
    try:
        yield theirs.address
    finally:
        theirs.stop()


@pytest.fixture
def member(address: str) -> Iterator[None]:
    """A member that owns every partition and reads nothing."""
    at = {"bootstrap.servers": address}
    admin = AdminClient(at)
    admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)
    producer = Producer(at)
    began_ms = int(time.time() * 1_000) - 600_000
    for number in range(80):
        producer.produce(TOPIC, b"x", partition=number % 4, timestamp=began_ms + number * 1_000)
    producer.flush(30)
    consumer = Consumer({**at, "group.id": GROUP, "client.id": "app-1", "enable.auto.commit": False})
    offsets = [TopicPartition(TOPIC, partition, offset) for partition, offset in COMMITTED.items()]
    consumer.commit(offsets=offsets, asynchronous=False)
    admin.delete_records([TopicPartition(TOPIC, 1, 5)])[TopicPartition(TOPIC, 1, 5)].result(30)
    assigned: list[object] = []

    def stay(client: Consumer, partitions: list[TopicPartition]) -> None:
        client.assign(partitions)
        client.pause(partitions)
        assigned.extend(partitions)

    consumer.subscribe([TOPIC], on_assign=stay)
    while not assigned:
        consumer.poll(0.2)
    yield
    consumer.close()


def theirs(address: str) -> dict[int, tuple[str, ...]]:
    """Return partition -> (committed, end, lag, member id, host, client id), as the tool prints them."""
    said = apache.tool(TOOL, "--bootstrap-server", address, "--describe", "--group", GROUP)
    rows = [line.split() for line in said.splitlines() if line.startswith(GROUP)]
    return {int(row[2]): tuple(row[3:9]) for row in rows}


def first_timestamps(address: str, offsets: dict[int, int]) -> dict[int, int]:
    """Return the timestamp of the first record at or after an offset of each partition, as kafka-python reads it."""
    reader = kafka.KafkaConsumer(bootstrap_servers=address, enable_auto_commit=False, auto_offset_reset="earliest")
    found = {}
    for partition, offset in offsets.items():
        place = kafka.TopicPartition(TOPIC, partition)
        reader.assign([place])
        reader.seek(place, max(offset, reader.beginning_offsets([place])[place]))
        while partition not in found:
            for record in reader.poll(500).get(place, [])[:1]:
                found[partition] = record.timestamp
    reader.close()
    return found


def test_both_say_the_same_of_a_group(address: str, member: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["groups", "describe", GROUP, "-b", address, "--json"]) == 0
    now_ms = time.time() * 1_000
    ours = {row["partition"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    there = theirs(address)
    assert ours.keys() == there.keys() == {0, 1, 2, 3}
    for partition, (committed, end, lag, member_id, host, client_id) in there.items():
        row = ours[partition]
        assert str("-" if row["committed"] is None else row["committed"]) == committed
        assert (str(row["end"]), row["member_id"], row["host"], row["client_id"]) == (end, member_id, host, client_id)
        # Apache's tool counts deleted records as lag, and knows none without a commit
        assert lag == ("-" if row["committed"] is None else str(row["lag"] + row["deleted"]))
    assert {partition: row["lag"] for partition, row in ours.items()} == {0: 16, 1: 15, 2: 20, 3: 0}
    assert ours[1]["deleted"] == 3
    assert ours[3]["lag_seconds"] == 0.0
    for partition, timestamp in first_timestamps(address, {0: 4, 1: 2, 2: 0}).items():
        assert ours[partition]["lag_seconds"] == pytest.approx((now_ms - timestamp) / 1_000, abs=5)
