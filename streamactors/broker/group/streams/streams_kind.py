"""Runs streams groups for a shard: passes requests and timers to the state machine, and carries out its decisions.

Owner: `GroupShard`. A group changes when its machine decides; an answer waits for the log (`GroupWrites`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.coordinator.coordinator_log import KeyValue
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.classic.classic_group import Group, GroupState
from streamactors.broker.group.group_kind import GroupType
from streamactors.broker.group.group_messages import CommitOffsets
from streamactors.broker.group.group_record import encode_group_key
from streamactors.broker.group.group_writes import GroupWrites
from streamactors.broker.group.metadata_hash import metadata_hash
from streamactors.broker.group.streams.record_of import tombstones
from streamactors.broker.group.streams.streams_commit import check_commit, check_fetch
from streamactors.broker.group.streams.streams_events import (
    Around,
    Decision,
    FirstAssignmentTimer,
    MemberGone,
    RebalanceTimer,
    Remembered,
    SessionTimer,
    StreamsRules,
)
from streamactors.broker.group.streams.streams_fold import fold
from streamactors.broker.group.streams.streams_group import LEFT, STATIC_LEFT, MemberState, StreamsGroup
from streamactors.broker.group.streams.streams_heartbeat import first_assignment, heartbeat, leave, remove
from streamactors.broker.group.streams.streams_messages import (
    Described,
    DescribeStreamsGroup,
    FirstAssignmentDue,
    RebalanceExpired,
    SessionExpired,
    ToStreamsGroup,
)
from streamactors.broker.group.streams.streams_record import encode
from streamactors.broker.metadata.image import MetadataImage
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.broker.group.group_shard import GroupShard

_log = logging.getLogger("streamactors.broker.group")

_AGAIN_MS: Final = 500
"""When a timer whose records the log refused fires again."""

_FIRST: Final = "first assignment"


class StreamsKind:
    """The streams groups of one shard."""

    group_type: Final = GroupType.STREAMS

    def __init__(
        self, shard: GroupShard, image: Callable[[], MetadataImage], rules: Callable[[str], StreamsRules]
    ) -> None:
        self._shard = shard
        self._image = image
        self._rules = rules
        self._writes = GroupWrites(shard, fold, encode)
        self._known: dict[str, Remembered] = {}
        self.serves: Final[Mapping[type, Callable[[Any], object]]] = {
            ToStreamsGroup: self.to_group,
            DescribeStreamsGroup: self._describe,
        }

    # -- life -------------------------------------------------------------------------------------------------------

    def loaded(self, group_id: str) -> None:
        group = self._shard.groups[group_id]
        assert isinstance(group, StreamsGroup)
        rules, timers = self._rules(group_id), list[Any]()
        for member in group.members.values():
            timers.append(SessionTimer(member.member_id, rules.session_timeout_ms))
            if member.state is MemberState.UNREVOKED_TASKS:
                timers.append(RebalanceTimer(member.member_id, member.epoch, member.rebalance_timeout_ms))
        self._set_timers(group_id, timers)

    def resigned(self, group_id: str) -> None:
        pass  # the log answers the writes that requests wait for

    def deleted(self, group_id: str) -> None:
        # A member that joins now makes a new group, whose records are later in the log than the tombstones.
        self._shard.groups.pop(group_id, None)
        self._known.pop(group_id, None)

    def timer_due(self, group_id: str, event: Any) -> None:
        group = self._shard.groups[group_id]
        assert isinstance(group, StreamsGroup)
        if isinstance(event, FirstAssignmentDue):
            decision = first_assignment(group, self._remembered(group_id), self._around(group_id))
        else:
            member = group.members.get(event.member_id)
            if member is None or (isinstance(event, RebalanceExpired) and member.epoch != event.epoch):
                return
            silent = isinstance(event, SessionExpired)
            why = "its session has expired" if silent else f"it did not leave epoch {member.epoch} in time"
            _log.info("group %s of %s: member %s is removed: %s", group_id, self._shard.name, member.member_id, why)
            decision = remove(group, self._remembered(group_id), member)
        self._carry_out(group_id, group, decision, partial(self._timer_written, group_id, event))

    def _timer_written(self, group_id: str, event: Any, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            return
        log_limited(
            _log, logging.WARNING, (self._shard.name, group_id, error),
            "group %s of %s: %s is not written yet: %s", group_id, self._shard.name, type(event).__name__, error.name,
        )  # fmt: skip
        self._shard.set_timer(group_id, _timer_key(event), _AGAIN_MS, event)

    # -- requests ---------------------------------------------------------------------------------------------------

    def to_group(self, message: ToStreamsGroup) -> None:
        """Serve a heartbeat."""
        group_id, beat = message.group_id, message.beat
        leaves = beat.epoch in (LEFT, STATIC_LEFT)
        try:
            base, first = self._group_for(group_id, joins=beat.epoch == 0, leaves=leaves)
            # As in Apache Kafka, nothing is remembered of the heartbeat that makes the group.
            known = self._remembered(group_id) if group_id in self._shard.groups and not first else Remembered()
            decision = leave(base, known, beat) if leaves else heartbeat(base, known, beat, self._around(group_id))
        except Refusal as refusal:
            message.reply_to(refusal.code, refusal.message, None, ())
            return

        def then(error: ErrorCode) -> None:
            accepted = error is ErrorCode.NONE
            message.reply_to(error, None, decision.answer if accepted else None, decision.to_create)

        self._carry_out(group_id, base, decision, then, message.refuse, first)

    def _group_for(self, group_id: str, *, joins: bool, leaves: bool) -> tuple[StreamsGroup, Sequence[KeyValue]]:
        """Return the group of a heartbeat, and records that go before its own. Raises Refusal GROUP_ID_NOT_FOUND."""
        group = self._shard.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group, ()
        if group is None and not joins:
            why = f"Group {group_id} not found." if leaves else f"Streams group {group_id} not found."
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, why)
        if group is None:
            return StreamsGroup(group_id), ()
        if joins and isinstance(group, Group) and group.state is GroupState.EMPTY and not group.pending_joins:
            return StreamsGroup(group_id), [(encode_group_key(group_id), None)]
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")

    def _describe(self, message: DescribeStreamsGroup) -> None:
        group_id = message.group_id
        group = self._shard.visible(group_id)
        if isinstance(group, StreamsGroup):
            message.reply_to(Described(ErrorCode.NONE, None, group, self._remembered(group_id)))
            return
        why = f"Group {group_id} {'not found' if group is None else 'is not a streams group'}."
        message.reply_to(Described(ErrorCode.GROUP_ID_NOT_FOUND, why))

    # -- decisions --------------------------------------------------------------------------------------------------

    def _remembered(self, group_id: str) -> Remembered:
        return self._known.setdefault(group_id, Remembered())

    def _around(self, group_id: str) -> Around:
        image = self._image()

        def partitions_of(topic: str) -> int | None:
            found = image.topics.get(topic)
            return None if found is None else len(found.partitions)

        return Around(
            partitions_of,
            partial(metadata_hash, image),
            image.topics,
            self._shard.clock.wall_ms(),
            self._rules(group_id),
            self._shard.has_timer(group_id, _FIRST),
        )

    def _carry_out(
        self,
        group_id: str,
        base: StreamsGroup,
        decision: Decision,
        then: Callable[[ErrorCode], object],
        refuse: Callable[[ErrorCode], object] | None = None,
        first: Sequence[KeyValue] = (),
    ) -> None:
        self._writes.write(group_id, base, decision.records, then, refuse, first)
        after = self._shard.groups.get(group_id)
        if isinstance(after, StreamsGroup) and after.epoch != base.epoch:
            _log.info(
                "group %s of %s: %s, epoch %d, %d members",
                group_id, self._shard.name, after.state.value, after.epoch, len(after.members),
            )  # fmt: skip
        self._set_timers(group_id, decision.timers)

    def _set_timers(self, group_id: str, timers: Sequence[Any]) -> None:
        shard = self._shard
        for timer in timers:
            match timer:
                case FirstAssignmentTimer(delay_ms):
                    if not shard.has_timer(group_id, _FIRST):
                        shard.set_timer(group_id, _FIRST, delay_ms, FirstAssignmentDue())
                case SessionTimer(member_id, delay_ms):
                    expired = SessionExpired(member_id)
                    shard.set_timer(group_id, _timer_key(expired), delay_ms, expired)
                case RebalanceTimer(member_id, epoch, delay_ms):
                    late = RebalanceExpired(member_id, epoch)
                    if delay_ms is None:
                        shard.cancel_timer(group_id, _timer_key(late))
                    else:
                        shard.set_timer(group_id, _timer_key(late), delay_ms, late)
                case MemberGone(member_id):
                    shard.cancel_timer(group_id, _timer_key(SessionExpired(member_id)))
                    shard.cancel_timer(group_id, _timer_key(RebalanceExpired(member_id, 0)))

    # -- questions --------------------------------------------------------------------------------------------------

    def is_visible(self, group: StreamsGroup) -> bool:
        return True

    def is_unused(self, group: StreamsGroup) -> bool:
        return not group.members

    def is_gone(self, group: StreamsGroup) -> bool:
        return False

    def check_delete(self, group: StreamsGroup) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE

    def tombstones(self, group: StreamsGroup) -> Sequence[KeyValue]:
        return [encode(record) for record in tombstones(group)]

    # -- offsets ----------------------------------------------------------------------------------------------------

    def check_commit(self, group: StreamsGroup, commit: CommitOffsets) -> Sequence[ErrorCode]:
        return [check_commit(group, commit)] * len(commit.offsets)

    def committed(self, group: StreamsGroup, commit: CommitOffsets) -> None:
        pass  # a commit is no heartbeat

    def check_fetch(self, group: StreamsGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
        return check_fetch(group, member_id, member_epoch)

    def check_delete_offsets(self, group: StreamsGroup) -> ErrorCode:
        return ErrorCode.NONE

    def uses_topic(self, group: StreamsGroup, topic: str) -> bool:
        topology = group.topology
        return bool(group.members) and topology is not None and topology.subtopology_of(topic) is not None

    def kept_since(self, group: StreamsGroup, topic: str, committed_at_ms: int) -> int | None:
        return None if self.uses_topic(group, topic) else committed_at_ms


def _timer_key(event: Any) -> str:
    match event:
        case SessionExpired(member_id):
            return f"session {member_id}"
        case RebalanceExpired(member_id, _):
            return f"rebalance {member_id}"
        case _:
            return _FIRST
