"""A cluster of one Apache broker and one of ours, under a controller of either kind; and what the tests do with it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tests.differential.apache_kafka.broker import _free_ports
from tests.differential.apache_kafka.cluster import ApacheNode
from tests.differential.our_node import OurController, OurNode

THEIRS, OURS, CONTROLLER = 1, 2, 3000
WITHIN_S = 60.0


class Mixed:
    """A controller and two brokers. Our controller is a broker too, which has replicas of no topic of a test."""

    def __init__(self, folder: Path, *, our_controller: bool = False) -> None:
        (port,) = _free_ports(1)
        voters = f"{CONTROLLER}@127.0.0.1:{port}"
        session = {"broker.session.timeout.ms": "6000"}  # beside load a broker may stand still for 3 s
        fast = {"broker.heartbeat.interval.ms": "500", "replica.lag.time.max.ms": "2000"}
        self.controller: ApacheNode | OurController
        if our_controller:
            self.controller = OurController(folder / "c", CONTROLLER, port, session)
        else:
            self.controller = ApacheNode(
                folder / "c", CONTROLLER, "controller", voters=voters, port=port, settings=session
            )
        self.theirs = ApacheNode(folder / "theirs", THEIRS, "broker", voters=voters, settings=fast)
        self.ours = OurNode(folder / "ours", OURS, f"127.0.0.1:{port}", {**fast, "log.flush.interval.messages": 10_000})
        self.servers = f"{self.theirs.address},{self.ours.address}"

    def __enter__(self) -> Mixed:
        self.controller.start()
        self.theirs.cluster_id = self.controller.cluster_id
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

    def is_elected(self, name: str, leader: int, dead: set[int]) -> bool:
        """Wait until a broker leads; False if only dead ones are in sync, so that nobody can be elected."""
        seen = None

        def decided() -> bool:
            nonlocal seen
            seen = self.partition(name)
            return seen is not None and (seen.leader == leader or set(seen.isrs) == dead)

        wait_until(
            decided,
            lambda: f"{name}: {seen and (seen.leader, seen.isrs)}, neither {leader} leads nor is {dead} in sync",
        )
        return seen is not None and seen.leader == leader

    def producer(self, acks: str = "all") -> confluent_kafka.Producer:
        return confluent_kafka.Producer(
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

    def write(
        self, name: str, values: range, acks: str = "all", producer: confluent_kafka.Producer | None = None
    ) -> list[int]:
        """Produce in order, with a producer of its own if none is given; return what was acknowledged."""
        acknowledged: list[int] = []
        producer = producer or self.producer(acks)
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
