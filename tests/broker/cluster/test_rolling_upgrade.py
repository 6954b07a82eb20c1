"""Three nodes of 0.1.0 become nodes of this version one after the other, on their folders and under load; then the features are raised."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from streamactors.broker.cluster.acked import check_acked
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.broker.cluster.view import View
from streamactors.broker.controller.rules.release_levels import default_levels
from streamactors.broker.wire_request import call
from tests.broker.wire import wait_until

REPOSITORY = Path(__file__).parents[3]
OLD = "4415523fee285fcc124eff37890a9aeccad3a967"
"""The last commit whose version is 0.1.0."""
NODES = (1, 2, 3)
WITHIN_S = 120.0


def old_code() -> bytes | None:
    """Return the package of 0.1.0 as a tar archive, None if the history is not here."""
    try:
        done = subprocess.run(
            ["git", "-C", str(REPOSITORY), "archive", OLD, "streamactors"], capture_output=True, check=False, timeout=60
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


class Node:
    """The process of a controller and broker; its code may be another one at each start."""

    def __init__(self, folder: Path, node_id: int, ports: dict[int, tuple[int, int]]) -> None:
        self.node_id = node_id
        self.address = f"127.0.0.1:{ports[node_id][0]}"
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, (_, port) in ports.items())
        self.config = folder / f"{node_id}.properties"
        self.config.write_text(
            f"process.roles=broker,controller\nnode.id={node_id}\ncontroller.quorum.voters={voters}\n"
            f"listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{ports[node_id][1]}\n"
            f"controller.listener.names=CONTROLLER\nlog.dirs={folder / str(node_id)}\n"
            "offsets.topic.num.partitions=3\ntransaction.state.log.num.partitions=3\ngroup.initial.rebalance.delay.ms=0\n"
        )
        self._log = (folder / f"{node_id}.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, code: Path) -> None:
        """Start the process; `await_ready` waits for it."""
        self._process = run(code, "broker", "--config", str(self.config), stdout=subprocess.PIPE, stderr=self._log)

    def await_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert b"ready" in line, Path(self._log.name).read_text()[-3_000:]

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.communicate(timeout=WITHIN_S)
            self._process = None


def run(code: Path, *words: str, **streams: Any) -> subprocess.Popen[bytes]:
    """Start the command line of a version."""
    environment = {**os.environ, "PYTHONPATH": str(code)}
    return subprocess.Popen(
        [sys.executable, "-m", "streamactors.cli.main", *words], env=environment, cwd=code, **streams
    )


def output_of(code: Path, *words: str) -> str:
    process = run(code, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, error = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, error
    return out.decode()


class Load:
    """Writes until it is left: one producer plain records, another one transactions over two topics. It knows what was acknowledged."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._stop = threading.Event()
        self.acked: list[tuple[str, bytes]] = []
        self.failed: list[str] = []
        self.committed: list[int] = []
        self.maybe: list[int] = []
        """Transactions whose end has no answer."""
        self._threads = [threading.Thread(target=each) for each in (self._write, self._transact)]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join(WITHIN_S)

    def await_more(self) -> None:
        """Wait until both producers have had acknowledgements since now."""
        records, transactions = len(self.acked), len(self.committed)
        wait_until(
            lambda: len(self.acked) > records + 20 and len(self.committed) > transactions + 2,
            "both producers are acknowledged",
            timeout_s=WITHIN_S,
        )

    def _settings(self, **more: object) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._servers,
            "log_level": 0,
            "retry.backoff.max.ms": 200,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def _write(self) -> None:
        producer = confluent_kafka.Producer(self._settings(enable_idempotence=True, message_timeout_ms=120_000))
        number = 0
        while not self._stop.wait(0.005):
            value = str(number).encode()

            def delivered(error: Any, message: Any, value: bytes = value) -> None:
                if error is None:
                    self.acked.append(("orders", value))
                else:
                    self.failed.append(str(error))

            producer.produce("orders", value, partition=number % 3, on_delivery=delivered)
            producer.poll(0)
            number += 1
        producer.flush(WITHIN_S)

    def _transact(self) -> None:
        number, producer = 0, self._transactional()
        while not self._stop.wait(0.05):
            number += 1
            try:
                producer.begin_transaction()
                for topic in ("left", "right"):
                    producer.produce(topic, str(number).encode(), partition=0)
                producer.flush(60)
                if number % 4 == 0:
                    producer.abort_transaction(60)
                    continue
                self.maybe.append(number)
                producer.commit_transaction(60)
                self.maybe.remove(number)
                self.committed.append(number)
            except confluent_kafka.KafkaException:
                producer = self._transactional()  # ends what is open

    def _transactional(self) -> confluent_kafka.Producer:
        while True:
            producer = confluent_kafka.Producer(self._settings(transactional_id="pairs", transaction_timeout_ms=60_000))
            try:
                producer.init_transactions(60)
                return producer
            except confluent_kafka.KafkaException:
                if self._stop.is_set():
                    raise


class Three:
    """The cluster."""

    def __init__(self, folder: Path, old: Path) -> None:
        taken: list[int] = []
        for _ in range(2 * len(NODES)):
            taken.append(free_port(taken))
        ports = {node: (taken[2 * place], taken[2 * place + 1]) for place, node in enumerate(NODES)}
        self.nodes = {node: Node(folder, node, ports) for node in NODES}
        self.servers = ",".join(each.address for each in self.nodes.values())
        cluster_id = output_of(old, "storage", "random-uuid").strip()
        for each in self.nodes.values():
            output_of(old, "storage", "format", "--cluster-id", cluster_id, "--config", str(each.config))

    def start(self, code: Path) -> None:
        for each in self.nodes.values():
            each.start(code)
        for each in self.nodes.values():
            each.await_ready()

    def stop(self) -> None:
        for each in self.nodes.values():
            each.stop()

    def await_whole(self) -> None:
        """Wait until every replica is in sync."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

        def whole() -> bool:
            topics = admin.list_topics(timeout=10).topics.values()
            return all(set(each.isrs) == set(each.replicas) for topic in topics for each in topic.partitions.values())

        wait_until(whole, "every replica is in sync", timeout_s=WITHIN_S)

    def levels(self) -> dict[str, int]:
        body = {"client_software_name": "test", "client_software_version": "1"}
        told = call(self.nodes[1].address, (18, 4), body)
        return {each.name: each.max_version_level for each in told.finalized_features}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    archive = old_code()
    if not archive:
        pytest.skip("the history with 0.1.0 is not here")
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(tmp_path / "old", filter="data")
    return tmp_path / "old"


@pytest.fixture
def three(tmp_path: Path, old: Path) -> Iterator[Three]:
    made = Three(tmp_path, old)
    try:
        made.start(old)
        yield made
    finally:
        made.stop()


def values(servers: str, topic: str, partition: int) -> list[int]:
    """Return the numbers in a partition, without those of aborted transactions."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    found: list[int] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            consumer.close()
            return found
        found.append(int(message.value() or b""))


def committed(servers: str, change: Callable[[confluent_kafka.Consumer], object] = lambda _: None) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "readers", "log_level": 0})
    change(consumer)
    (where,) = consumer.committed([confluent_kafka.TopicPartition("orders", 0)], timeout=60)
    consumer.close()
    return int(where.offset)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_acknowledged_record_is_lost_while_nodes_of_0_1_0_become_nodes_of_this_version(
    three: Three, old: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": three.servers, "log_level": 0})
    topics = [
        NewTopic(name, partitions, 3, config={"min.insync.replicas": "2"})
        for name, partitions in (("orders", 3), ("left", 1), ("right", 1))
    ]
    for each in admin.create_topics(topics).values():
        each.result(60)
    assert three.levels() == {"metadata.version": 19}
    with Load(three.servers) as load:
        load.await_more()
        place = confluent_kafka.TopicPartition("orders", 0, 7)
        assert committed(three.servers, lambda consumer: consumer.commit(offsets=[place], asynchronous=False)) == 7
        for number, node in enumerate(three.nodes.values()):
            node.stop(signal.SIGKILL if number == 1 else signal.SIGTERM)
            load.await_more()  # of the two others
            node.start(REPOSITORY)
            node.await_ready()
            three.await_whole()
            load.await_more()
            assert committed(three.servers) == 7
        first = three.nodes[1]  # before the features are raised, a node can go back
        for code in (old, REPOSITORY):
            first.stop()
            first.start(code)
            first.await_ready()
            three.await_whole()
            load.await_more()
        told = output_of(REPOSITORY, "features", "upgrade", "-b", three.servers, "--release-version", "4.4")
        assert re.search(r"metadata\.version: changed from 19 to 33", told)
        load.await_more()
    assert load.failed == []
    three.stop()
    three.start(REPOSITORY)
    assert three.levels() == default_levels()
    assert committed(three.servers) == 7
    addresses = [each.address for each in three.nodes.values()]
    assert check_acked(View(lambda: addresses), load.acked) == len(load.acked)
    by_partition: dict[int, list[int]] = defaultdict(list)
    for _, value in load.acked:
        by_partition[int(value) % 3].append(int(value))
    for partition, numbers in by_partition.items():
        assert values(three.servers, "orders", partition) == sorted(numbers)
    left, right = (values(three.servers, topic, 0) for topic in ("left", "right"))
    assert left == right
    assert left == sorted(set(left))
    assert set(load.committed) <= set(left) <= {*load.committed, *load.maybe}
