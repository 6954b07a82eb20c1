"""The groups and offsets of one offsets partition, of every kind.

Owner: the partition's coordinator actor. Each kind of group has a `GroupKind`, which runs its state machines; `offset_requests.py`
serves offsets. An offset changes when the log has acknowledged it. The clock, the timers and the log are parameters, so tests use a
virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.coordinator.coordinator_log import CoordinatorLog, KeyValue, Refuse, client_error
from streamactors.broker.coordinator.deadlines import Deadlines
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group import offset_requests
from streamactors.broker.group.classic.classic_group import GroupRules
from streamactors.broker.group.classic.classic_kind import ClassicKind
from streamactors.broker.group.consumer.consumer_kind import ConsumerKind
from streamactors.broker.group.consumer.consumer_surroundings import ConsumerSurroundings
from streamactors.broker.group.group_kind import CoordinatedGroup, GroupKind, GroupType
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
    TopicsDeleted,
    WriteMarker,
)
from streamactors.broker.group.offset_record import CommittedOffset, encode_offset_key
from streamactors.broker.group.offset_requests import OffsetRules
from streamactors.broker.group.offsets_state import OffsetsState, PartitionKey
from streamactors.broker.group.share.share_kind import ShareKind
from streamactors.broker.group.streams.streams_events import StreamsRules
from streamactors.broker.group.streams.streams_kind import StreamsKind
from streamactors.clock import Clock

if TYPE_CHECKING:
    from streamactors.actors.dispatching.real_time import Timers
    from streamactors.broker.group.share.share_kind import ShareNeeds


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
        tell: Callable[[Any], object],
        surroundings: ConsumerSurroundings,
        share: ShareNeeds | None = None,
        streams_rules: Callable[[str], StreamsRules] = lambda _: StreamsRules(),
    ) -> None:
        """`share` is what share groups need; without it their heartbeats are refused."""
        self.name = name
        self.log = log
        self.clock = clock
        self.offset_rules = offset_rules
        self.groups: dict[str, CoordinatedGroup] = {}
        self.offsets = OffsetsState()
        # offsets of deleted topics whose tombstones the log refused
        self.owed_tombstones: list[tuple[str, PartitionKey, CommittedOffset]] = []
        self._deadlines: Deadlines[tuple[str, str], object] = Deadlines(
            timers, timers.clock.now_ms, lambda key, event: tell(TimerDue(key[0], key[1], event))
        )
        self.tell: Callable[[object], object] = tell
        """Sends a message to the coordinator itself."""
        self.classic = ClassicKind(self, rules)
        self.consumer = ConsumerKind(self, surroundings, tell)
        self.share = ShareKind(self, share)
        self.streams = StreamsKind(self, surroundings.image, streams_rules)
        kinds: tuple[GroupKind, ...] = (self.classic, self.consumer, self.share, self.streams)
        self._kinds: Final[Mapping[GroupType, GroupKind]] = {each.group_type: each for each in kinds}
        self.serves: Final[Mapping[type, Callable[[Any], object]]] = {
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
            **{message: serve for kind in kinds for message, serve in kind.serves.items()},
        }

    # -- beginning and end ------------------------------------------------------------------------------------------

    def take_over(self, loaded: LoadedGroups) -> None:
        """Take over the groups and offsets of the log."""
        self.groups, self.offsets = loaded.groups, loaded.offsets
        for group_id, group in tuple(self.groups.items()):
            self.kind_of(group).loaded(group_id)

    def close(self) -> None:
        """Answer every parked request with NOT_COORDINATOR, and drop the state."""
        for group_id, group in tuple(self.groups.items()):
            self.kind_of(group).resigned(group_id)
        self.groups.clear()
        self.offsets = OffsetsState()
        self._deadlines.clear()

    # -- groups of any kind -----------------------------------------------------------------------------------------

    def kind_of(self, group: CoordinatedGroup) -> GroupKind:
        """Return what runs the groups of this kind."""
        return self._kinds[group.group_type]

    def timer_due(self, message: TimerDue) -> None:
        """Pass a timer to its group, unless the timer was set again while the message waited."""
        group = self.groups.get(message.group_id)
        if group is not None and (message.group_id, message.key) not in self._deadlines:
            self.kind_of(group).timer_due(message.group_id, message.event)

    def set_timer(self, group_id: str, key: str, delay_ms: float, event: object) -> None:
        """Pass `event` to the group after a time, unless the timer of this key is set again or cancelled before."""
        self._deadlines.set((group_id, key), delay_ms, event)

    def cancel_timer(self, group_id: str, key: str) -> None:
        """Cancel a timer, if it is set."""
        self._deadlines.cancel((group_id, key))

    def has_timer(self, group_id: str, key: str) -> bool:
        """Whether a timer is set."""
        return (group_id, key) in self._deadlines

    def group(self, group_id: str) -> CoordinatedGroup:
        """Return the group, or a new empty one for offsets of a client that is no member."""
        return self.groups.get(group_id) or self.classic.new_group(group_id)

    def visible(self, group_id: str) -> CoordinatedGroup | None:
        """Return the group if clients can see it."""
        group = self.groups.get(group_id)
        return None if group is None or not self.kind_of(group).is_visible(group) else group

    def _describe(self, message: DescribeGroups) -> None:
        message.reply_to(ErrorCode.NONE, [self.visible(group_id) for group_id in message.group_ids])

    def _list(self, message: ListGroups) -> None:
        seen = map(self.visible, self.groups)
        message.reply_to(ErrorCode.NONE, [group for group in seen if group is not None])

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
        return ErrorCode.GROUP_ID_NOT_FOUND if group is None else self.kind_of(group).check_delete(group)

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
            of_group = self.kind_of(before[group_id]).tombstones(before[group_id])
            offsets += [None] * len(of_group)
            records += of_group
            # The group must refuse members now: they would be deleted with it.
            self.kind_of(before[group_id]).deleted(group_id)

        def written(part: range) -> None:
            for deleted in offsets[part.start : part.stop]:
                if deleted is not None:
                    self.offsets.delete(*deleted)

        def ended(error: ErrorCode) -> None:
            for group_id, group in before.items():
                now = self.groups.get(group_id)
                if now is not None and not self.kind_of(now).is_gone(now):
                    continue  # a new group of this name
                self.groups.pop(group_id, None)
                if error is not ErrorCode.NONE:
                    self.groups[group_id] = group
            then(error)

        self.log.write_all(records, written, ended, refuse)
