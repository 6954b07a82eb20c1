"""Applies records to a consumer group: while the log is read, and when the coordinator decides something.

Owner: the group coordinator. Pure. A decision of the coordinator is a list of records, and its state is their fold, so a new coordinator
that reads the log has the same state. Source: Apache Kafka's replay of GroupMetadataManager."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from streamactors.broker.group.assignors.hash_order import timeline_table
from streamactors.broker.group.classic.classic_group import Group, GroupRules
from streamactors.broker.group.consumer.consumer_group import (
    LEFT,
    ClassicMember,
    ClassicProtocol,
    ConsumerGroup,
    ConsumerMember,
    Epochs,
    MemberState,
    ResolvedRegex,
)
from streamactors.broker.group.consumer.consumer_record import (
    CURRENT,
    EPOCH,
    MEMBER,
    NO_PROTOCOLS,
    OLD_METADATA,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    ConsumerRecord,
    CurrentValue,
    EpochValue,
    MemberValue,
    OldMetadataValue,
    RegexValue,
    StoredOwned,
    TargetEpochValue,
    TargetValue,
    decode,
)
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.stored_records import fold_into

_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


def fold(group: ConsumerGroup, records: Iterable[ConsumerRecord]) -> ConsumerGroup | None:
    """Return the group after these records, None after its tombstone. The given group does not change."""
    builder = _Builder(group)
    for record in records:
        builder.apply(record)
    return builder.build()


class _Builder:
    """Copies of the parts of a group that records have changed."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self._changes: dict[str, Any] = {}
        self._own_topics: set[uuid.UUID] = set()  # topics of `owners` that are copied
        self._deleted = False

    def build(self) -> ConsumerGroup | None:
        if self._deleted:
            return None
        return replace(self._group, **self._changes) if self._changes else self._group

    def apply(self, record: ConsumerRecord) -> None:
        value, name = record.value, record.name
        self._deleted = False
        match value:
            case EpochValue():
                self._changes |= {"epoch": value.epoch, "metadata_hash": value.metadata_hash}
            case OldMetadataValue():
                self._changes["has_old_metadata"] = True
            case TargetEpochValue():
                self._changes |= {"assignment_epoch": value.epoch, "assignment_time_ms": value.time_ms}
            case TargetValue():
                self._edit("targets")[name] = {each.topic_id: tuple(each.partitions) for each in value.topics}
            case RegexValue():
                self._edit("regexes")[name] = ResolvedRegex(frozenset(value.topics), value.version, value.time_ms)
            case MemberValue():
                before = self._members.get(name)
                self._put(before, _described(before or ConsumerMember(name), value))
            case CurrentValue():
                before = self._members.get(name)
                self._put(before, _placed(before or ConsumerMember(name), value))
            case None:
                self._tombstone(record.kind, name)

    def _tombstone(self, kind: int, name: str) -> None:
        if kind == EPOCH:
            self._deleted = True
            self._group, self._changes = ConsumerGroup(self._group.group_id), {}
            self._own_topics.clear()
        elif kind == OLD_METADATA:
            self._changes["has_old_metadata"] = False
        elif kind == TARGET_EPOCH:
            self._changes |= {"assignment_epoch": LEFT, "assignment_time_ms": 0}
        elif kind == TARGET:
            self._edit("targets").pop(name, None)
        elif kind == REGEX:
            self._edit("regexes").pop(name, None)
        elif (before := self._members.get(name)) is not None:
            if kind == MEMBER:
                self._remove(before)
            else:
                self._put(before, replace(before, epoch=LEFT, previous_epoch=LEFT, assigned=_NONE, revoking=_NONE))

    @property
    def _members(self) -> Mapping[str, ConsumerMember]:
        found: Mapping[str, ConsumerMember] = self._changes.get("members", self._group.members)
        return found

    def _edit(self, part: str) -> dict[Any, Any]:
        """Return a copy of a mapping of the group, to change."""
        if part not in self._changes:
            self._changes[part] = dict(getattr(self._group, part))
        found: dict[Any, Any] = self._changes[part]
        return found

    def _put(self, before: ConsumerMember | None, member: ConsumerMember) -> None:
        self._release(before)
        if before is not None and before.instance_id is not None:
            self._edit("static_ids").pop(before.instance_id, None)
        if member.instance_id is not None:
            self._edit("static_ids")[member.instance_id] = member.member_id
        members = self._edit("members")
        table_size = self._changes.get("table_size", self._group.table_size)
        self._changes["table_size"] = timeline_table(table_size, len(members) + 1)  # also if the member is there
        members[member.member_id] = member
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                epochs = self._owners_of(topic_id)
                for partition in partitions:
                    epochs[partition] = member.epoch

    def _remove(self, member: ConsumerMember) -> None:
        self._release(member)
        if member.instance_id is not None:
            self._edit("static_ids").pop(member.instance_id, None)
        self._edit("members").pop(member.member_id, None)

    def _release(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                epochs = self._owners_of(topic_id)
                for partition in partitions:
                    # Another member may own it by now, with another epoch.
                    if epochs.get(partition) == member.epoch:
                        del epochs[partition]
                if not epochs:
                    del self._edit("owners")[topic_id]
                    self._own_topics.discard(topic_id)

    def _owners_of(self, topic_id: uuid.UUID) -> dict[int, int]:
        owners = self._edit("owners")
        if topic_id not in self._own_topics:
            owners[topic_id] = dict(owners.get(topic_id, _NONE))
            self._own_topics.add(topic_id)
        found: dict[int, int] = owners[topic_id]
        return found


def _described(member: ConsumerMember, value: MemberValue) -> ConsumerMember:
    stored = None if value.classic == NO_PROTOCOLS else value.classic
    protocols = () if stored is None else tuple(ClassicProtocol(*each) for each in stored.protocols)
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.topics),
        regex=value.regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.assignor,
        classic=None if stored is None else ClassicMember(stored.session_timeout_ms, protocols),
    )


def _placed(member: ConsumerMember, value: CurrentValue) -> ConsumerMember:
    known = value.state in MemberState._value2member_map_
    return replace(
        member,
        epoch=value.epoch,
        previous_epoch=value.previous_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=_epochs(value.assigned, value.epoch),
        revoking=_epochs(value.revoking, value.epoch),
    )


def _epochs(topics: Sequence[StoredOwned], default: int) -> Epochs:
    """Return the assignment epochs; records before Apache Kafka 4.2 lack them, and the member epoch counts."""
    found: dict[uuid.UUID, dict[int, int]] = {}
    for topic_id, partitions, epochs in topics:
        if epochs is None or len(epochs) != len(partitions):
            epochs = [max(default, 0)] * len(partitions)
        found[topic_id] = dict(zip(partitions, epochs, strict=True))
    return found


def _fold_one(
    kind: int, groups: dict[str, CoordinatedGroup], key: bytes, value: bytes | None, _rules: GroupRules
) -> None:
    fold_into(groups, decode(kind, key, value), ConsumerGroup, fold, ConsumerGroup, (Group,))


CONSUMER_FOLDS: Final[Mapping[int, Callable[..., None]]] = {
    kind: partial(_fold_one, kind) for kind in (EPOCH, OLD_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX)
}
"""How each record of a consumer group is folded into the map of groups."""
