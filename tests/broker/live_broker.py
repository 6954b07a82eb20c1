"""A whole broker for tests: in process, on loopback, its parts within reach."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.log.disk import Disk, LogFile
from streamactors.broker.node import Node
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.record import NewRecord
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.server.server import Broker
from streamactors.clock import Clock
from tests.broker.wire import WireClient

T = TypeVar("T")


class LiveBroker:
    """Started when entered."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> None:
        config = BrokerConfig.of({"listeners": "PLAINTEXT://127.0.0.1:0", **(settings or {})})
        self.broker = Broker(config, folder, clock, disk=disk)
        self._clients: list[WireClient] = []

    @property
    def node(self) -> Node:
        return self.broker.node

    @property
    def port(self) -> int:
        return self.node.listeners[0].port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self, **options: Any) -> WireClient:
        """Return a new connection, closed with the broker."""
        self._clients.append(WireClient("127.0.0.1", self.port, **options))
        return self._clients[-1]

    def create_topic(self, name: str, partitions: int = 1, **config: Any) -> None:
        """Create a topic; settings with `_` for `.`."""
        with WireClient("127.0.0.1", self.port) as client:
            configs = [{"name": key.replace("_", "."), "value": str(value)} for key, value in config.items()]
            topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
            answer = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000})
        assert answer.topics[0].error_code == 0, answer

    def partition(self, topic: str, index: int = 0) -> HostedPartition:
        found = self.node.partitions.get(topic, index)
        assert found is not None
        return found

    def on_data_plane(self, fn: Callable[[], T]) -> T:
        """Call `fn` where the broker's state belongs, and return what it returns."""
        done = threading.Event()
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome.append(fn())
            finally:
                done.set()

        self.node.data_plane.execute(run)
        assert done.wait(30)
        result: T = outcome[0]
        return result

    def __enter__(self) -> LiveBroker:
        self.broker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        self.broker.stop()


def corrupt(content: bytes) -> bytes:
    """Return a batch with its last bit flipped."""
    return content[:-1] + bytes([content[-1] ^ 1])


def batch(
    *values: bytes,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    timestamp: int | None = None,
    compression: Compression = Compression.NONE,
    transactional: bool = False,
) -> bytes:
    """Return a record batch as a producer sends it. `producer` is (id, epoch)."""
    import time

    stamp = int(time.time() * 1000) if timestamp is None else timestamp
    return bytes(
        build_batch(
            [NewRecord(None, value, stamp) for value in values],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            compression=compression,
            transactional=transactional,
        )
    )


def produce_body(
    records: bytes | None, topic: str = "orders", partition: int = 0, acks: int = -1, timeout_ms: int = 30_000
) -> dict[str, Any]:
    """Return a Produce request for one partition."""
    return {
        "acks": acks,
        "timeout_ms": timeout_ms,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
    }


def fetch_body(
    offset: int = 0,
    topic: str = "orders",
    partition: int = 0,
    *,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    min_bytes: int = 1,
    max_wait_ms: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """Return a Fetch request for one partition."""
    asked = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": partition_max_bytes,
        "current_leader_epoch": -1,
    }
    for name in ("current_leader_epoch", "last_fetched_epoch"):
        if name in more:
            asked[name] = more.pop(name)
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "topics": [{"topic": topic, "partitions": [asked]}],
        **more,
    }


class GatedFile(LogFile):
    """A file whose syncs wait for a gate, and fail when they are told to."""

    __slots__ = ("_disk",)

    def __init__(self, path: Path, disk: GatedDisk) -> None:
        super().__init__(path, disk.open_files)
        self._disk = disk

    def write_at(self, data: Any, position: int) -> None:
        if self.path.suffix == ".log":
            self._disk.before_write()
        super().write_at(data, position)

    def sync(self) -> None:
        if self.path.suffix == ".log" and "__" not in self.path.parent.name:
            self._disk.before_sync()
        super().sync()


class GatedDisk(Disk):
    """A disk whose syncs of topics' segments can be held up, counted and made to fail."""

    def __init__(self) -> None:
        super().__init__()
        self._open = threading.Event()
        self._open.set()
        self.waiting = 0
        self.syncs = 0
        self.failures: list[OSError] = []
        self.write_failures: list[OSError] = []

    def file(self, path: Path) -> LogFile:
        return GatedFile(path, self)

    def hold(self) -> None:
        """From now on syncs wait."""
        self._open.clear()

    def let_go(self) -> None:
        """Syncs go through again."""
        self._open.set()

    def before_write(self) -> None:
        if self.write_failures:
            raise self.write_failures.pop(0)

    def before_sync(self) -> None:
        self.waiting += 1
        assert self._open.wait(60)
        self.waiting -= 1
        if self.failures:
            raise self.failures.pop(0)
        self.syncs += 1
