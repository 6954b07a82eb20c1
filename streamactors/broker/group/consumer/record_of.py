"""Makes the records of a consumer group from its values.

Owner: the state machine of consumer groups. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamactors.broker.group.assignors.group_spec import Partitions
from streamactors.broker.group.assignors.hash_order import text_order
from streamactors.broker.group.consumer.consumer_group import ConsumerGroup, ConsumerMember, Epochs, ResolvedRegex
from streamactors.broker.group.consumer.consumer_record import (
    CURRENT,
    EPOCH,
    MEMBER,
    OLD_METADATA,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    ConsumerRecord,
    CurrentValue,
    EpochValue,
    MemberValue,
    RegexValue,
    StoredClassic,
    StoredOwned,
    StoredPartitions,
    StoredProtocol,
    TargetEpochValue,
    TargetValue,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> ConsumerRecord:
    """Return the record of a group's epoch."""
    return ConsumerRecord(EPOCH, group_id, "", EpochValue(epoch, metadata_hash))


def target_epoch_record(group_id: str, epoch: int, time_ms: int) -> ConsumerRecord:
    """Return the record of the epoch of a target assignment."""
    return ConsumerRecord(TARGET_EPOCH, group_id, "", TargetEpochValue(epoch, time_ms))


def member_record(group_id: str, member: ConsumerMember) -> ConsumerRecord:
    """Return the record of who a member is."""
    classic = None
    if member.classic is not None:
        protocols = tuple(StoredProtocol(*each) for each in member.classic.protocols)
        classic = StoredClassic(member.classic.session_timeout_ms, protocols)
    value = MemberValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(member.topics, key=text_order)),
        member.regex,
        member.rebalance_timeout_ms,
        member.assignor,
        classic,
    )
    return ConsumerRecord(MEMBER, group_id, member.member_id, value)


def target_record(group_id: str, member_id: str, target: Partitions) -> ConsumerRecord:
    """Return the record of a member's target assignment, in the order in which it is given."""
    topics = tuple(StoredPartitions(topic_id, tuple(partitions)) for topic_id, partitions in target.items())
    return ConsumerRecord(TARGET, group_id, member_id, TargetValue(topics))


def current_record(group_id: str, member: ConsumerMember) -> ConsumerRecord:
    """Return the record of what a member has."""
    value = CurrentValue(
        member.epoch, member.previous_epoch, member.state, _owned(member.assigned), _owned(member.revoking)
    )
    return ConsumerRecord(CURRENT, group_id, member.member_id, value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> ConsumerRecord:
    """Return the record of what a regular expression matched."""
    topics = tuple(sorted(resolved.topics, key=text_order))
    return ConsumerRecord(REGEX, group_id, regex, RegexValue(topics, resolved.version, resolved.time_ms))


def removal(group_id: str, member_id: str) -> list[ConsumerRecord]:
    """Return the tombstones of a member."""
    return [ConsumerRecord(kind, group_id, member_id) for kind in (CURRENT, TARGET, MEMBER)]


def tombstones(group: ConsumerGroup, renamed: Mapping[str, str] | None = None) -> list[ConsumerRecord]:
    """Return the records that delete a group, in Apache Kafka's order. `renamed` has members whose id has changed in records just before."""
    group_id = group.group_id
    member_ids = [(renamed or {}).get(member_id, member_id) for member_id in group.member_order()]
    records = [ConsumerRecord(kind, group_id, member_id) for kind in (CURRENT, TARGET) for member_id in member_ids]
    records.append(ConsumerRecord(TARGET_EPOCH, group_id))
    records += [ConsumerRecord(MEMBER, group_id, member_id) for member_id in member_ids]
    records += [ConsumerRecord(REGEX, group_id, regex) for regex in group.regexes]
    return [*records, ConsumerRecord(OLD_METADATA, group_id), ConsumerRecord(EPOCH, group_id)]


def _owned(epochs: Epochs) -> Sequence[StoredOwned]:
    return tuple(StoredOwned(topic_id, tuple(held), tuple(held.values())) for topic_id, held in epochs.items())
