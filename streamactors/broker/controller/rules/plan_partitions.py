"""The rules that change the leader, the ISR and the replicas of partitions: from a command and the image to records. Pure.

Owner: the controller. Checks, their order and error codes: Apache Kafka's ReplicationControlManager (KIP-455, KIP-460, KIP-497,
KIP-841, KIP-903)."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.cluster_command import (
    AlterPartition,
    ElectLeaders,
    IsrOutcome,
    IsrProposal,
    PartitionsAltered,
    RegisterController,
    UnregisterBroker,
)
from streamactors.broker.controller.command import Facts, Outcome, Plan
from streamactors.broker.controller.rules.election_rules import (
    alive_in,
    change,
    leaders_in,
    partitions_of,
    preferred,
    without_broker,
)
from streamactors.broker.controller.rules.elr_rules import eligible, min_isr_of, with_eligible
from streamactors.broker.controller.rules.reassignment_rules import completed
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.image import METADATA_VERSION, NO_LEADER, MetadataImage
from streamactors.broker.metadata.metadata_record import MetadataRecord, PartitionChange, PartitionRecord
from streamactors.broker.metadata.metadata_record import UnregisterBroker as UnregisterBrokerRecord

MOST_ELECTIONS: Final = 1_000
FIRST_WITH_CONTROLLERS: Final = 15
"""The level of metadata.version, 3.7-IV0, from which on controllers register."""


def allows_unclean(facts: Facts, topic: str) -> bool:
    """Whether a topic allows unclean elections."""
    text = facts.image.topic_overrides(topic).get("unclean.leader.election.enable")
    return facts.config.unclean_leader_election_enable if text is None else text.lower() == "true"


# --- AlterPartition ---


def alter_partition(facts: Facts, command: AlterPartition) -> Plan:
    """Return the records of the accepted proposals. A move of replicas ends with the proposal that completes the new ISR."""
    broker = facts.image.brokers.get(command.broker_id)
    if broker is None or broker.broker_epoch != command.broker_epoch:
        return Plan([], PartitionsAltered(ErrorCode.STALE_BROKER_EPOCH))
    records: list[MetadataRecord] = []
    outcomes = []
    for proposal in command.proposals:
        try:
            partition = _found(facts.image, proposal)
            made = _altered(facts.image, partition, command.broker_id, proposal)
        except Refusal as refusal:
            outcomes.append(IsrOutcome(refusal.code))
            continue
        if made is None:
            outcomes.append(_outcome(partition))
            continue
        records.append(made)
        after = apply_records(facts.image, [made], facts.image.offset + 1).image
        now = _found(after, proposal)
        new_leader = now.leader != command.broker_id
        outcomes.append(IsrOutcome(ErrorCode.NEW_LEADER_ELECTED) if new_leader else _outcome(now))
    return Plan(records, PartitionsAltered(ErrorCode.NONE, tuple(outcomes)))


def _outcome(partition: PartitionRecord) -> IsrOutcome:
    return IsrOutcome(
        ErrorCode.NONE,
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.partition_epoch,
        partition.recovering,
    )


def _found(image: MetadataImage, proposal: IsrProposal) -> PartitionRecord:
    topic = image.topics_by_id.get(proposal.topic_id) if proposal.topic_id is not None else None
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= proposal.partition < len(topic.partitions):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic.partitions[proposal.partition]


def _altered(
    image: MetadataImage, partition: PartitionRecord, broker_id: int, proposal: IsrProposal
) -> PartitionChange | None:
    """Return the change for one proposal, None if nothing changes. Raises Refusal."""
    isr = tuple(member for member, _ in proposal.isr)
    if proposal.leader_epoch > partition.leader_epoch or proposal.partition_epoch > partition.partition_epoch:
        raise Refusal(ErrorCode.NOT_CONTROLLER)  # the broker knows a newer controller
    if proposal.leader_epoch < partition.leader_epoch:
        raise Refusal(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != partition.leader:
        raise Refusal(ErrorCode.INVALID_REQUEST)
    if proposal.partition_epoch < partition.partition_epoch:
        raise Refusal(ErrorCode.INVALID_UPDATE_VERSION)
    strangers = set(isr) - set(partition.replicas)
    if strangers or len(set(isr)) < len(isr) or partition.leader not in isr or (proposal.recovering and len(isr) > 1):
        raise Refusal(ErrorCode.INVALID_REQUEST)
    alive = alive_in(image)
    for member, epoch in proposal.isr:
        if not alive(member) or epoch not in (-1, image.brokers[member].broker_epoch):
            raise Refusal(ErrorCode.INELIGIBLE_REPLICA)
    in_order = tuple(each for each in partition.replicas if each in isr)
    finished = completed(partition, in_order, image)
    if finished is not None:
        return finished
    recovering = proposal.recovering if proposal.recovering != partition.recovering else None
    if set(isr) == set(partition.isr) and recovering is None:
        return None
    now = eligible(
        partition, in_order, partition.replicas, min_isr_of(image, image.topics_by_id[partition.topic_id].name)
    )
    made = PartitionChange(partition.partition, partition.topic_id, isr=in_order, recovering=recovering)
    return with_eligible(made, partition, now)


# --- ElectLeaders ---


def elect_leaders(facts: Facts, command: ElectLeaders) -> Plan:
    """Return the elections that are possible. Of all partitions, only those with an election are in the answer."""
    image = facts.image
    everything = command.partitions is None
    asked = command.partitions
    if asked is None:
        asked = tuple((topic.name, each.partition) for topic, each in partitions_of(image))
    records: list[MetadataRecord] = []
    answer: list[tuple[tuple[str, int], Outcome]] = []
    for name, number in dict.fromkeys(asked):
        outcome, record = _elected(image, name, number, command.unclean)
        if record is not None:
            records.append(record)
        if not (everything and outcome.code is ErrorCode.ELECTION_NOT_NEEDED):
            answer.append(((name, number), outcome))
    return Plan(records, answer)


def _elected(image: MetadataImage, name: str, number: int, unclean: bool) -> tuple[Outcome, PartitionChange | None]:
    topic = image.topics.get(name)
    if topic is None:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"), None
    if not 0 <= number < len(topic.partitions):
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}"), None
    partition = topic.partitions[number]
    alive = leaders_in(image, partition, alive_in(image))
    not_needed = Outcome(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if unclean:
        if partition.leader != NO_LEADER:
            return not_needed, None
        made = change(partition, partition.isr, alive, unclean=True, min_isr=min_isr_of(image, name))
        missing = Outcome(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No eligible leaders are available for topic partition."
        )
        return (Outcome(), made) if made is not None else (missing, None)
    if partition.leader == partition.replicas[0]:
        return not_needed, None
    made = preferred(partition, alive)
    missing = Outcome(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return (Outcome(), made) if made is not None else (missing, None)


# --- from time to time ---


def balance_leaders(facts: Facts) -> Plan:
    """Return the elections of preferred leaders, and the unclean elections that topics allow; at most MOST_ELECTIONS at a time.

    The answer is their number."""
    image = facts.image
    alive = alive_in(image)
    elections: list[MetadataRecord] = []
    for topic, partition in partitions_of(image):
        may_lead = leaders_in(image, partition, alive)
        made = preferred(partition, may_lead)
        if partition.leader == NO_LEADER:
            made = change(
                partition,
                partition.isr,
                may_lead,
                unclean=allows_unclean(facts, topic.name),
                min_isr=min_isr_of(image, topic.name),
            )
        if made is not None:
            elections.append(made)
        if len(elections) == MOST_ELECTIONS:
            break
    return Plan(elections, len(elections))


# --- RegisterController ---


def register_controller(facts: Facts, command: RegisterController) -> Plan:
    """Return the record of a controller that has started."""
    if facts.image.features.get(METADATA_VERSION, 0) < FIRST_WITH_CONTROLLERS:
        text = "The current MetadataVersion is too old to support controller registrations."
        return Plan([], Outcome(ErrorCode.UNSUPPORTED_VERSION, text))
    return Plan([command.registration], Outcome())


# --- UnregisterBroker ---


def unregister_broker(facts: Facts, command: UnregisterBroker) -> Plan:
    """Return the records that forget a broker. Partitions keep it as a replica until they are moved."""
    broker = facts.image.brokers.get(command.broker_id)
    if broker is None:
        text = f"Broker ID {command.broker_id} is not currently registered"
        return Plan([], Outcome(ErrorCode.BROKER_ID_NOT_REGISTERED, text))
    if command.broker_id == facts.broker_id:
        text = f"Broker ID {command.broker_id} is the controller, which stays registered while it runs"
        return Plan([], Outcome(ErrorCode.INVALID_REQUEST, text))
    changed = without_broker(facts.image, broker.broker_id, lambda topic: allows_unclean(facts, topic))
    return Plan([*changed, UnregisterBrokerRecord(broker.broker_id, broker.broker_epoch)], Outcome())
