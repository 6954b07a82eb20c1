"""Consumer groups and transactions of the clients people use: librdkafka, kafka-python and aiokafka."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from streamactors.broker import Cluster
from tests.broker.apis.test_group_apis import join, sync
from tests.broker.wire import WireClient

RECORDS = 60
PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"group.min.session.timeout.ms": 1_000}) as cluster:
        yield cluster


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex[:8]


@pytest.fixture
def topic(cluster: Cluster, name: str) -> str:
    """A topic with 60 records in 4 partitions."""
    topic = f"t-{name}"
    cluster.create_topic(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    producer.flush(10)
    return topic


def consumer(cluster: Cluster, group: str, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 100,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )


def poll_until(consumers: list[Consumer], done: Callable[[], bool], values: list[bytes] | None = None) -> None:
    give_up = time.monotonic() + 30
    while not done():
        assert time.monotonic() < give_up, "the group did not get there"
        for each in consumers:
            message = each.poll(0.01)
            if message is not None and message.error() is None and values is not None:
                values.append(message.value())


def owned(consumers: list[Consumer]) -> list[set[int]]:
    return [{p.partition for p in each.assignment()} for each in consumers]


def balanced(consumers: list[Consumer]) -> bool:
    sets = owned(consumers)
    return all(len(s) == PARTITIONS // len(consumers) for s in sets) and set().union(*sets) == set(range(PARTITIONS))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions_and_hand_them_over(
    cluster: Cluster, topic: str, name: str, strategy: str
) -> None:
    values: list[bytes] = []
    consumers = [consumer(cluster, name, partition_assignment_strategy=strategy) for _ in range(2)]
    for each in consumers:
        each.subscribe([topic])
    poll_until(consumers, lambda: balanced(consumers), values)
    poll_until(consumers, lambda: len(set(values)) == RECORDS, values)
    leaving = consumers.pop()
    leaving.close()
    poll_until(consumers, lambda: owned(consumers) == [set(range(PARTITIONS))], values)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    group = admin.describe_consumer_groups([name])[name].result()
    assert group.state == ConsumerGroupState.STABLE
    assert group.partition_assignor == strategy
    assert {p.partition for m in group.members for p in m.assignment.topic_partitions} == set(range(PARTITIONS))
    consumers[0].close()


def test_the_next_member_continues_at_the_committed_offsets(cluster: Cluster, topic: str, name: str) -> None:
    first = consumer(cluster, name)
    first.subscribe([topic])
    seen: list[bytes] = []
    poll_until([first], lambda: len(seen) >= RECORDS // 2, seen)
    first.commit(asynchronous=False)
    first.close()
    rest: list[bytes] = []
    second = consumer(cluster, name)
    second.subscribe([topic])
    poll_until([second], lambda: len(seen) + len(rest) >= RECORDS, rest)
    assert sorted(map(int, seen + rest)) == list(range(RECORDS))
    second.close()


def test_a_static_member_comes_back_without_a_rebalance(cluster: Cluster, topic: str, name: str) -> None:
    revoked: list[object] = []
    stays = consumer(cluster, name, group_instance_id="stays", session_timeout_ms=30_000)
    stays.subscribe([topic], on_revoke=lambda *_: revoked.append(1))
    goes = consumer(cluster, name, group_instance_id="goes", session_timeout_ms=30_000)
    goes.subscribe([topic])
    poll_until([stays, goes], lambda: balanced([stays, goes]))
    before = owned([goes])
    revoked.clear()
    goes.close()
    again = consumer(cluster, name, group_instance_id="goes", session_timeout_ms=30_000)
    again.subscribe([topic])
    poll_until([stays, again], lambda: owned([again]) == before)
    assert revoked == []
    stays.close()
    again.close()


def test_a_member_that_dies_is_replaced_after_its_session(cluster: Cluster, topic: str, name: str) -> None:
    host, port = cluster.bootstrap_servers.split(":")
    with WireClient(host, int(port)) as client:
        client.call(10, 3, {"key": name, "key_type": 0})
        joined = join(client, name, session_timeout_ms=1_000)
        sync(client, name, joined)
    # Its connection is closed and no LeaveGroup was sent: as after a kill.
    survivor = consumer(cluster, name)
    survivor.subscribe([topic])
    poll_until([survivor], lambda: owned([survivor]) == [set(range(PARTITIONS))])
    survivor.close()


def test_a_committed_transaction_is_read_once_and_an_aborted_one_never(cluster: Cluster, topic: str, name: str) -> None:
    out = f"out-{name}"
    cluster.create_topic(out, 2)
    reader = consumer(cluster, name)
    reader.subscribe([topic])
    writer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    writer.init_transactions(10)
    done, turn = 0, 0
    while done < RECORDS:
        messages = [m for m in reader.consume(20, 1.0) if m.error() is None]
        if not messages:
            continue
        writer.begin_transaction()
        for message in messages:
            writer.produce(out, message.value())
        writer.flush(10)
        writer.send_offsets_to_transaction(reader.position(reader.assignment()), reader.consumer_group_metadata())
        turn += 1
        if turn % 2:
            writer.abort_transaction()
            for position in reader.committed(reader.assignment()):
                reader.seek(TopicPartition(topic, position.partition, max(position.offset, 0)))
        else:
            writer.commit_transaction()
            done += len(messages)
    reader.close()
    seen: dict[str, list[bytes]] = {"read_committed": [], "read_uncommitted": []}
    for level, values in seen.items():
        checker = consumer(cluster, f"{name}-{level}", isolation_level=level)
        checker.subscribe([out])
        poll_until([checker], lambda values=values: len(set(values)) == RECORDS, values)
        for _ in range(10):
            message = checker.poll(0.05)
            if message is not None:
                values.append(message.value())
        checker.close()
    assert sorted(map(int, seen["read_committed"])) == list(range(RECORDS))
    assert len(seen["read_uncommitted"]) > RECORDS


def test_a_second_producer_fences_the_first(cluster: Cluster, topic: str, name: str) -> None:
    def producer() -> Producer:
        made = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
        made.init_transactions(10)
        return made

    first = producer()
    first.begin_transaction()
    first.produce(topic, b"half")
    first.flush(10)
    second = producer()
    second.begin_transaction()
    second.produce(topic, b"whole")
    second.commit_transaction(10)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(10)
    assert caught.value.args[0].fatal()


def test_kafka_python_groups(cluster: Cluster, topic: str, name: str) -> None:
    kafka = pytest.importorskip("kafka")
    values: list[bytes] = []
    stop = threading.Event()
    shares: dict[int, set[int]] = {}
    ready = threading.Barrier(3)

    def run(number: int) -> None:
        member = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=name,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            session_timeout_ms=6_000,
        )
        give_up = time.monotonic() + 30
        while not stop.is_set() and time.monotonic() < give_up:
            for records in member.poll(
                timeout_ms=1_000
            ).values():  # shorter polls leave a rebalance half done in the client
                values.extend(record.value for record in records)
            shares[number] = {p.partition for p in member.assignment()}
            if (
                len(shares) == 2
                and all(len(s) == PARTITIONS // 2 for s in shares.values())
                and len(set(values)) == RECORDS
            ):
                stop.set()  # for both: a member that polls on alone would wait for the other in the next rebalance
        ready.wait(30)
        member.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    ready.wait(40)
    for thread in threads:
        thread.join(30)
    assert sorted(set(map(int, values))) == list(range(RECORDS))
    assert shares[0] | shares[1] == set(range(PARTITIONS))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (offsets,) = [f.result() for f in admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]).values()]
    assert sum(p.offset for p in offsets.topic_partitions) == RECORDS


def test_aiokafka_groups_and_transactions(cluster: Cluster, topic: str, name: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    out = f"out-{name}"
    cluster.create_topic(out, 1)

    async def main() -> list[int]:
        reader = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )
        writer = aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name)
        await reader.start()
        await writer.start()
        done = 0
        while done < RECORDS:
            async with writer.transaction():
                batch = await reader.getmany(timeout_ms=1_000)
                for partition, messages in batch.items():
                    for message in messages:
                        await writer.send(out, message.value)
                    await writer.send_offsets_to_transaction({partition: messages[-1].offset + 1}, name)
                    done += len(messages)
        committed = [await reader.committed(partition) for partition in reader.assignment()]
        await writer.stop()
        await reader.stop()
        checker = aiokafka.AIOKafkaConsumer(
            out,
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await checker.start()
        values: list[int] = []
        while len(values) < RECORDS:
            for messages in (await checker.getmany(timeout_ms=1_000)).values():
                values += [int(message.value) for message in messages]
        await checker.stop()
        assert sum(committed) == RECORDS
        return values

    assert sorted(asyncio.run(asyncio.wait_for(main(), 40))) == list(range(RECORDS))
