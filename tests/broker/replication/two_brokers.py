"""Two whole brokers that replicate to each other over loopback. The test is their controller: it writes metadata and answers
AlterPartition. Nothing else is in place of a real part."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.disk import Disk
from streamactors.broker.metadata.delta import ImageDelta, apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    Endpoint,
    FeatureLevel,
    MetadataRecord,
    PartitionChange,
    PartitionRecord,
    TopicRecord,
)
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.isr_requests import AlterPartition, IsrOutcome, PartitionsAltered
from streamactors.broker.replication.lease_state import ALWAYS
from streamactors.broker.replication.replicas import Replicas
from streamactors.broker.server.metadata_publisher import MetadataPublisher
from tests.broker.live_broker import LiveBroker

TOPIC = "orders"
TOPIC_ID = uuid.UUID(int=77)
WITHIN_S = 20.0
EPOCHS = {1: 101, 2: 102}


class Controllers:
    """What a broker's replication knows of the controller."""

    def __init__(self, pair: Pair, broker_id: int) -> None:
        self._pair = pair
        self._id = broker_id

    @property
    def broker_epoch(self) -> int:
        return EPOCHS[self._id]

    @property
    def lease_end_ms(self) -> float:
        return self._pair.lease_end_ms

    def submit(self, command: AlterPartition, reply: Callable[[PartitionsAltered], object]) -> None:
        answer = self._pair.alter(command)
        self._pair.brokers[self._id].node.data_plane.execute(lambda: reply(answer))


class Pair:
    """Started when entered; the topic's one partition has both brokers as replicas."""

    def __init__(
        self,
        folder: Path,
        *,
        leader: int = 1,
        settings: Mapping[str, Any] | None = None,
        disks: Mapping[int, Disk] | None = None,
    ) -> None:
        given = {"replica.lag.time.max.ms": 1_000, "replica.fetch.wait.max.ms": 50, **(settings or {})}
        self.brokers = {
            each: LiveBroker(folder / str(each), {"node.id": each, **given}, disk=(disks or {}).get(each))
            for each in (1, 2)
        }
        self.refusals: list[ErrorCode] = []  # for the next requests to change the ISR
        self.lease_end_ms = ALWAYS
        self._first_leader = leader
        self._image = MetadataImage()
        self._lock = threading.Lock()

    def __enter__(self) -> Pair:
        for live in self.brokers.values():
            live.__enter__()
            node = live.node
            controllers = Controllers(self, node.node_id)
            replicas = Replicas(node, node.partitions, controllers, controllers)
            node.replication = replicas
            live.on_data_plane(replicas.start)
            live.replicas = replicas  # type: ignore[attr-defined]
        registrations: list[MetadataRecord] = [
            BrokerRegistration(each, uuid.uuid4(), EPOCHS[each], (Endpoint("PLAINTEXT", "127.0.0.1", live.port),))
            for each, live in self.brokers.items()
        ]
        leader = self._first_leader
        self.write(
            FeatureLevel("metadata.version", 27),
            *registrations,
            TopicRecord(TOPIC, TOPIC_ID),
            PartitionRecord(0, TOPIC_ID, (1, 2), (1, 2), leader, 0, 0),
        )
        for live in self.brokers.values():
            live.on_data_plane(lambda: None)  # behind what was written: both brokers host the partition now
        return self

    def __exit__(self, *_: object) -> None:
        for live in self.brokers.values():
            live.on_data_plane(live.replicas.stop)  # type: ignore[attr-defined]
            live.__exit__(None, None, None)

    # --- the controller ---

    def write(self, *records: MetadataRecord, only: int | None = None) -> None:
        """Write metadata, and have the brokers follow it, or only one of them."""
        with (
            self._lock
        ):  # a change of the ISR that a leader asks for and an election of the test reach both brokers in one order
            delta = apply_records(self._image, records, self._image.offset + len(records))
            self._image = delta.image
            for each, live in self.brokers.items():
                if only in (None, each):
                    self._publish(live.node, delta)

    def _publish(self, node: Any, delta: ImageDelta) -> None:
        publisher = MetadataPublisher(node, node.partitions)
        publisher.prepare(delta)

        def publish() -> None:
            publisher.apply(delta)
            node.metadata.publish(delta)

        node.data_plane.execute(publish)

    def elect(self, leader: int, isr: tuple[int, ...], *, only: int | None = None) -> None:
        self.write(PartitionChange(0, TOPIC_ID, isr=isr, leader=leader), only=only)

    @property
    def committed(self) -> PartitionRecord:
        return self._image.topics[TOPIC].partitions[0]

    def alter(self, command: AlterPartition) -> PartitionsAltered:
        """Answer AlterPartition as a controller does."""
        (asked,) = command.proposals
        known = self.committed
        if self.refusals:
            code = self.refusals.pop(0)
        elif asked.leader_epoch != known.leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif asked.partition_epoch != known.partition_epoch:
            code = ErrorCode.INVALID_UPDATE_VERSION
        else:
            code = ErrorCode.NONE
            assert all(epoch == EPOCHS[broker] for broker, epoch in asked.isr)
            self.write(PartitionChange(0, TOPIC_ID, isr=tuple(broker for broker, _ in asked.isr)))
            known = self.committed
        outcome = IsrOutcome(code)
        if not code:
            outcome = IsrOutcome(code, known.leader, known.leader_epoch, known.isr, known.partition_epoch)
        return PartitionsAltered(ErrorCode.NONE, (outcome,))

    # --- views ---

    def partition(self, broker: int) -> HostedPartition:
        return self.brokers[broker].partition(TOPIC)

    def ends(self, broker: int) -> tuple[int, int]:
        """Return (high watermark, log end)."""
        partition = self.partition(broker)
        return partition.high_watermark, partition.log_end_offset

    def content(self, broker: int) -> bytes:
        return self.partition(broker).log.directory.joinpath(f"{0:020d}.log").read_bytes()

    def until(self, there: Callable[[], bool]) -> None:
        """Wait for a state that other threads bring about."""
        deadline = time.monotonic() + WITHIN_S
        while not there():
            assert time.monotonic() < deadline, {each: self.ends(each) for each in self.brokers}
            threading.Event().wait(0.005)
