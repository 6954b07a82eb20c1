"""confluent-kafka's clients against this broker: all of AdminClient that concerns topics, and producers in every codec."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin

from streamactors.broker import Cluster

ck: Any = confluent_kafka
ck_admin: Any = admin
TIMEOUT_S = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster(process=True) as cluster:
        yield cluster


@pytest.fixture
def client(broker: Cluster) -> Any:
    return ck_admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture
def topic(broker: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, 2)
    return name


def done(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(timeout=TIMEOUT_S)


def consume(broker: Cluster, topic: str, count: int, partitions: int = 1, offset: int = 0) -> list[Any]:
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
    consumer.assign([ck.TopicPartition(topic, number, offset) for number in range(partitions)])
    found: list[Any] = []
    give_up = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < give_up:
        found += consumer.consume(count - len(found), 0.5)
    consumer.close()
    assert [message.error() for message in found if message.error()] == []
    return found


def produce(broker: Cluster, topic: str, values: list[bytes], **settings: Any) -> list[Any]:
    """Return what was acknowledged, in order."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, **named})
    acknowledged: list[Any] = []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            str(number),
            partition=0,
            headers=[("n", str(number))],
            timestamp=1_700_000_000_000 + number,
            on_delivery=lambda error, message: acknowledged.append(error or message),
        )
    assert producer.flush(TIMEOUT_S) == 0
    return acknowledged


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_survive_the_way_in_every_codec(broker: Cluster, topic: str, codec: str, acks: str) -> None:
    values = [f"value {number} ".encode() * 20 for number in range(500)]
    acknowledged = produce(broker, topic, values, compression_type=codec, acks=acks)
    if acks != "0":
        assert [message.offset() for message in acknowledged] == list(range(500))
    messages = consume(broker, topic, 500)
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(500))
    assert messages[7].key() == b"7"
    assert messages[7].headers() == [("n", b"7")]
    assert messages[7].timestamp() == (ck.TIMESTAMP_CREATE_TIME, 1_700_000_000_007)


def test_an_idempotent_producer_is_served(broker: Cluster, topic: str) -> None:
    values = [str(number).encode() for number in range(2000)]
    acknowledged = produce(broker, topic, values, enable_idempotence=True, compression_type="lz4", batch_size=1000)
    assert [message.offset() for message in acknowledged] == list(range(2000))
    assert [message.value() for message in consume(broker, topic, 2000)] == values


def test_log_append_time_is_the_brokers(broker: Cluster) -> None:
    broker.create_topic("append-time", 1, {"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    produce(broker, "append-time", [b"x"])
    (message,) = consume(broker, "append-time", 1)
    kind, timestamp = message.timestamp()
    assert kind == ck.TIMESTAMP_LOG_APPEND_TIME
    assert before - 1000 <= timestamp <= time.time() * 1000 + 1000


def test_topics_are_created_grown_described_and_deleted(client: Any) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    done(client.create_topics([ck_admin.NewTopic(name, 2, 1, config={"retention.ms": "77"})]))
    done(client.create_partitions([ck_admin.NewPartitions(name, 5)]))
    described = done(client.describe_topics(ck.TopicCollection([name])))
    assert [p.id for p in described.partitions] == [0, 1, 2, 3, 4]
    assert all(p.leader.id == 1 and [n.id for n in p.isr] == [1] for p in described.partitions)
    with pytest.raises(ck.KafkaException, match="already exists"):
        done(client.create_topics([ck_admin.NewTopic(name, 2, 1)]))
    done(client.delete_topics([name]))
    assert name not in client.list_topics(timeout=TIMEOUT_S).topics


def test_settings_are_described_and_altered(client: Any, topic: str) -> None:
    def entries() -> Any:
        return done(client.describe_configs([ck_admin.ConfigResource(ck_admin.ResourceType.TOPIC, topic)]))

    assert (entries()["retention.ms"].value, entries()["retention.ms"].is_default) == ("604800000", True)
    set_it = ck_admin.ConfigEntry("retention.ms", "77", incremental_operation=ck_admin.AlterConfigOpType.SET)
    resource = ck_admin.ConfigResource(ck_admin.ResourceType.TOPIC, topic, incremental_configs=[set_it])
    done(client.incremental_alter_configs([resource]))
    changed = entries()["retention.ms"]
    assert (changed.value, changed.source) == ("77", ck_admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    # the older way, which replaces all settings and which its makers have deprecated
    replaced = ck_admin.ConfigResource(ck_admin.ResourceType.TOPIC, topic, set_config={"segment.ms": "88"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        done(client.alter_configs([replaced]))
    assert (entries()["retention.ms"].value, entries()["segment.ms"].value) == ("604800000", "88")
    broker = done(client.describe_configs([ck_admin.ConfigResource(ck_admin.ResourceType.BROKER, "1")]))
    assert broker["num.partitions"].value == "1"


def test_records_are_deleted_and_offsets_listed(broker: Cluster, client: Any, topic: str) -> None:
    produce(broker, topic, [b"%d" % number for number in range(10)])
    deleted = done(client.delete_records([ck.TopicPartition(topic, 0, 4)]))
    assert deleted.low_watermark == 4
    for spec, offset in ((ck_admin.OffsetSpec.earliest(), 4), (ck_admin.OffsetSpec.latest(), 10)):
        assert done(client.list_offsets({ck.TopicPartition(topic, 0): spec})).offset == offset
    by_time = ck_admin.OffsetSpec.for_timestamp(1_700_000_000_006)
    assert done(client.list_offsets({ck.TopicPartition(topic, 0): by_time})).offset == 6


def test_the_cluster_is_described(broker: Cluster, client: Any) -> None:
    described = client.describe_cluster(include_authorized_operations=True).result(timeout=TIMEOUT_S)
    assert described.cluster_id == broker.cluster_id
    assert [f"{node.host}:{node.port}" for node in described.nodes] == [broker.bootstrap_servers]
    assert ck_admin.AclOperation.CREATE in described.authorized_operations


def test_acls_are_refused_as_by_a_kafka_without_an_authoriser(client: Any) -> None:
    binding = ck_admin.AclBinding(
        ck_admin.ResourceType.TOPIC, "t", ck_admin.ResourcePatternType.LITERAL, "User:a", "*",
        ck_admin.AclOperation.READ, ck_admin.AclPermissionType.ALLOW,
    )  # fmt: skip
    with pytest.raises(ck.KafkaException, match="No Authorizer is configured"):
        done(client.create_acls([binding]))
