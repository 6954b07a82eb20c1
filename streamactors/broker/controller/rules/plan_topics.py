"""The rules that create, grow and delete topics: from a command and the image to records. Pure.

Owner: the controller. Checks, error codes and wording: Apache Kafka's ReplicationControlManager.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Final

from streamactors.broker.controller.command import (
    MAX_PARTITIONS_PER_REQUEST,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Facts,
    MorePartitions,
    NewTopic,
    Outcome,
    PlannedChange,
    TopicCreated,
    TopicDeleted,
)
from streamactors.broker.controller.rules.election_rules import alive_in
from streamactors.broker.controller.rules.placement import over_racks, place
from streamactors.broker.controller.rules.plan_configs import check_topic_settings
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.log.folders.folder_ids import UNASSIGNED_FOLDER
from streamactors.broker.metadata.image import MetadataImage, TopicImage
from streamactors.broker.metadata.metadata_record import (
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopic,
    TopicRecord,
)
from streamactors.broker.metadata.topic_name import METADATA_TOPIC, check_topic_name, metric_name
from streamactors.broker.quotas.mutations import Spend

TOO_MANY = "Excessively large number of partitions per request."


def create_topics(facts: Facts, command: CreateTopics) -> PlannedChange:
    """Return the records for the topics that can be created; the answer has an outcome for every name."""
    counts = Counter(topic.name for topic in command.topics)
    taken = {metric_name(name): name for name in facts.image.topics}
    room = MAX_PARTITIONS_PER_REQUEST
    too_many = sum(max(topic.partitions, len(topic.assignment), 0) for topic in command.topics) > room
    records: list[MetadataRecord] = []
    answer: dict[str, TopicCreated] = {}
    for topic in command.topics:
        try:
            if counts[topic.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if too_many:
                raise Refusal(ErrorCode.POLICY_VIOLATION, TOO_MANY)
            _check_name(facts, topic.name, taken)
            made, created = _create(facts, topic)
            command.spend(created.partitions)
        except Refusal as refusal:
            answer[topic.name] = TopicCreated(Outcome(refusal.code, refusal.message))
            continue
        taken[metric_name(topic.name)] = topic.name
        answer[topic.name] = created
        records += made
    return PlannedChange([] if command.validate_only else records, answer)


def create_partitions(facts: Facts, command: CreatePartitions) -> PlannedChange:
    """Return the records that grow topics; the answer has an outcome for every name."""
    counts = Counter(topic.name for topic in command.topics)
    records: list[MetadataRecord] = []
    answer: dict[str, Outcome] = {}
    for topic in command.topics:
        try:
            if counts[topic.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += _grow(facts, topic, command.spend)
            answer[topic.name] = Outcome()
        except Refusal as refusal:
            answer[topic.name] = Outcome(refusal.code, refusal.message)
    return PlannedChange([] if command.validate_only else records, answer)


def delete_topics(facts: Facts, command: DeleteTopics) -> PlannedChange:
    """Return the records that remove topics; the answer has an outcome for each, in the order asked."""
    resolved = [_find(facts, topic) for topic in command.topics]
    counts = Counter(topic.topic_id for topic in resolved if topic is not None)
    records: list[MetadataRecord] = []
    answer: list[TopicDeleted] = []
    for asked, topic in zip(command.topics, resolved, strict=True):
        by_name = isinstance(asked, str)
        name = asked if isinstance(asked, str) else topic.name if topic else None
        topic_id = asked if isinstance(asked, uuid.UUID) else topic.topic_id if topic else None
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
            text = f"This server does not host this {'topic-partition' if by_name else 'topic ID'}."
            answer.append(TopicDeleted(name, topic_id, Outcome(code, text)))
        elif not facts.config.delete_topic_enable:
            disabled = Outcome(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            answer.append(TopicDeleted(name, topic_id, disabled))
        elif counts[topic.topic_id] > 1:
            duplicate = Outcome(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'name' if by_name else 'id'}.")
            answer.append(TopicDeleted(name, topic_id, duplicate))
        else:
            try:
                command.spend(len(topic.partitions))
            except Refusal as refusal:
                answer.append(TopicDeleted(name, topic_id, Outcome(refusal.code, refusal.message)))
                continue
            records.append(RemoveTopic(topic.topic_id))
            answer.append(TopicDeleted(topic.name, topic.topic_id, Outcome()))
    return PlannedChange(records, answer)


# --- one topic ---


def _check_name(facts: Facts, name: str, taken: dict[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    check_topic_name(name)
    if name in facts.image.topics:
        raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = taken.get(metric_name(name))
    if other is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _create(facts: Facts, topic: NewTopic) -> tuple[list[MetadataRecord], TopicCreated]:
    nulls = [name for name, value in topic.configs if value is None]
    if nulls:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    overrides = {name: value for name, value in topic.configs if value is not None}
    check_topic_settings(facts.config, overrides)
    replicas = _assigned(facts, topic) if topic.assignment else _placed(facts, topic)
    topic_id = facts.new_topic_id()
    records: list[MetadataRecord] = [TopicRecord(topic.name, topic_id)]
    records += [_new_partition(facts, topic_id, number, each) for number, each in enumerate(replicas)]
    records += [ConfigRecord(TOPIC_RESOURCE, topic.name, name, value) for name, value in overrides.items()]
    return records, TopicCreated(
        Outcome(), topic_id, partitions=len(replicas), replication_factor=len(replicas[0]), configs=overrides
    )


def _placed(facts: Facts, topic: NewTopic) -> list[tuple[int, ...]]:
    replicas = facts.config.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    partitions = facts.config.num_partitions if topic.partitions == -1 else topic.partitions
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partitions <= 0:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    return _place_on_usable(facts, partitions, replicas)


_NO_BROKER: Final = "All brokers are currently fenced, or have all their log directories cordoned."


def _place_on_usable(facts: Facts, partitions: int, replicas: int) -> list[tuple[int, ...]]:
    """Place replicas on live brokers, and the rest on fenced ones, which become followers when they are back.

    Rule: Apache Kafka's StripedReplicaPlacer. A broker in its controlled shutdown gets no replica, nor does one whose folders are all cordoned."""
    brokers, alive = facts.image.brokers, alive_in(facts.image)
    usable = sorted(
        each for each, broker in brokers.items() if not (broker.in_controlled_shutdown or broker.is_cordoned)
    )
    live = [each for each in usable if alive(each)]
    fenced = [each for each in usable if not alive(each)]
    refused = f"Unable to replicate the partition {replicas} time(s): "
    if not live:
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, f"{refused}{_NO_BROKER}")
    if replicas > len(usable):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{refused}The target replication factor of {replicas} cannot be reached because only {len(usable)} "
            "broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    racks = {each: brokers[each].rack for each in live}
    placed = place(over_racks(live, racks), partitions, min(replicas, len(live)), facts.placement_start, racks)
    missing = max(replicas - len(live), 0)
    return [
        each + tuple(fenced[(number + turn) % len(fenced)] for turn in range(missing))
        for number, each in enumerate(placed)
    ]


def _assigned(facts: Facts, topic: NewTopic) -> list[tuple[int, ...]]:
    for given, what in ((topic.replication_factor, "replication factor"), (topic.partitions, "numPartitions")):
        if given != -1:
            raise Refusal(
                ErrorCode.INVALID_REQUEST, f"A manual partition assignment was specified, but {what} was not set to -1."
            )
    assignment: dict[int, tuple[int, ...]] = {}
    for partition, replicas in topic.assignment:
        if partition in assignment:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        check_replicas(facts.image, replicas, None)
        assignment[partition] = replicas
    if sorted(assignment) != list(range(len(assignment))):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [assignment[partition] for partition in range(len(assignment))]


def _grow(facts: Facts, topic: MorePartitions, spend: Spend) -> list[MetadataRecord]:
    existing = facts.image.topics.get(topic.name)
    if existing is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    current = len(existing.partitions)
    if topic.count == current:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if topic.count < current:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {topic.count} would not be an increase.",
        )
    more = topic.count - current
    if more > MAX_PARTITIONS_PER_REQUEST:
        raise Refusal(ErrorCode.POLICY_VIOLATION, TOO_MANY)
    factor = len(existing.partitions[0].replicas)
    if topic.assignment is None:
        placed = _place_on_usable(facts, more, factor)
    else:
        if len(topic.assignment) != more:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {more} additional partition(s), but only {len(topic.assignment)} "
                "assignment(s) were specified.",
            )
        for replicas in topic.assignment:
            check_replicas(facts.image, replicas, factor)
        placed = list(topic.assignment)
    spend(more)
    return [
        _new_partition(facts, existing.topic_id, current + number, replicas) for number, replicas in enumerate(placed)
    ]


def check_replicas(image: MetadataImage, replicas: Sequence[int], factor: int | None) -> None:
    """Raise Refusal unless these brokers can be a partition's replicas; `factor` is their required number, if known."""
    complaint = None
    if not replicas:
        complaint = "The manual partition assignment includes an empty replica list."
    for replica in sorted(replicas):
        if replica not in image.brokers:
            complaint = f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            break
        if image.brokers[replica].is_cordoned:
            complaint = (
                f"The manual partition assignment includes broker {replica}, but all its log directories are cordoned."
            )
            break
        if replicas.count(replica) > 1:
            complaint = f"The manual partition assignment includes the broker {replica} more than once."
            break
    if complaint is None and factor is not None and len(replicas) != factor:
        complaint = (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )
    if complaint is not None:
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, complaint)


def _new_partition(facts: Facts, topic_id: uuid.UUID, number: int, replicas: tuple[int, ...]) -> PartitionRecord:
    alive = alive_in(facts.image)
    live = tuple(replica for replica in replicas if alive(replica))
    if not live:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
            "controlled shutdown.",
        )
    return PartitionRecord(
        number,
        topic_id,
        replicas=replicas,
        isr=live,
        leader=live[0],
        directories=directories_of(facts.image, replicas),
    )


def directories_of(image: MetadataImage, replicas: Sequence[int]) -> tuple[uuid.UUID, ...]:
    """Return the data folders of replicas; none while no broker has said which it has. A broker with several folders chooses one later."""
    folders = [image.brokers[each].log_dirs if each in image.brokers else () for each in replicas]
    if not any(folders):
        return ()
    return tuple(each[0] if len(each) == 1 else UNASSIGNED_FOLDER for each in folders)


def _find(facts: Facts, topic: str | uuid.UUID) -> TopicImage | None:
    return facts.image.topics.get(topic) if isinstance(topic, str) else facts.image.topics_by_id.get(topic)
