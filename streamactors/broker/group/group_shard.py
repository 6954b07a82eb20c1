"""The groups of one offsets partition: feeds their state machines and carries the effects out.

Owner: the partition's coordinator actor. Everything that is stored goes to the partition's log first; groups
change when their machine says so, offsets when the log has acknowledged them. Needs a clock, timers and a log, and
no more, so it runs as well under a virtual clock."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from streamactors.broker.coordinator.coordinator_log import CoordinatorLog, client_error
from streamactors.broker.coordinator.deadlines import Deadlines, Timers
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic_commit import check_delete_group
from streamactors.broker.group.classic_events import (
    Answer,
    CancelTimer,
    Deleted,
    Event,
    JoinGroup,
    Resigned,
    SetTimer,
    WriteGroup,
)
from streamactors.broker.group.classic_events import Loaded as GroupLoaded
from streamactors.broker.group.classic_group import Group, GroupRules, GroupState
from streamactors.broker.group.classic_state import step
from streamactors.broker.group.group_messages import DeleteGroups, Loaded, TimerDue, ToGroup
from streamactors.broker.group.group_record import encode_group_key, encode_group_value
from streamactors.broker.group.offset_record import encode_offset_key
from streamactors.broker.group.offsets_state import OffsetsState, Partition
from streamactors.broker.group.refusal import refused
from streamactors.clock import Clock

_log = logging.getLogger("streamactors.broker.group")


@dataclass(frozen=True, slots=True)
class OffsetRules:
    """The broker's settings for committed offsets."""

    retention_ms: int = 7 * 86_400_000
    metadata_max_bytes: int = 4_096


class GroupShard:
    """Groups and offsets of one partition of the offsets topic."""

    def __init__(
        self,
        name: str,
        log: CoordinatorLog,
        clock: Clock,
        timers: Timers,
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
        self._deadlines: Deadlines[tuple[str, str], Event] = Deadlines(
            timers, clock.now_ms, lambda key, event: due(TimerDue(key[0], key[1], event))
        )

    # -- beginning and end ------------------------------------------------------------------------------------------

    def take_over(self, loaded: Loaded) -> None:
        """Go on from what the log holds."""
        self.groups, self.offsets = loaded.groups, loaded.offsets
        for group_id in tuple(self.groups):
            self._step(group_id, GroupLoaded())

    def resign(self) -> None:
        """Send every parked request to the next coordinator, and forget everything."""
        for group_id in tuple(self.groups):
            self._step(group_id, Resigned())
        self.groups.clear()
        self.offsets = OffsetsState()
        self._deadlines.clear()

    # -- members ----------------------------------------------------------------------------------------------------

    def to_group(self, message: ToGroup) -> None:
        """Give a member's request to its group; only a newcomer's JoinGroup makes one."""
        event = message.event
        if message.group_id not in self.groups and not (isinstance(event, JoinGroup) and event.member_id == ""):
            event.reply_to(refused(event, ErrorCode.UNKNOWN_MEMBER_ID))  # type: ignore[operator]
            return
        self._step(message.group_id, event)

    def timer_due(self, message: TimerDue) -> None:
        """A deadline came. It may have been set again while the message waited; then the newer one counts."""
        if message.group_id in self.groups and (message.group_id, message.key) not in self._deadlines:
            self._step(message.group_id, message.event)  # type: ignore[arg-type]

    def set_timer(self, group_id: str, timer: SetTimer) -> None:
        self._deadlines.set((group_id, timer.key), timer.delay_ms, timer.event)

    def group(self, group_id: str) -> Group:
        """Return the group, a new empty one if there is none yet."""
        group = self.groups.get(group_id)
        return Group(group_id, self.rules, state_since_ms=self.clock.wall_ms()) if group is None else group

    def visible(self, group_id: str) -> Group | None:
        """Return the group as others see it; one that has only handed out member ids does not exist for them yet."""
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return None
        return None if _is_unmade(group) and not self.offsets.has_any(group_id) else group

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
            if type(effect) is Answer:
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
                _log.warning("group %s of %s could not be written: %s", group_id, self.name, error.name)
            if group_id in self.groups:
                self._step(group_id, replace(write.then, error=client_error(error)))

        self.log.write([record], then)

    # -- deleting groups --------------------------------------------------------------------------------------------

    def delete_groups(self, message: DeleteGroups) -> None:
        """Delete what is empty, with all its offsets; one answer when the log has all of it."""
        errors = [self._check_delete(group_id) for group_id in message.group_ids]
        chosen = [g for g, error in zip(message.group_ids, errors, strict=True) if error is ErrorCode.NONE]
        self.remove(chosen, lambda failed: message.reply_to([e or client_error(failed) for e in errors]))

    def _check_delete(self, group_id: str) -> ErrorCode:
        group = self.groups.get(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if group is None else check_delete_group(group)

    def remove(self, group_ids: list[str], then: Callable[[ErrorCode], object]) -> None:
        """Write the tombstones of empty groups and of their offsets; the groups are dead from now on."""
        records: list[tuple[bytes, bytes | None]] = []
        offsets: list[tuple[str, Partition]] = []
        before = {group_id: self.groups[group_id] for group_id in group_ids}
        for group_id in before:
            for topic, partition in sorted(self.offsets.partitions_of(group_id)):
                offsets.append((group_id, (topic, partition)))
                records.append((encode_offset_key(group_id, topic, partition), None))
            # Also for a group that only ever committed: Apache Kafka would read an empty group here without it.
            records.append((encode_group_key(group_id), None))
            # Whoever joins while the tombstones are written would be deleted with the group.
            self._step(group_id, Deleted())

        def written(error: ErrorCode, _offset: int) -> None:
            if error is ErrorCode.NONE:
                for group_id, partition in offsets:
                    self.offsets.delete(group_id, partition)
            for group_id, group in before.items():
                if self.groups.get(group_id, group).state is GroupState.DEAD:
                    self.groups.pop(group_id, None)
                    if error is not ErrorCode.NONE:
                        self.groups[group_id] = group
            then(error)

        if records:
            self.log.write(records, written)
        else:
            written(ErrorCode.NONE, -1)


def _is_unmade(group: Group) -> bool:
    """Whether the group left no trace: whoever would have made it was refused, or only given a member id."""
    return (
        group.state is GroupState.EMPTY and not group.stored and group.generation == 0 and group.protocol_type is None
    )
