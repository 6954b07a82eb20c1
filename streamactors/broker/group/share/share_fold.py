"""Applies records to a share group: while the log is read, and when the coordinator decides something. Pure.

Owner: the group coordinator. Source: Apache Kafka's replay of GroupMetadataManager."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from streamactors.broker.group.classic.classic_group import GroupRules
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.share.share_group import Partitions, ShareGroup, ShareMember, TopicPartitions
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
    StoredPartitions,
    StoredTopic,
    TargetEpochValue,
    TargetValue,
    decode,
)
from streamactors.broker.group.stored_records import fold_into


def fold(group: ShareGroup, records: Iterable[ShareRecord], now_ms: int = 0) -> ShareGroup | None:
    """Return the group after these records, None after its tombstone. `now_ms`: when share partitions began to be initialised."""
    builder = _Builder(group, now_ms)
    for record in records:
        builder.apply(record)
    return None if builder.gone else builder.group


@dataclass
class _Builder:
    group: ShareGroup
    now_ms: int
    gone: bool = False

    def apply(self, record: ShareRecord) -> None:
        match record.value:
            case None:
                self._remove(record)
            case MemberValue() as value:
                member = self._member(record.member_id)
                self._put_member(
                    replace(
                        member,
                        rack_id=value.rack_id,
                        client_id=value.client_id,
                        client_host=value.client_host,
                        topics=frozenset(value.topics),
                    )
                )
            case EpochValue() as value:
                self.group = replace(self.group, epoch=value.epoch, metadata_hash=value.metadata_hash)
            case TargetEpochValue() as value:
                self.group = replace(self.group, assignment_epoch=value.epoch, assignment_ms=value.time_ms)
            case TargetValue() as value:
                targets = {**self.group.targets, record.member_id: partitions_of(value.topics)}
                self.group = replace(self.group, targets=targets)
            case CurrentValue() as value:
                member = self._member(record.member_id)
                assigned = partitions_of(value.assigned)
                self._put_member(
                    replace(member, epoch=value.epoch, previous_epoch=value.previous_epoch, assigned=assigned)
                )
            case StatesValue() as value:
                self._states(value)

    def _member(self, member_id: str) -> ShareMember:
        return self.group.members.get(member_id) or ShareMember(member_id)

    def _put_member(self, member: ShareMember) -> None:
        self.group = replace(self.group, members={**self.group.members, member.member_id: member})

    def _remove(self, record: ShareRecord) -> None:
        group, member_id = self.group, record.member_id
        if record.kind == MEMBER:
            self.group = replace(group, members=_without(group.members, member_id))
        elif record.kind == TARGET:
            self.group = replace(group, targets=_without(group.targets, member_id))
        elif record.kind == CURRENT and member_id in group.members:
            self._put_member(replace(group.members[member_id], epoch=-1, previous_epoch=-1, assigned={}))
        elif record.kind == TARGET_EPOCH:
            self.group = replace(group, assignment_epoch=-1, assignment_ms=0)
        elif record.kind == STATES:
            self.group = replace(group, initializing={}, initialized={}, deleting={}, has_states=False)
        elif record.kind == EPOCH:
            self.gone = True

    def _states(self, value: StatesValue) -> None:
        # The time of the newest record counts, as in Apache Kafka. With the time of the first one, every heartbeat after the retry
        # interval would begin the same share partitions again.
        initializing = {
            topic_id: TopicPartitions(name, frozenset(partitions), self.now_ms)
            for topic_id, name, partitions in value.initializing
        }
        self.group = replace(
            self.group,
            initializing=initializing,
            initialized=_topics(value.initialized),
            deleting=dict(value.deleting),
            has_states=True,
        )


def _topics(stored: Iterable[StoredTopic]) -> dict[uuid.UUID, TopicPartitions]:
    return {topic_id: TopicPartitions(name, frozenset(partitions)) for topic_id, name, partitions in stored}


def _without(members: Mapping[str, Any], member_id: str) -> dict[str, Any]:
    return {each: value for each, value in members.items() if each != member_id}


def partitions_of(stored: Iterable[StoredPartitions]) -> Partitions:
    """Return stored partitions by topic."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in stored}


def stored_partitions(partitions: Partitions) -> Sequence[StoredPartitions]:
    """Return partitions as they are stored: topics and partitions in order."""
    return [StoredPartitions(topic_id, sorted(partitions[topic_id])) for topic_id in sorted(partitions)]


def _fold_record(
    kind: int, groups: dict[str, CoordinatedGroup], key: bytes, value: bytes | None, _rules: GroupRules
) -> None:
    fold_into(groups, decode(kind, key, value), ShareGroup, fold, ShareGroup)


SHARE_FOLDS: Final = {
    kind: partial(_fold_record, kind) for kind in (MEMBER, EPOCH, TARGET_EPOCH, TARGET, CURRENT, STATES)
}
