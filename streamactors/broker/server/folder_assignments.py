"""Tells the controller in which data folder this broker has each replica, where the metadata says otherwise (KIP-858).

Owner: the data plane. A broker with several folders chooses the folder of a new replica when it creates the log. What the controller has not
confirmed is sent again. A folder whose shortage of space or descriptors lasts gives up the leaderships of its partitions."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.controller.cluster_command import AssignReplicas, ReplicasAssigned
from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.folders.folder_ids import LOST_FOLDER
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.metadata_record import PartitionRecord
from streamactors.broker.replication.hosted_partition import HostedPartition

if TYPE_CHECKING:
    from streamactors.broker.node import Node

_log = logging.getLogger("streamactors.broker.controller")

RETRY_MS: Final = 200.0
MOST_AT_ONCE: Final = 2_000

Replica = tuple[uuid.UUID, int]  # topic id, partition


class FolderAssignments:
    """The assignments that the controller has not confirmed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._pending: dict[Replica, uuid.UUID] = {}
        self._asking = False
        self._refused = ErrorCode.NONE
        """The error of the last answer: a refusal that lasts is logged once."""
        self._timer: Timer | None = None
        self._stopped = False
        self._short: set[Path] = set()
        """The data folders whose shortage of descriptors or space lasts. Their partitions are led by others, where these are in sync."""

    def start(self) -> None:
        """Follow the metadata from now on. On the data plane's thread, before the first image is applied."""
        self._node.metadata.subscribe(self._changed)

    def stop(self) -> None:
        """Stop sending. On the data plane's thread."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _changed(self, delta: ImageDelta) -> None:
        for deleted in delta.deleted:
            for record in deleted.partitions:
                self._pending.pop((deleted.topic_id, record.partition), None)
        for topic in (*delta.created, *delta.changed):
            for record in topic.partitions:
                self._compare(topic.name, record)
        if self._pending:
            self._ask_soon(0.0)

    def _compare(self, name: str, record: PartitionRecord) -> None:
        partition, replica = self._node.partitions.get(name, record.partition), (record.topic_id, record.partition)
        folder = None if partition is None else self._node.logs.directory_of(partition.log)
        if partition is not None and partition.log.directory.parent in self._short:
            others = set(partition.isr) - {self._node.node_id}
            if record.folder_of(self._node.node_id) == LOST_FOLDER:
                folder = None
            elif partition.is_leader and others:
                folder = LOST_FOLDER
        if folder is None or folder == record.folder_of(self._node.node_id):
            self._pending.pop(replica, None)
        else:
            self._pending[replica] = folder

    def _resign(self, replica: Replica) -> None:
        """The controller has another replica lead. This broker may find no space for the metadata that says so."""
        topic = self._node.metadata.image.topics_by_id.get(replica[0])
        partition = None if topic is None else self._node.partitions.get(topic.name, replica[1])
        if partition is not None and partition.topic_id == replica[0] and partition.is_leader:
            partition.resign()

    def runs_short(self, folder: Path) -> None:
        """Have others lead the partitions in a folder, because its shortage of descriptors or space lasts."""
        self._short.add(folder)
        self._compare_all(folder)

    def has_enough(self, folder: Path) -> None:
        """The shortage in a folder is over: its replicas may lead again."""
        if folder in self._short:
            self._short.discard(folder)
            self._compare_all(folder)

    def _compare_all(self, folder: Path) -> None:
        topics = self._node.metadata.image.topics
        for partition in self._node.partitions:
            topic = topics.get(partition.topic)
            if topic is not None and partition.log.directory.parent == folder and partition.topic_id == topic.topic_id:
                self._compare(topic.name, topic.partitions[partition.index])
        if self._pending:
            self._ask_soon(0.0)

    def moved(self, partition: HostedPartition) -> None:
        """A replica is in another folder now."""
        topic = self._node.metadata.image.topics.get(partition.topic)
        if topic is not None and topic.topic_id == partition.topic_id:
            self._compare(topic.name, topic.partitions[partition.index])
            self._ask_soon(0.0)

    def _ask_soon(self, delay_ms: float) -> None:
        if self._timer is None and not self._asking and not self._stopped:
            self._timer = self._node.data_plane.call_later(delay_ms, self._ask)

    def _ask(self) -> None:
        self._timer = None
        node = self._node
        epoch = node.replication.broker_epoch
        if epoch < 0:
            self._ask_soon(RETRY_MS)  # it has not registered yet
            return
        asked = list(self._pending.items())[:MOST_AT_ONCE]
        if not asked:
            return
        self._asking = True
        assignments = tuple((folder, topic_id, number) for (topic_id, number), folder in asked)
        node.active_controller.submit(
            AssignReplicas(node.node_id, epoch, assignments), lambda answer: self._answered(asked, answer)
        )

    def _answered(self, asked: list[tuple[Replica, uuid.UUID]], answer: ReplicasAssigned) -> None:
        self._asking = False
        if answer.error is ErrorCode.UNSUPPORTED_VERSION:
            _log.error(
                "the cluster does not know data folders of replicas, which a broker with several needs; raise its metadata.version to 17 or more"
            )
            self._pending.clear()
            return
        if answer.error not in (ErrorCode.NONE, self._refused):
            _log.warning(
                "the controller does not take the data folders of %d replicas: %s; they are sent again every %.0f ms",
                len(asked),
                answer.error.name,
                RETRY_MS,
            )
        self._refused = answer.error
        for (replica, folder), code in zip(asked, answer.codes, strict=False):
            if self._pending.get(replica) == folder:
                if code is not ErrorCode.NONE:  # the image that says why comes with the metadata
                    _log.info(
                        "partition %d of topic id %s: its data folder is not assigned: %s",
                        replica[1],
                        replica[0],
                        code.name,
                    )
                elif folder == LOST_FOLDER:
                    self._resign(replica)
                del self._pending[replica]
        if self._pending:
            self._ask_soon(RETRY_MS if answer.error else 0.0)
