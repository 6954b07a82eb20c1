"""The rules that change the leader, the ISR and the replicas of partitions: from a command and the image to records. Pure.

Owner: the controller. Checks, their order and error codes: Apache Kafka's ReplicationControlManager (KIP-455, KIP-460, KIP-497,
KIP-841, KIP-903)."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.cluster_command import (
    ElectLeaders,
    RegisterController,
    UnregisterBroker,
    UnregisterController,
)
from streamactors.broker.controller.command import Facts, Outcome, PlannedChange
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
from streamactors.broker.metadata.metadata_record import UnregisterController as UnregisterControllerRecord
from streamactors.broker.replication.isr_requests import AlterPartition, IsrOutcome, IsrProposal, PartitionsAltered

MOST_ELECTIONS: Final = 1_000
FIRST_WITH_CONTROLLERS: Final = 15
"""The level of metadata.version, 3.7-IV0, from which on controllers register."""
FIRST_WITH_UNREGISTERED_CONTROLLERS: Final = 33
"""The level of metadata.version, 4.4-IV2, from which on the cluster forgets a controller."""


def allows_unclean(facts: Facts, topic: str) -> bool:
    """Whether a topic allows unclean elections."""
    text = facts.image.topic_overrides(topic).get("unclean.leader.election.enable")
    return facts.config.unclean_leader_election_enable if text is None else text.lower() == "true"


# --- AlterPartition ---


def alter_partition(facts: Facts, command: AlterPartition) -> PlannedChange:
    """Return the records of the accepted proposals. A move of replicas ends with the proposal that completes the new ISR."""
    broker = facts.image.brokers.get(command.broker_id)
    if broker is None or broker.broker_epoch != command.broker_epoch:
        return PlannedChange([], PartitionsAltered(ErrorCode.STALE_BROKER_EPOCH))
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
    return PlannedChange(records, PartitionsAltered(ErrorCode.NONE, tuple(outcomes)))


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


def elect_leaders(facts: Facts, command: ElectLeaders) -> PlannedChange:
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
    return PlannedChange(records, answer)


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


def balance_leaders(facts: Facts) -> PlannedChange:
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
    return PlannedChange(elections, len(elections))


# --- RegisterController ---


def register_controller(facts: Facts, command: RegisterController) -> PlannedChange:
    """Return the record of a controller that has started."""
    if facts.image.features.get(METADATA_VERSION, 0) < FIRST_WITH_CONTROLLERS:
        text = "The current MetadataVersion is too old to support controller registrations."
        return PlannedChange([], Outcome(ErrorCode.UNSUPPORTED_VERSION, text))
    return PlannedChange([command.registration], Outcome())


# --- UnregisterBroker ---


def unregister_broker(facts: Facts, command: UnregisterBroker) -> PlannedChange:
    """Return the records that forget a broker. Partitions keep it as a replica until they are moved."""
    broker = facts.image.brokers.get(command.broker_id)
    if broker is None:
        text = f"Broker ID {command.broker_id} is not currently registered"
        return PlannedChange([], Outcome(ErrorCode.BROKER_ID_NOT_REGISTERED, text))
    if command.broker_id == facts.broker_id:
        text = f"Broker ID {command.broker_id} is the controller, which stays registered while it runs"
        return PlannedChange([], Outcome(ErrorCode.INVALID_REQUEST, text))
    changed = without_broker(facts.image, broker.broker_id, lambda topic: allows_unclean(facts, topic))
    return PlannedChange([*changed, UnregisterBrokerRecord(broker.broker_id, broker.broker_epoch)], Outcome())


# --- UnregisterController ---


def unregister_controller(facts: Facts, command: UnregisterController) -> PlannedChange:
    """Return the record that forgets a controller. It does not take its vote away; a controller that runs registers again."""
    if command.controller_id == facts.broker_id:
        text = "Controller cannot unregister itself while it is active."
        return PlannedChange([], Outcome(ErrorCode.INVALID_REQUEST, text))
    if facts.image.features.get(METADATA_VERSION, 0) < FIRST_WITH_UNREGISTERED_CONTROLLERS:
        text = "The current MetadataVersion is too old to support controller unregistration."
        return PlannedChange([], Outcome(ErrorCode.UNSUPPORTED_VERSION, text))
    if command.controller_id not in facts.image.controllers:
        text = f"Controller ID {command.controller_id} is not currently registered."
        return PlannedChange([], Outcome(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, text))
    return PlannedChange([UnregisterControllerRecord(command.controller_id)], Outcome())
