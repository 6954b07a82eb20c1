"""A cluster of one Apache broker and one of ours, under a controller of Apache Kafka: either leads, the other follows, and either
dies. Nothing that was acknowledged is lost, and the two logs are equal to the byte."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.differential.apache_kafka import broker as apache
from tests.differential.apache_kafka.broker import _free_ports
from tests.differential.apache_kafka.cluster import ApacheNode
from tests.differential.our_node import OurNode

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]
THEIRS, OURS = 1, 2
WITHIN_S = 60.0


class Mixed:
    """A controller and two brokers."""

    def __init__(self, folder: Path) -> None:
        (port,) = _free_ports(1)
        voters = f"3000@127.0.0.1:{port}"
        session = {"broker.session.timeout.ms": "3000"}
        fast = {"broker.heartbeat.interval.ms": "500", "replica.lag.time.max.ms": "2000"}
        self.controller = ApacheNode(folder / "c", 3000, "controller", voters=voters, port=port, settings=session)
        self.theirs = ApacheNode(folder / "theirs", THEIRS, "broker", voters=voters, settings=fast)
        self.ours = OurNode(folder / "ours", OURS, f"127.0.0.1:{port}", {**fast, "log.flush.interval.messages": 10_000})
        self.servers = f"{self.theirs.address},{self.ours.address}"

    def __enter__(self) -> Mixed:
        self.controller.start()
        self.theirs.start()
        self.ours.start()
        self.theirs.await_broker()
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.stop()
        self.theirs.kill()
        self.controller.kill()

    @functools.cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create(self, name: str, replicas: list[int], **settings: str) -> None:
        topic = NewTopic(
            name, 1, replica_assignment=[replicas], config={k.replace("_", "."): v for k, v in settings.items()}
        )
        self.admin.create_topics([topic])[name].result(30)

    def partition(self, name: str) -> confluent_kafka.admin.PartitionMetadata | None:
        try:
            topic = self.admin.list_topics(name, timeout=5).topics[name]
        except confluent_kafka.KafkaException:
            return None
        return topic.partitions.get(0)

    def await_partition(self, name: str, leader: int, isr: set[int]) -> None:
        seen = None

        def there() -> bool:
            nonlocal seen
            seen = self.partition(name)
            return seen is not None and seen.leader == leader and set(seen.isrs) == isr

        wait_until(there, lambda: f"{name}: {seen and (seen.leader, seen.isrs)}, not {leader} and {isr}")

    def write(self, name: str, values: range, acks: str = "all") -> list[int]:
        """Produce in order; return what was acknowledged."""
        acknowledged: list[int] = []
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.servers,
                "acks": acks,
                "linger.ms": 1,
                "message.timeout.ms": 30_000,
                "enable.idempotence": acks == "all",
                "batch.num.messages": 20,
                "retry.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        for value in values:
            producer.produce(
                name,
                str(value).encode(),
                partition=0,
                on_delivery=lambda error, _, value=value: None if error else acknowledged.append(value),
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        return acknowledged

    def read(self, name: str, server: str | None = None) -> list[int]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": server or self.servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        where = confluent_kafka.TopicPartition(name, 0, 0)
        _, end = consumer.get_watermark_offsets(where, timeout=30)
        consumer.assign([where])
        found: list[int] = []
        while len(found) < end:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            found.append(int(message.value()))
        consumer.close()
        return found

    def read_committed(self, name: str, count: int) -> list[int]:
        """Return the first records of committed transactions, and see that no more follow."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(name, 0, 0)])
        found: list[int] = []
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            message = consumer.poll(10)
            if message is not None and message.error() is None:
                found.append(int(message.value() or b""))
            elif message is not None and len(found) >= count:
                break  # the end of the partition
        consumer.close()
        return found

    def leader_of(self, name: str, partition: int) -> int:
        return self.admin.list_topics(name, timeout=30).topics[name].partitions[partition].leader

    def logs(self, name: str) -> tuple[bytes, bytes]:
        """Return the segment of each broker, theirs first."""
        file = Path(f"{name}-0") / "00000000000000000000.log"
        return (self.theirs.folder / file).read_bytes(), (self.ours.folder / file).read_bytes()

    def await_equal_logs(self, name: str) -> None:
        wait_until(
            lambda: len(set(self.logs(name))) == 1,
            lambda: f"the logs have {[len(each) for each in self.logs(name)]} bytes",
        )
        epochs = [
            (f / f"{name}-0" / "leader-epoch-checkpoint").read_text() for f in (self.theirs.folder, self.ours.folder)
        ]
        assert epochs[0] == epochs[1]


def wait_until(there: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not there():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.1)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    with Mixed(tmp_path_factory.mktemp("mixed")) as cluster:
        yield cluster


@pytest.mark.parametrize("replicas", [[THEIRS, OURS], [OURS, THEIRS]], ids=["they lead", "we lead"])
def test_what_all_replicas_acknowledged_is_the_same_on_both_to_the_byte(mixed: Mixed, replicas: list[int]) -> None:
    name = f"led-by-{replicas[0]}"
    mixed.create(name, replicas)
    assert mixed.write(name, range(200)) == list(range(200))
    mixed.await_partition(name, replicas[0], {THEIRS, OURS})
    assert mixed.read(name) == list(range(200))
    mixed.await_equal_logs(name)


def test_their_leader_dies_and_we_go_on_with_its_log(mixed: Mixed) -> None:
    mixed.create("their-death", [THEIRS, OURS])
    before = mixed.write("their-death", range(500))
    mixed.theirs.kill()
    mixed.await_partition("their-death", OURS, {OURS})
    after = mixed.write("their-death", range(500, 700))
    assert before + after == list(range(700))
    mixed.theirs.start()
    mixed.theirs.await_broker()
    mixed.await_partition("their-death", OURS, {THEIRS, OURS})
    assert mixed.read("their-death") == list(range(700))
    mixed.await_equal_logs("their-death")


def test_our_leader_dies_and_they_go_on_with_our_log(mixed: Mixed) -> None:
    mixed.create("our-death", [OURS, THEIRS])
    before = mixed.write("our-death", range(500))
    mixed.ours.kill()
    mixed.await_partition("our-death", THEIRS, {THEIRS})
    after = mixed.write("our-death", range(500, 700))
    assert before + after == list(range(700))
    mixed.ours.start()
    mixed.await_partition("our-death", THEIRS, {THEIRS, OURS})
    assert mixed.read("our-death") == list(range(700))
    mixed.await_equal_logs("our-death")


def test_records_that_only_our_dead_leader_had_are_truncated(mixed: Mixed) -> None:
    mixed.create("diverging", [OURS, THEIRS])
    mixed.write("diverging", range(100))
    mixed.theirs.pause()
    # The fetch that waits is answered with the first record, and is read from the socket after the pause.
    alone = mixed.write("diverging", range(100, 101), acks="1") + mixed.write("diverging", range(101, 105), acks="1")
    assert alone == list(range(100, 105))
    mixed.ours.kill()  # before the lag time has passed: they are still in sync, and are elected
    mixed.theirs.resume()
    mixed.await_partition("diverging", THEIRS, {THEIRS})
    mixed.write("diverging", range(200, 300))
    mixed.ours.start()
    mixed.await_partition("diverging", THEIRS, {THEIRS, OURS})
    assert mixed.read("diverging") in ([*range(100), *range(200, 300)], [*range(101), *range(200, 300)])
    mixed.await_equal_logs("diverging")


def test_a_follower_that_stands_still_leaves_the_isr_and_comes_back(mixed: Mixed) -> None:
    mixed.create("their-lag", [OURS, THEIRS])
    mixed.write("their-lag", range(10))
    mixed.theirs.pause()
    assert mixed.write("their-lag", range(10, 20)) == list(range(10, 20))  # as soon as they are out of the ISR
    mixed.theirs.resume()
    mixed.await_partition("their-lag", OURS, {THEIRS, OURS})
    mixed.await_equal_logs("their-lag")

    mixed.create("our-lag", [THEIRS, OURS])
    mixed.write("our-lag", range(10))
    mixed.ours.pause()
    assert mixed.write("our-lag", range(10, 20)) == list(range(10, 20))
    mixed.ours.resume()
    mixed.await_partition("our-lag", THEIRS, {THEIRS, OURS})
    mixed.await_equal_logs("our-lag")


def test_either_leaves_in_order_without_a_gap_for_writers(mixed: Mixed) -> None:
    mixed.create("departure", [OURS, THEIRS])
    assert mixed.write("departure", range(50)) == list(range(50))
    mixed.ours.stop()
    mixed.await_partition("departure", THEIRS, {THEIRS})
    assert mixed.write("departure", range(50, 100)) == list(range(50, 100))
    mixed.ours.start()
    mixed.await_partition("departure", THEIRS, {THEIRS, OURS})
    mixed.theirs.stop()
    mixed.await_partition("departure", OURS, {OURS})
    assert mixed.write("departure", range(100, 150)) == list(range(100, 150))
    mixed.theirs.start()
    mixed.theirs.await_broker()
    mixed.await_partition("departure", OURS, {THEIRS, OURS})
    assert mixed.read("departure") == list(range(150))
    mixed.await_equal_logs("departure")


def test_administration_through_our_broker_reaches_the_controller(mixed: Mixed) -> None:
    admin = AdminClient({"bootstrap.servers": mixed.ours.address, "log_level": 0})
    admin.create_topics([NewTopic("made-here", 1, 2, config={"retention.ms": "77000"})])["made-here"].result(30)
    told = apache.tool(
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        mixed.ours.address,
        "--describe",
        "--topic",
        "made-here",
    )
    assert "ReplicationFactor: 2" in told
    assert "retention.ms=77000" in told
    with pytest.raises(confluent_kafka.KafkaException, match="already exists"):
        admin.create_topics([NewTopic("made-here", 1, 2)])["made-here"].result(30)
    admin.delete_topics(["made-here"])["made-here"].result(30)
    wait_until(lambda: not (mixed.ours.folder / "made-here-0").exists(), lambda: "the folder is still there")


def test_groups_and_producer_ids_work_wherever_their_coordinators_are(mixed: Mixed) -> None:
    mixed.create("grouped", [OURS, THEIRS])
    mixed.write("grouped", range(30))
    for group in ("a", "b", "c", "d", "e", "f"):  # the four partitions of the offsets topic are on both brokers
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": mixed.servers, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
        )
        consumer.subscribe(["grouped"])
        found = [int(m.value()) for m in consumer.consume(30, timeout=60)]
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed([confluent_kafka.TopicPartition("grouped", 0)], timeout=30)
        consumer.close()
        assert (found, committed.offset) == (list(range(30)), 30)


def test_transactions_span_partitions_of_both_brokers_wherever_they_are_coordinated(mixed: Mixed) -> None:
    mixed.create("txn-theirs", [THEIRS, OURS])
    mixed.create("txn-ours", [OURS, THEIRS])
    ids = [f"id-{number}" for number in range(6)]  # the two partitions of the transaction topic are on both brokers
    for number, name in enumerate(ids):
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": mixed.servers,
                "transactional.id": name,
                "transaction.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        producer.init_transactions(60)
        for keeps in (True, False, True):
            producer.begin_transaction()
            for topic in ("txn-theirs", "txn-ours"):
                producer.produce(topic, str(number if keeps else -1).encode(), partition=0)
            producer.flush(60)
            if keeps:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
    coordinators = {mixed.leader_of("__transaction_state", each) for each in range(2)}
    assert coordinators == {THEIRS, OURS}
    expected = [number for number in range(len(ids)) for _ in range(2)]
    assert mixed.read_committed("txn-theirs", len(expected)) == expected
    assert mixed.read_committed("txn-ours", len(expected)) == expected
    mixed.await_equal_logs("txn-theirs")
    mixed.await_equal_logs("txn-ours")


def test_a_partition_with_records_moves_to_us_and_away_again(mixed: Mixed, tmp_path: Path) -> None:
    mixed.create("moving", [THEIRS])
    mixed.write("moving", range(300))

    def reassign(*replicas: int) -> None:
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"partitions": [{"topic": "moving", "partition": 0, "replicas": replicas}]}))
        apache.tool(
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            *("--bootstrap-server", mixed.ours.address, "--reassignment-json-file", str(plan), "--execute"),
        )

    reassign(THEIRS, OURS)
    mixed.await_partition("moving", THEIRS, {THEIRS, OURS})
    reassign(OURS)
    mixed.await_partition("moving", OURS, {OURS})
    assert mixed.write("moving", range(300, 400)) == list(range(300, 400))
    assert mixed.read("moving") == list(range(400))
    reassign(THEIRS)
    mixed.await_partition("moving", THEIRS, {THEIRS})
    assert mixed.read("moving") == list(range(400))
    wait_until(lambda: not (mixed.ours.folder / "moving-0").exists(), lambda: "the folder is still there")
