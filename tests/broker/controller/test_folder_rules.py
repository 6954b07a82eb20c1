"""Folders of replicas: what a broker says about them, and what the controller writes (KIP-858)."""

from __future__ import annotations

import uuid
from dataclasses import replace

from streamactors.broker.controller.cluster_command import AssignReplicas, ReplicasAssigned
from streamactors.broker.controller.rules.plan import plan
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_record import FeatureLevel, MetadataRecord
from tests.broker.controller.clusters import TOPIC_ID, after, cluster, directory, facts, only, partition, registered

OTHER = uuid.UUID(int=2002)
"""The second folder of broker 2."""


def with_folders() -> MetadataImage:
    image = cluster(replace(partition(), directories=tuple(map(directory, (1, 2, 3)))))
    two = replace(registered(2, epoch=12), log_dirs=(directory(2), OTHER))
    return after(image, [FeatureLevel(METADATA_VERSION, 27), two])


def assigned(
    image: MetadataImage,
    folder: uuid.UUID,
    *,
    broker: int = 2,
    epoch: int = 12,
    topic: uuid.UUID = TOPIC_ID,
    number: int = 0,
) -> tuple[list[MetadataRecord], ReplicasAssigned]:
    made = plan(facts(image), AssignReplicas(broker, epoch, ((folder, topic, number),)))
    return list(made.records), made.answer


def test_a_replica_gets_its_folder_and_a_repeated_report_writes_nothing() -> None:
    image = with_folders()
    records, answer = assigned(image, OTHER)
    assert answer == ReplicasAssigned(ErrorCode.NONE, (ErrorCode.NONE,))
    image = after(image, records)
    assert only(image).directories == (directory(1), OTHER, directory(3))
    assert only(image).isr == (1, 2, 3)
    assert assigned(image, OTHER) == ([], answer)


def test_reports_that_cannot_be_right_are_refused() -> None:
    image = with_folders()
    assert assigned(image, OTHER, epoch=11) == ([], ReplicasAssigned(ErrorCode.STALE_BROKER_EPOCH))
    assert assigned(image, OTHER, broker=9)[1] == ReplicasAssigned(ErrorCode.STALE_BROKER_EPOCH)
    assert assigned(image, OTHER, topic=uuid.UUID(int=9))[1].codes == (ErrorCode.UNKNOWN_TOPIC_ID,)
    assert assigned(image, OTHER, number=1)[1].codes == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
    elsewhere = after(cluster(partition(replicas=(1, 3))), [FeatureLevel(METADATA_VERSION, 27)])
    assert assigned(elsewhere, OTHER) == ([], ReplicasAssigned(ErrorCode.NONE, (ErrorCode.NOT_LEADER_OR_FOLLOWER,)))
    old = after(image, [FeatureLevel(METADATA_VERSION, 16)])
    assert assigned(old, OTHER) == ([], ReplicasAssigned(ErrorCode.UNSUPPORTED_VERSION))


def test_a_replica_in_a_folder_that_is_gone_leaves_the_isr_and_leads_no_longer() -> None:
    image = after(with_folders(), [])
    records, _ = assigned(image, uuid.UUID(int=3003))
    assert set(only(after(image, records)).isr) == {1, 3}
    records, _ = assigned(image, uuid.UUID(int=3003), broker=1, epoch=11)
    moved = only(after(image, records))
    assert moved.leader != 1
    assert set(moved.isr) == {2, 3}
