"""Runs classic groups for a shard: steps their state machines and carries out the effects.

Owner: `GroupShard`. A group changes when its machine steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.coordinator.coordinator_log import KeyValue, client_error
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_commit import (
    check_commit,
    check_delete_group,
    check_delete_offsets,
    session_touched,
)
from streamactors.broker.group.classic.classic_events import (
    CancelTimer,
    Deleted,
    Effect,
    Event,
    GroupAnswer,
    GroupLoaded,
    InitialDelayElapsed,
    JoinDeadline,
    JoinGroup,
    Resigned,
    SessionExpired,
    SetTimer,
    SyncDeadline,
    WriteGroup,
)
from streamactors.broker.group.classic.classic_group import Group, GroupRules, GroupState
from streamactors.broker.group.classic.classic_rebalance import prepare_rebalance, session_started
from streamactors.broker.group.classic.classic_state import step
from streamactors.broker.group.consumer.consumer_group import ConsumerGroup
from streamactors.broker.group.consumer.consumer_record import encode
from streamactors.broker.group.consumer.record_of import tombstones
from streamactors.broker.group.group_kind import GroupType
from streamactors.broker.group.group_messages import CommitOffsets, ToGroup
from streamactors.broker.group.group_record import encode_group_key, encode_group_value
from streamactors.broker.group.subscription import is_subscribed, subscribed_topics
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.broker.group.group_shard import GroupShard

_log = logging.getLogger("streamactors.broker.group")


class ClassicKind:
    """The classic groups of one shard."""

    group_type: Final = GroupType.CLASSIC

    def __init__(self, shard: GroupShard, rules: GroupRules) -> None:
        self._shard = shard
        self.rules = rules
        self.serves: Final[Mapping[type, Callable[[Any], object]]] = {ToGroup: self.to_group}

    # -- life -------------------------------------------------------------------------------------------------------

    def loaded(self, group_id: str) -> None:
        self._step(group_id, GroupLoaded())

    def resigned(self, group_id: str) -> None:
        self._step(group_id, Resigned())

    def deleted(self, group_id: str) -> None:
        self._step(group_id, Deleted())

    def timer_due(self, group_id: str, event: Any) -> None:
        if isinstance(event, SessionExpired | InitialDelayElapsed | JoinDeadline | SyncDeadline):
            self._step(group_id, event)

    # -- members ----------------------------------------------------------------------------------------------------

    def to_group(self, message: ToGroup) -> None:
        """Pass a member's request to its group; only a newcomer's JoinGroup makes a new group."""
        event, group = message.event, self._shard.groups.get(message.group_id)
        newcomer = isinstance(event, JoinGroup) and event.member_id == ""
        if group is None and not newcomer:
            message.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
        elif isinstance(group, ConsumerGroup) and (group.members or not newcomer):
            self._shard.consumer.of_classic.serve(group, message)
        elif isinstance(group, ConsumerGroup):
            # All members of the consumer protocol have left.
            written = [encode(record) for record in tombstones(group)]
            self._shard.consumer.replace_group(message.group_id, None, written, lambda _: None)
            self._step(message.group_id, event)
        elif group is not None and not isinstance(group, Group):
            message.refuse(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL if isinstance(event, JoinGroup) else ErrorCode.UNKNOWN_MEMBER_ID
            )
        else:
            self._step(message.group_id, event)

    def new_group(self, group_id: str) -> Group:
        """Return a new empty group."""
        return Group(group_id, self.rules, state_since_ms=self._shard.clock.wall_ms())

    def _step(self, group_id: str, event: Event) -> None:
        shard = self._shard
        found = shard.groups.get(group_id)
        before = found if isinstance(found, Group) else self.new_group(group_id)
        group, effects = step(before, event, shard.clock.wall_ms())
        moved = group.generation != before.generation or group.state is not before.state
        if moved and not isinstance(event, Resigned):
            _log.info(
                "group %s of %s: %s, generation %d, %d members, after %s",
                group_id,
                shard.name,
                group.state.value,
                group.generation,
                len(group.members),
                type(event).__name__,
            )
        if _is_unmade(group) and not group.pending_joins and not shard.offsets.has_any(group_id):
            shard.groups.pop(group_id, None)
        else:
            shard.groups[group_id] = group
        self._carry_out(group_id, effects)

    def adopt(self, group: Group, *, rebalance: bool) -> None:
        """Take over a group that was a consumer group."""
        effects: list[Effect] = [session_started(member) for member in group.members.values()]
        if rebalance:
            group = prepare_rebalance(group, self._shard.clock.wall_ms(), effects)
        self._shard.groups[group.group_id] = group
        self._carry_out(group.group_id, effects)

    def _carry_out(self, group_id: str, effects: Sequence[Effect]) -> None:
        shard = self._shard
        for effect in effects:
            if type(effect) is GroupAnswer:
                effect.reply_to(effect.response)  # type: ignore[operator]
            elif type(effect) is SetTimer:
                shard.set_timer(group_id, effect.key, effect.delay_ms, effect.event)
            elif type(effect) is CancelTimer:
                shard.cancel_timer(group_id, effect.key)
            elif type(effect) is WriteGroup:
                self._write(group_id, effect)

    def _write(self, group_id: str, write: WriteGroup) -> None:
        shard = self._shard
        record = (encode_group_key(group_id), encode_group_value(write.group, dict(write.assignments)))

        def then(error: ErrorCode, _offset: int) -> None:
            if error is not ErrorCode.NONE:
                log_limited(
                    _log, logging.WARNING, (shard.name, group_id, error),
                    "group %s of %s: writing it failed: %s", group_id, shard.name, error.name,
                )  # fmt: skip
            if isinstance(shard.groups.get(group_id), Group):
                self._step(group_id, replace(write.then, error=client_error(error)))

        shard.log.write([record], then)

    # -- questions --------------------------------------------------------------------------------------------------

    def is_visible(self, group: Group) -> bool:
        """Whether clients can see the group: not if it is dead or has only pending member ids."""
        if group.state is GroupState.DEAD:
            return False
        return not _is_unmade(group) or self._shard.offsets.has_any(group.group_id)

    def is_unused(self, group: Group) -> bool:
        return group.state is GroupState.EMPTY and not group.pending_joins

    def is_gone(self, group: Group) -> bool:
        return group.state is GroupState.DEAD

    def check_delete(self, group: Group) -> ErrorCode:
        return check_delete_group(group)

    def tombstones(self, group: Group) -> Sequence[KeyValue]:
        # A group without members gets a tombstone, too: otherwise Apache Kafka would read an empty group.
        return [(encode_group_key(group.group_id), None)]

    # -- offsets ----------------------------------------------------------------------------------------------------

    def check_commit(self, group: Group, commit: CommitOffsets) -> Sequence[ErrorCode]:
        transactional = commit.producer_id >= 0
        error = check_commit(
            group, commit.member_id, commit.instance_id, commit.generation, transactional=transactional
        )
        return [error] * len(commit.offsets)

    def committed(self, group: Group, commit: CommitOffsets) -> None:
        touched = session_touched(group, commit.member_id)
        if touched is not None:
            self._shard.set_timer(group.group_id, touched.key, touched.delay_ms, touched.event)

    def check_fetch(self, group: Group, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete_offsets(self, group: Group) -> ErrorCode:
        return check_delete_offsets(group)

    def uses_topic(self, group: Group, topic: str) -> bool:
        return is_subscribed(group, topic)

    def kept_since(self, group: Group, topic: str, committed_at_ms: int) -> int | None:
        return kept_since(group, topic, committed_at_ms)


def kept_since(group: Group, topic: str, committed_at_ms: int) -> int | None:
    """Return the time from which the retention of an offset counts, None if the offset cannot expire now."""
    if group.protocol_type is None:
        return committed_at_ms
    if group.state is GroupState.EMPTY:
        # Old records lack the time when the group became empty; then the last commit counts.
        return committed_at_ms if group.state_since_ms == -1 else group.state_since_ms
    if group.state is GroupState.STABLE and subscribed_topics(group) is not None and not is_subscribed(group, topic):
        return committed_at_ms
    return None


def _is_unmade(group: Group) -> bool:
    """Whether the group has no state but pending member ids."""
    return (
        group.state is GroupState.EMPTY and not group.stored and group.generation == 0 and group.protocol_type is None
    )
