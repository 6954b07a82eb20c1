"""Eligible leader replicas (KIP-966): replicas outside the ISR that have everything below the high watermark, because the ISR was smaller
than min.insync.replicas since they left it. Pure.

Owner: the rules that change an ISR. Source: Apache Kafka's PartitionChangeBuilder. The last known leader of a partition with neither an ISR nor
an eligible replica is remembered, and leads again, uncleanly, when it is back."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from streamactors.broker.metadata.image import NO_LEADER, MetadataImage
from streamactors.broker.metadata.metadata_record import PartitionChange, PartitionRecord

ELR_VERSION: Final = "eligible.leader.replicas.version"
MIN_ISR: Final = "min.insync.replicas"


class Eligible(NamedTuple):
    """The eligible replicas outside the ISR, and the last leader of a partition without an ISR."""

    elr: tuple[int, ...] = ()
    last_leader: tuple[int, ...] = ()


def min_isr_of(image: MetadataImage, topic: str) -> int | None:
    """Return how many replicas in sync a write to a topic needs; None if the cluster has no eligible leader replicas."""
    if not image.features.get(ELR_VERSION):
        return None
    for settings in (image.topic_overrides(topic), image.cluster_overrides()):
        if MIN_ISR in settings:
            return int(settings[MIN_ISR])
    return 1


def eligible(
    partition: PartitionRecord,
    isr: tuple[int, ...],
    replicas: tuple[int, ...],
    min_isr: int | None,
    crashed: int | None = None,
) -> Eligible:
    """Return who is eligible when a partition gets this ISR. The logs of a broker that has `crashed` may have lost their ends."""
    if min_isr is None or len(isr) >= min(min_isr, len(replicas)):
        return Eligible()
    candidates = {*partition.elr, *partition.isr} - {*isr, crashed}
    elr = tuple(each for each in replicas if each in candidates)
    if isr:
        return Eligible(elr)
    return Eligible(elr, partition.last_known_elr if partition.leader == NO_LEADER else (partition.leader,))


def with_eligible(made: PartitionChange, partition: PartitionRecord, now: Eligible) -> PartitionChange:
    """Return a change that also writes the eligible replicas, where they differ."""
    return replace(
        made,
        elr=now.elr if now.elr != partition.elr else None,
        last_known_elr=now.last_leader if now.last_leader != partition.last_known_elr else None,
    )
