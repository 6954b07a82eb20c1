"""The moves of replicas between brokers (KIP-455): their beginning, their end and their cancellation. Pure.

Owner: the controller. While a partition moves, it has the replicas of both sides: those that are `adding` copy the data, and those
that are `removing` go when all new ones are in the ISR. Rules: Apache Kafka's PartitionReassignmentReplicas."""

from __future__ import annotations

import uuid

from streamactors.broker.controller.cluster_command import Move, Reassign
from streamactors.broker.controller.command import Facts, Outcome, PlannedChange
from streamactors.broker.controller.rules.election_rules import Alive, alive_in, elect, leaders_in
from streamactors.broker.controller.rules.elr_rules import eligible, min_isr_of, with_eligible
from streamactors.broker.controller.rules.plan_topics import check_replicas, directories_of
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.log.folders.folder_ids import UNASSIGNED_FOLDER
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import MetadataRecord, PartitionChange, PartitionRecord


def reassign(facts: Facts, command: Reassign) -> PlannedChange:
    """Return the records that begin or cancel moves; the answer has an outcome for each, in order."""
    records: list[MetadataRecord] = []
    answer = []
    for move in command.moves:
        try:
            made = _moved(facts, move, command.allow_other_factor)
        except Refusal as refusal:
            answer.append(Outcome(refusal.code, refusal.message))
            continue
        if made is not None:
            records.append(made)
        answer.append(Outcome())
    return PlannedChange(records, answer)


def _moved(facts: Facts, move: Move, allow_other_factor: bool) -> PartitionChange | None:
    topic = facts.image.topics.get(move.topic)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {move.topic}.")
    if not 0 <= move.partition < len(topic.partitions):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {move.topic}:{move.partition}.")
    partition = topic.partitions[move.partition]
    if move.replicas is None:
        return cancelled(partition, facts.image)
    check_replicas(facts.image, move.replicas, None)
    before = tuple(each for each in partition.replicas if each not in partition.adding)
    if not allow_other_factor and len(move.replicas) != len(before):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(before)} to {len(move.replicas)}",
        )
    return begun(partition, before, move.replicas, facts.image)


def begun(
    partition: PartitionRecord, before: tuple[int, ...], target: tuple[int, ...], image: MetadataImage
) -> PartitionChange | None:
    """Return the change that begins a move from `before` to `target`, or carries it out where no data has to be copied."""
    adding = tuple(each for each in target if each not in before)
    removing = tuple(each for each in before if each not in target)
    replicas = (*target, *removing)
    isr = tuple(each for each in partition.isr if each in replicas) or partition.isr
    staged = _with(partition, replicas, isr, adding, removing)
    final = _final(staged, isr, alive_in(image))
    if final is not None:
        done = (final.replicas, final.adding, final.removing) == (
            partition.replicas,
            partition.adding,
            partition.removing,
        )
        return None if done else _change(partition, final, image)
    if (replicas, adding, removing) == (partition.replicas, partition.adding, partition.removing):
        return None
    return _change(partition, staged, image)


def cancelled(partition: PartitionRecord, image: MetadataImage) -> PartitionChange:
    """Return the change that takes the added replicas away again. Raises Refusal if nothing moves."""
    if not partition.adding and not partition.removing:
        raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(each for each in partition.replicas if each not in partition.adding)
    isr = tuple(each for each in partition.isr if each in replicas)
    if not isr:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The move cannot be cancelled: no replica of the old assignment is in sync.",
        )
    return _change(partition, _with(partition, replicas, isr, (), ()), image)


def completed(partition: PartitionRecord, isr: tuple[int, ...], image: MetadataImage) -> PartitionChange | None:
    """Return the change that ends a move, if this ISR has all new replicas; None if it has not, or if nothing moves."""
    if not partition.adding and not partition.removing:
        return None
    final = _final(partition, isr, alive_in(image))
    return None if final is None else _change(partition, final, image)


def _final(partition: PartitionRecord, isr: tuple[int, ...], alive: Alive) -> PartitionRecord | None:
    """Return the partition after its move, None while data is still to be copied."""
    replicas = tuple(each for each in partition.replicas if each not in partition.removing)
    kept = tuple(each for each in isr if each in replicas)
    if not set(partition.adding) <= set(kept) or not any(alive(each) for each in kept):
        return None
    return _with(partition, replicas, kept, (), ())


def _with(
    partition: PartitionRecord,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
) -> PartitionRecord:
    return PartitionRecord(
        partition.partition,
        partition.topic_id,
        replicas=replicas,
        isr=isr,
        adding=adding,
        removing=removing,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def _change(before: PartitionRecord, after: PartitionRecord, image: MetadataImage) -> PartitionChange:
    leader, _ = elect(before, after.isr, after.replicas, leaders_in(image, before, alive_in(image)))
    # A leader whose follower is taken away begins a new epoch, so that the removed replica is refused.
    new_epoch = leader != before.leader or set(before.replicas) - set(after.replicas)
    now = eligible(before, after.isr, after.replicas, min_isr_of(image, image.topics_by_id[before.topic_id].name))
    made = PartitionChange(
        before.partition,
        before.topic_id,
        isr=after.isr if after.isr != before.isr else None,
        leader=leader if new_epoch else None,
        replicas=after.replicas if after.replicas != before.replicas else None,
        removing=after.removing if after.removing != before.removing else None,
        adding=after.adding if after.adding != before.adding else None,
        directories=_directories(before, after, image) if after.replicas != before.replicas else None,
    )
    return with_eligible(made, before, now)


def _directories(before: PartitionRecord, after: PartitionRecord, image: MetadataImage) -> tuple[uuid.UUID, ...] | None:
    """Return the data folders of the replicas in their new order. A broker of Apache Kafka stops at a change that has other replicas and
    not as many folders. None while no folder is known."""
    known = dict(zip(before.replicas, before.directories, strict=False))
    added = dict(zip(after.replicas, directories_of(image, after.replicas), strict=False))
    folders = {**added, **known}
    if not folders:
        return None
    return tuple(folders.get(each, UNASSIGNED_FOLDER) for each in after.replicas)
