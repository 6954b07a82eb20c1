"""The groups of one offsets partition: steps their state machines and carries out the effects.

Owner: the partition's coordinator actor. A group changes when its machine steps, an offset when the log has acknowledged it. The
clock, the timers and the log are parameters, so tests use a virtual clock."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from streamactors.broker.coordinator.coordinator_log import CoordinatorLog, KeyValue, Refuse, client_error
from streamactors.broker.coordinator.deadlines import Deadlines, DeadlineTimers
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group import offset_requests
from streamactors.broker.group.classic.classic_commit import check_delete_group
from streamactors.broker.group.classic.classic_events import (
    CancelTimer,
    Deleted,
    Event,
    GroupAnswer,
    GroupLoaded,
    JoinGroup,
    Resigned,
    SetTimer,
    WriteGroup,
)
from streamactors.broker.group.classic.classic_group import Group, GroupRules, GroupState
from streamactors.broker.group.classic.classic_state import step
from streamactors.broker.group.group_messages import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    ListGroups,
    LoadedGroups,
    Sweep,
    TimerDue,
    ToGroup,
    TopicsDeleted,
    WriteMarker,
)
from streamactors.broker.group.group_record import encode_group_key, encode_group_value
from streamactors.broker.group.offset_record import CommittedOffset, encode_offset_key
from streamactors.broker.group.offset_requests import OffsetRules
from streamactors.broker.group.offsets_state import OffsetsState, PartitionKey
from streamactors.clock import Clock
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.group")


class GroupShard:
    """Groups and offsets of one partition of the offsets topic."""

    def __init__(
        self,
        name: str,
        log: CoordinatorLog,
        clock: Clock,
        timers: DeadlineTimers,
        rules: GroupRules,
        offset_rules: OffsetRules,
        due: Callable[[TimerDue], object],
    ) -> None:
        self.name = name
        self.log = log
        self.clock = clock
        self.rules = rules
        self.offset_rules = offset_rules
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetsState()
        # offsets of deleted topics whose tombstones the log refused
        self.owed_tombstones: list[tuple[str, PartitionKey, CommittedOffset]] = []
        self._deadlines: Deadlines[tuple[str, str], Event] = Deadlines(
            timers, timers.clock.now_ms, lambda key, event: due(TimerDue(key[0], key[1], event))
        )
        self.serves: Final[Mapping[type, Callable[[Any], object]]] = {
            ToGroup: self.to_group,
            CommitOffsets: partial(offset_requests.commit_offsets, self),
            FetchOffsets: partial(offset_requests.fetch_offsets, self),
            DescribeGroups: self._describe,
            ListGroups: self._list,
            DeleteGroups: self.delete_groups,
            DeleteOffsets: partial(offset_requests.delete_offsets, self),
            WriteMarker: partial(offset_requests.end_transaction, self),
            TimerDue: self.timer_due,
            TopicsDeleted: partial(offset_requests.delete_topics, self),
            Sweep: lambda _: offset_requests.sweep(self),
        }

    # -- beginning and end ------------------------------------------------------------------------------------------

    def take_over(self, loaded: LoadedGroups) -> None:
        """Take over the groups and offsets of the log."""
        self.groups, self.offsets = loaded.groups, loaded.offsets
        for group_id in tuple(self.groups):
            self._step(group_id, GroupLoaded())

    def close(self) -> None:
        """Answer every parked request with NOT_COORDINATOR, and drop the state."""
        for group_id in tuple(self.groups):
            self._step(group_id, Resigned())
        self.groups.clear()
        self.offsets = OffsetsState()
        self._deadlines.clear()

    # -- members ----------------------------------------------------------------------------------------------------

    def to_group(self, message: ToGroup) -> None:
        """Pass a member's request to its group; only a newcomer's JoinGroup makes a new group."""
        event = message.event
        if message.group_id not in self.groups and not (isinstance(event, JoinGroup) and event.member_id == ""):
            message.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
            return
        self._step(message.group_id, event)

    def timer_due(self, message: TimerDue) -> None:
        """Pass a timer to its group, unless the timer was set again while the message waited."""
        if message.group_id in self.groups and (message.group_id, message.key) not in self._deadlines:
            self._step(message.group_id, message.event)  # type: ignore[arg-type]

    def set_timer(self, group_id: str, timer: SetTimer) -> None:
        self._deadlines.set((group_id, timer.key), timer.delay_ms, timer.event)

    def group(self, group_id: str) -> Group:
        """Return the group, or a new empty one."""
        group = self.groups.get(group_id)
        return Group(group_id, self.rules, state_since_ms=self.clock.wall_ms()) if group is None else group

    def visible(self, group_id: str) -> Group | None:
        """Return the group if clients can see it: not if it is dead or has only pending member ids."""
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return None
        return None if _is_unmade(group) and not self.offsets.has_any(group_id) else group

    def _describe(self, message: DescribeGroups) -> None:
        message.reply_to(ErrorCode.NONE, [self.visible(group_id) for group_id in message.group_ids])

    def _list(self, message: ListGroups) -> None:
        seen = map(self.visible, self.groups)
        message.reply_to(ErrorCode.NONE, [group for group in seen if group is not None])

    def _step(self, group_id: str, event: Event) -> None:
        before = self.group(group_id)
        group, effects = step(before, event, self.clock.wall_ms())
        moved = group.generation != before.generation or group.state is not before.state
        if moved and not isinstance(event, Resigned):
            _log.info(
                "group %s of %s: %s, generation %d, %d members, after %s",
                group_id,
                self.name,
                group.state.value,
                group.generation,
                len(group.members),
                type(event).__name__,
            )
        if _is_unmade(group) and not group.pending_joins and not self.offsets.has_any(group_id):
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = group
        for effect in effects:
            if type(effect) is GroupAnswer:
                effect.reply_to(effect.response)  # type: ignore[operator]
            elif type(effect) is SetTimer:
                self._deadlines.set((group_id, effect.key), effect.delay_ms, effect.event)
            elif type(effect) is CancelTimer:
                self._deadlines.cancel((group_id, effect.key))
            elif type(effect) is WriteGroup:
                self._write(group_id, effect)

    def _write(self, group_id: str, write: WriteGroup) -> None:
        record = (encode_group_key(group_id), encode_group_value(write.group, dict(write.assignments)))

        def then(error: ErrorCode, _offset: int) -> None:
            if error is not ErrorCode.NONE:
                log_limited(
                    _log, logging.WARNING, (self.name, group_id, error),
                    "group %s of %s: writing it failed: %s", group_id, self.name, error.name,
                )  # fmt: skip
            if group_id in self.groups:
                self._step(group_id, replace(write.then, error=client_error(error)))

        self.log.write([record], then)

    # -- deleting groups --------------------------------------------------------------------------------------------

    def delete_groups(self, message: DeleteGroups) -> None:
        """Delete the empty groups with all their offsets; answer when the tombstones are in the log."""
        errors = [self._check_delete(group_id) for group_id in message.group_ids]
        chosen = [g for g, error in zip(message.group_ids, errors, strict=True) if error is ErrorCode.NONE]
        self.remove(
            chosen, lambda failed: message.reply_to([e or client_error(failed) for e in errors]), message.refuse
        )

    def _check_delete(self, group_id: str) -> ErrorCode:
        group = self.groups.get(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if group is None else check_delete_group(group)

    def remove(
        self, group_ids: Sequence[str], then: Callable[[ErrorCode], object], refuse: Refuse | None = None
    ) -> None:
        """Write the tombstones of empty groups and of their offsets. The groups are dead at once.

        If a tombstone fails, the groups return, without the offsets whose tombstones were written."""
        records: list[KeyValue] = []
        offsets: list[tuple[str, PartitionKey] | None] = []  # the offset of each record; None: the group itself
        before = {group_id: self.groups[group_id] for group_id in group_ids}
        for group_id in before:
            for partition in sorted(self.offsets.partitions_of(group_id)):
                offsets.append((group_id, partition))
                records.append((encode_offset_key(group_id, *partition), None))
            # A group without members gets a tombstone, too: otherwise Apache Kafka would read an empty group.
            offsets.append(None)
            records.append((encode_group_key(group_id), None))
            # The group must refuse members now: they would be deleted with it.
            self._step(group_id, Deleted())

        def written(part: range) -> None:
            for deleted in offsets[part.start : part.stop]:
                if deleted is not None:
                    self.offsets.delete(*deleted)

        def ended(error: ErrorCode) -> None:
            for group_id, group in before.items():
                if self.groups.get(group_id, group).state is GroupState.DEAD:
                    self.groups.pop(group_id, None)
                    if error is not ErrorCode.NONE:
                        self.groups[group_id] = group
            then(error)

        self.log.write_all(records, written, ended, refuse)


def _is_unmade(group: Group) -> bool:
    """Whether the group has no state but pending member ids."""
    return (
        group.state is GroupState.EMPTY and not group.stored and group.generation == 0 and group.protocol_type is None
    )
