"""Which data folder each replica is in (KIP-858). Pure.

Owner: the controller. A broker with several folders says where it has put a replica, when it has created or moved it. Checks and error codes:
Apache Kafka's ReplicationControlManager. A replica in a folder that its broker does not have at the moment leaves the ISR and does not lead."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from streamactors.broker.controller.cluster_command import (
    AssignReplicas,
    FoldersCordoned,
    FoldersFailed,
    ReplicasAssigned,
)
from streamactors.broker.controller.command import Facts, Outcome, PlannedChange
from streamactors.broker.controller.rules.election_rules import (
    FIRST_WITH_FOLDERS,
    alive_in,
    change,
    leaders_in,
    without_folders,
)
from streamactors.broker.controller.rules.elr_rules import min_isr_of
from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.folders.folder_ids import UNKNOWN_FOLDER
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    BrokerRegistrationChange,
    MetadataRecord,
    PartitionChange,
    PartitionRecord,
)

FIRST_WITH_CORDONED: Final = 30
"""The level of metadata.version, 4.3-IV0, from which on brokers have cordoned folders (KIP-1066)."""


def assign_replicas(facts: Facts, command: AssignReplicas) -> PlannedChange:
    """Return the records that put replicas into folders, and the error of each assignment."""
    image = facts.image
    if image.features.get(METADATA_VERSION, 0) < FIRST_WITH_FOLDERS:
        return PlannedChange([], ReplicasAssigned(ErrorCode.UNSUPPORTED_VERSION))
    broker = image.brokers.get(command.broker_id)
    if broker is None or broker.broker_epoch != command.broker_epoch:
        return PlannedChange([], ReplicasAssigned(ErrorCode.STALE_BROKER_EPOCH))
    records: list[MetadataRecord] = []
    codes = []
    for folder, topic_id, number in command.assignments:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            codes.append(ErrorCode.UNKNOWN_TOPIC_ID)
        elif not 0 <= number < len(topic.partitions):
            codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif command.broker_id not in topic.partitions[number].replicas:
            codes.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            is_gone = bool(broker.log_dirs) and folder not in broker.log_dirs
            made = _assigned(image, topic.name, topic.partitions[number], command.broker_id, folder, is_gone)
            if made is not None:
                records.append(made)
            codes.append(ErrorCode.NONE)
    return PlannedChange(records, ReplicasAssigned(ErrorCode.NONE, tuple(codes)))


def _assigned(
    image: MetadataImage, name: str, partition: PartitionRecord, broker_id: int, folder: uuid.UUID, is_gone: bool
) -> PartitionChange | None:
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    directories = tuple(folder if each == broker_id else known.get(each, UNKNOWN_FOLDER) for each in partition.replicas)
    made = PartitionChange(partition.partition, partition.topic_id)
    if is_gone and (broker_id in partition.isr or broker_id == partition.leader):
        isr, min_isr = tuple(each for each in partition.isr if each != broker_id), min_isr_of(image, name)
        if min_isr is None:
            isr = isr or partition.isr
        made = (
            change(partition, isr, leaders_in(image, partition, alive_in(image, but=broker_id)), min_isr=min_isr)
            or made
        )
    if directories == partition.directories and made == PartitionChange(partition.partition, partition.topic_id):
        return None
    return replace(made, directories=directories)


def folders_failed(facts: Facts, command: FoldersFailed) -> PlannedChange:
    """Return the records when folders of the controller's own broker fail; no election is unclean."""
    broker = facts.image.brokers.get(command.broker_id)
    if broker is None:
        return PlannedChange([], Outcome(ErrorCode.STALE_BROKER_EPOCH))
    return PlannedChange(without_folders(facts.image, broker, command.offline, lambda _: False), Outcome())


def cordoned(
    image: MetadataImage, broker: BrokerRegistration, folders: Sequence[uuid.UUID] | None
) -> list[MetadataRecord]:
    """Return the record that makes these the cordoned folders of a broker, if they are others than before. None: the broker does not say."""
    if folders is None or image.features.get(METADATA_VERSION, 0) < FIRST_WITH_CORDONED:
        return []
    if broker.cordoned is not None and set(broker.cordoned) == set(folders):
        return []
    return [BrokerRegistrationChange(broker.broker_id, broker.broker_epoch, cordoned=tuple(folders))]


def folders_cordoned(facts: Facts, command: FoldersCordoned) -> PlannedChange:
    """Return the record of the controller's own broker, which sends no heartbeats."""
    broker = facts.image.brokers.get(command.broker_id)
    if broker is None:
        return PlannedChange([], Outcome(ErrorCode.STALE_BROKER_EPOCH))
    return PlannedChange(cordoned(facts.image, broker, command.cordoned), Outcome())
