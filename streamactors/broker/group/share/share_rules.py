"""What the coordinator of a share group decides for a heartbeat, for a member that leaves, and for share partitions that are begun or forgotten. Pure.

Rules, their order and messages: Apache Kafka's GroupMetadataManager. A member gets only partitions whose share partitions are initialised: the
heartbeat that subscribes to a topic starts the initialisation, and a later one brings the assignment."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.share.share_fold import fold, stored_partitions
from streamactors.broker.group.share.share_group import NOTHING, Partitions, ShareGroup, ShareMember, TopicPartitions
from streamactors.broker.group.share.share_record import (
    CURRENT,
    EPOCH,
    MEMBER,
    STATES,
    TARGET,
    TARGET_EPOCH,
    CurrentValue,
    EpochValue,
    MemberValue,
    ShareRecord,
    StatesValue,
    StoredName,
    StoredTopic,
    TargetEpochValue,
    TargetValue,
)
from streamactors.broker.group.share.simple_assignor import Subscriber, assign
from streamactors.broker.group.stored_times import interval_is_over
from streamactors.broker.metadata.image import MetadataImage

LEAVES: Final = -1
_STABLE: Final = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules know beside the group: the time, the metadata, the settings."""

    now_ms: int
    image: MetadataImage
    metadata_hash: Callable[[MetadataImage, Iterable[str]], int]
    max_size: int = 200  # group.share.max.size
    assignment_interval_ms: int = 1000  # group.share.assignment.interval.ms
    initialize_retry_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class Beat:
    """A member's heartbeat. `topics` None: as before."""

    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


class Begin(NamedTuple):
    """A share partition that the share coordinator has to begin."""

    topic_id: uuid.UUID
    partition: int
    state_epoch: int
    start_offset: int


class Decided(NamedTuple):
    """The records to write, the group after them, and for a heartbeat the member, its new assignment and the share partitions to begin."""

    records: list[ShareRecord]
    group: ShareGroup
    member: ShareMember | None = None
    assignment: Partitions | None = None
    begins: tuple[Begin, ...] = ()


def heartbeat(group: ShareGroup, beat: Beat, facts: Facts) -> Decided:
    """Return the decision about a heartbeat of a member that stays. Raises Refusal."""
    member = _member(group, beat, facts)
    after = replace(
        member,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        topics=member.topics if beat.topics is None else frozenset(beat.topics),
        client_id=beat.client_id,
        client_host=beat.client_host,
    )
    step = _Step(group, facts)
    known = group.members.get(beat.member_id)
    subscribes = after.topics != (frozenset() if known is None else known.topics)
    if after != known:
        step.write(
            MEMBER, MemberValue(after.rack_id, after.client_id, after.client_host, sorted(after.topics)), beat.member_id
        )
    changed = step.new_epoch(subscribes)
    step.new_target()
    now = step.reconcile(step.group.members[beat.member_id], changed)
    full = beat.epoch == 0 or beat.topics is not None or now.assigned != member.assigned
    begins = step.begin_states()
    return Decided(step.records, step.group, now, now.assigned if full else None, begins)


def _member(group: ShareGroup, beat: Beat, facts: Facts) -> ShareMember:
    known = group.members.get(beat.member_id)
    if known is None and len(group.members) >= facts.max_size:
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {facts.max_size} members.",
        )
    if known is None:
        if beat.epoch:
            raise _not_a_member(group, beat.member_id)
        return ShareMember(beat.member_id)
    if beat.epoch == 0:
        return known
    told, has = beat.epoch, known.epoch
    if told > has:
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({told}) than the one known by the group coordinator "
            f"({has}). The member must abandon all its partitions and rejoin.",
        )
    if told < has and told != known.previous_epoch:
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a smaller member epoch ({told}) than the one known by the group coordinator "
            f"({has}), and it does not match the previous member epoch ({known.previous_epoch}). The member must abandon "
            "all its partitions and rejoin.",
        )
    return known


def _not_a_member(group: ShareGroup, member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def leave(group: ShareGroup, member_id: str, facts: Facts) -> Decided:
    """Return the decision about a member that leaves or whose session has timed out. Raises Refusal."""
    if member_id not in group.members:
        raise _not_a_member(group, member_id)
    step = _Step(group, facts)
    for kind in (CURRENT, TARGET, MEMBER):
        step.write(kind, None, member_id)
    epoch = group.epoch + 1
    step.write(EPOCH, EpochValue(epoch, facts.metadata_hash(facts.image, step.group.subscribed_topics)))
    if not step.group.members:
        step.write(TARGET_EPOCH, TargetEpochValue(epoch, 0))
    return Decided(step.records, step.group)


def begun(group: ShareGroup, topics: Mapping[uuid.UUID, frozenset[int]], facts: Facts) -> Decided:
    """Share partitions have been begun: they may be assigned."""
    step = _Step(group, facts)
    named = {
        each: TopicPartitions(_name(facts, each, group.initializing), partitions) for each, partitions in topics.items()
    }
    step.write_states(initializing=_minus(group.initializing, topics), initialized=_joined(group.initialized, named))
    return Decided(step.records, step.group)


def not_begun(group: ShareGroup, topics: Mapping[uuid.UUID, frozenset[int]], facts: Facts) -> Decided:
    """Share partitions could not be begun: a later heartbeat tries again."""
    step = _Step(group, facts)
    if group.initializing:
        step.write_states(initializing=_minus(group.initializing, topics))
    return Decided(step.records, step.group)


def set_states(
    group: ShareGroup,
    facts: Facts,
    *,
    initializing: Mapping[uuid.UUID, TopicPartitions] | None = None,
    initialized: Mapping[uuid.UUID, TopicPartitions] | None = None,
    deleting: Mapping[uuid.UUID, str] | None = None,
) -> Decided:
    """Replace what is noted about share partitions; None leaves a map as it is."""
    step = _Step(group, facts)
    step.write_states(initializing, initialized, deleting)
    return Decided(step.records, step.group)


def topics_gone(group: ShareGroup, gone: frozenset[uuid.UUID], facts: Facts) -> Decided:
    """Topics were deleted: forget their share partitions. Without such topics there is nothing to write."""
    step = _Step(group, facts)
    if gone & (group.initializing.keys() | group.initialized.keys() | group.deleting.keys()):
        step.write_states(
            {each: value for each, value in group.initializing.items() if each not in gone},
            {each: value for each, value in group.initialized.items() if each not in gone},
            {each: value for each, value in group.deleting.items() if each not in gone},
        )
    return Decided(step.records, step.group)


def tombstones(group: ShareGroup) -> list[ShareRecord]:
    """Return the records that delete a group, in Apache Kafka's order."""
    name = group.group_id
    records = [ShareRecord(kind, name, each) for kind in (CURRENT, TARGET) for each in group.members]
    records.append(ShareRecord(TARGET_EPOCH, name))
    records += [ShareRecord(MEMBER, name, each) for each in group.members]
    return [*records, ShareRecord(STATES, name), ShareRecord(EPOCH, name)]


class _Step:
    """The records of one decision, and the group after them."""

    def __init__(self, group: ShareGroup, facts: Facts) -> None:
        self.group = group
        self.records: list[ShareRecord] = []
        self._facts = facts

    def write(
        self,
        kind: int,
        value: MemberValue | EpochValue | TargetEpochValue | TargetValue | CurrentValue | StatesValue | None,
        member_id: str = "",
    ) -> None:
        record = ShareRecord(kind, self.group.group_id, member_id, value)
        self.records.append(record)
        after = fold(self.group, [record], self._facts.now_ms)
        assert after is not None
        self.group = after

    def new_epoch(self, subscribes: bool) -> bool:
        """Begin a new epoch if the subscriptions, the topics or the initialised partitions have changed. Return whether they have."""
        group, facts = self.group, self._facts
        changed = subscribes or (group.assignment_epoch >= group.epoch and self._awaits_assignment())
        found = facts.metadata_hash(facts.image, group.subscribed_topics)
        if not changed and found == group.metadata_hash:
            return False
        self.write(EPOCH, EpochValue(group.epoch + 1, found))
        return True

    def _awaits_assignment(self) -> bool:
        """Whether partitions have been initialised that the target assignment does not have."""
        group = self.group
        assigned: dict[uuid.UUID, set[int]] = {}
        for target in group.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return any(
            topic.name in group.subscribed_topics and frozenset(assigned.get(topic_id, ())) != topic.partitions
            for topic_id, topic in group.initialized.items()
        )

    def new_target(self) -> None:
        """Compute the target assignment of the group's epoch, unless the last one is too young."""
        group, facts = self.group, self._facts
        if group.assignment_epoch >= group.epoch:
            return
        made_ms = group.assignment_ms
        if made_ms and not interval_is_over(made_ms, facts.assignment_interval_ms, facts.now_ms):
            return
        topics = facts.image.topics
        members = {
            each: Subscriber(
                frozenset(topics[name].topic_id for name in member.topics if name in topics),
                group.targets.get(each, NOTHING),
            )
            for each, member in group.members.items()
        }
        assignable = {topic_id: topic.partitions for topic_id, topic in group.initialized.items()}
        for each, target in assign(members, assignable).items():
            if target != group.targets.get(each, NOTHING):
                self.write(TARGET, TargetValue(stored_partitions(target)), each)
        self.write(TARGET_EPOCH, TargetEpochValue(group.epoch, facts.now_ms))

    def reconcile(self, member: ShareMember, changed: bool) -> ShareMember:
        """Give a member its target assignment, as far as it subscribes to the topics. Return the member after it."""
        group, topics = self.group, self._facts.image.topics
        epoch = group.assignment_epoch
        if not changed and member.epoch == epoch:
            return member
        wanted = {topics[name].topic_id for name in member.topics if name in topics}
        target = group.targets.get(member.member_id, NOTHING)
        assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in wanted}
        after = replace(member, assigned=assigned)
        if epoch != member.epoch:
            after = replace(after, epoch=epoch, previous_epoch=member.epoch)
        if after == member:
            return member
        value = CurrentValue(after.epoch, after.previous_epoch, _STABLE, stored_partitions(after.assigned))
        self.write(CURRENT, value, member.member_id)
        return self.group.members[member.member_id]

    def begin_states(self) -> tuple[Begin, ...]:
        """Note the partitions of subscribed topics that are not initialised, and return what the share coordinator has to begin."""
        group, facts = self.group, self._facts
        young = {
            topic_id: topic
            for topic_id, topic in group.initializing.items()
            if not interval_is_over(topic.since_ms, facts.initialize_retry_ms, facts.now_ms)
        }
        known = _joined(group.initialized, young)
        wanted: dict[uuid.UUID, TopicPartitions] = {}
        for name in group.subscribed_topics & facts.image.topics.keys():
            topic = facts.image.topics[name]
            there = known[topic.topic_id].partitions if topic.topic_id in known else frozenset[int]()
            missing = frozenset(range(len(topic.partitions))) - there
            if missing:
                wanted[topic.topic_id] = TopicPartitions(name, missing, facts.now_ms)
        if not wanted:
            return ()
        had = group.initialized.keys() | group.initializing.keys()
        deleting = {each: name for each, name in group.deleting.items() if each not in wanted}
        self.write_states(_joined(group.initializing, wanted), deleting=deleting)
        return tuple(
            Begin(topic_id, partition, self.group.epoch, 0 if topic_id in had else -1)
            for topic_id, topic in wanted.items()
            for partition in sorted(topic.partitions)
        )

    def write_states(
        self,
        initializing: Mapping[uuid.UUID, TopicPartitions] | None = None,
        initialized: Mapping[uuid.UUID, TopicPartitions] | None = None,
        deleting: Mapping[uuid.UUID, str] | None = None,
    ) -> None:
        group = self.group
        forgotten = group.deleting if deleting is None else deleting
        value = StatesValue(
            _stored(group.initializing if initializing is None else initializing),
            _stored(group.initialized if initialized is None else initialized),
            [StoredName(each, forgotten[each]) for each in sorted(forgotten)],
        )
        self.write(STATES, value)


def _stored(topics: Mapping[uuid.UUID, TopicPartitions]) -> list[StoredTopic]:
    return [StoredTopic(each, topics[each].name, sorted(topics[each].partitions)) for each in sorted(topics)]


def _joined(
    one: Mapping[uuid.UUID, TopicPartitions], other: Mapping[uuid.UUID, TopicPartitions]
) -> dict[uuid.UUID, TopicPartitions]:
    joined = dict(one)
    for topic_id, topic in other.items():
        known = joined.get(topic_id)
        joined[topic_id] = topic if known is None else known._replace(partitions=known.partitions | topic.partitions)
    return joined


def _minus(
    topics: Mapping[uuid.UUID, TopicPartitions], gone: Mapping[uuid.UUID, frozenset[int]]
) -> dict[uuid.UUID, TopicPartitions]:
    left = {
        each: topic._replace(partitions=topic.partitions - gone.get(each, frozenset()))
        for each, topic in topics.items()
    }
    return {each: topic for each, topic in left.items() if topic.partitions}


def _name(facts: Facts, topic_id: uuid.UUID, known: Mapping[uuid.UUID, TopicPartitions]) -> str:
    topic = facts.image.topics_by_id.get(topic_id)
    if topic is not None:
        return topic.name
    return known[topic_id].name if topic_id in known else "<UNKNOWN>"
