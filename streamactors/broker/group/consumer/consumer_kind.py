"""Runs consumer groups for a shard: passes requests and timers to the state machine, and carries out its decisions.

Owner: `GroupShard`. A group changes when its machine decides; an answer waits for the log (`group_writes.py`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.coordinator.coordinator_log import KeyValue
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.classic.classic_group import Group, GroupState
from streamactors.broker.group.consumer.classic_requests import ClassicRequests
from streamactors.broker.group.consumer.consumer_commit import check_commit, check_fetch
from streamactors.broker.group.consumer.consumer_events import (
    Around,
    Decision,
    MemberGone,
    RebalanceTimer,
    SessionTimer,
)
from streamactors.broker.group.consumer.consumer_fold import fold
from streamactors.broker.group.consumer.consumer_group import (
    LEFT,
    STATIC_LEFT,
    ConsumerGroup,
    ConsumerGroupState,
    MemberState,
)
from streamactors.broker.group.consumer.consumer_messages import (
    RebalanceExpired,
    RegexesResolved,
    SessionExpired,
    ToConsumerGroup,
    TopicsChanged,
)
from streamactors.broker.group.consumer.consumer_record import encode
from streamactors.broker.group.consumer.consumer_state import JOIN, heartbeat, leave
from streamactors.broker.group.consumer.consumer_surroundings import ConsumerSurroundings
from streamactors.broker.group.consumer.migration import may_downgrade
from streamactors.broker.group.consumer.record_of import tombstones
from streamactors.broker.group.consumer.regexes import resolve, resolved
from streamactors.broker.group.group_kind import GroupType
from streamactors.broker.group.group_messages import CommitOffsets
from streamactors.broker.group.group_record import encode_group_key
from streamactors.broker.group.group_writes import GroupWrites
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.broker.group.group_shard import GroupShard

_log = logging.getLogger("streamactors.broker.group")

_AGAIN_MS: Final = 500
"""When a timer whose records the log refused fires again."""


class ConsumerKind:
    """The consumer groups of one shard."""

    group_type: Final = GroupType.CONSUMER

    def __init__(self, shard: GroupShard, surroundings: ConsumerSurroundings, tell: Callable[[Any], object]) -> None:
        self._shard = shard
        self._surroundings = surroundings
        self._tell = tell
        self._writes = GroupWrites(shard, fold, encode)
        self._newest_topics = 0
        self._resolving: set[str] = set()
        self.of_classic = ClassicRequests(shard, self)
        self.when_written: Final = self._writes.when_written
        self.replace_group: Final = self._writes.replace
        self.serves: Final[Mapping[type, Callable[[Any], object]]] = {
            ToConsumerGroup: self.to_group,
            RegexesResolved: self._resolved,
            TopicsChanged: self._topics_changed,
        }

    # -- life -------------------------------------------------------------------------------------------------------

    def loaded(self, group_id: str) -> None:
        group = self._shard.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        rules = self._surroundings.rules(group_id)
        timers: list[Any] = []
        for member in group.members.values():
            timers.append(SessionTimer(member.member_id, rules.session_timeout_ms))
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                timers.append(RebalanceTimer(member.member_id, member.epoch, member.rebalance_timeout_ms))
        self._set_timers(group_id, timers)

    def resigned(self, group_id: str) -> None:
        pass  # the log answers the writes that requests wait for

    def deleted(self, group_id: str) -> None:
        # A member that joins now makes a new group, whose records are later in the log than the tombstones.
        self._shard.groups.pop(group_id, None)

    def timer_due(self, group_id: str, event: Any) -> None:
        group = self._shard.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        if not isinstance(event, SessionExpired | RebalanceExpired):
            return  # of the classic group that it was
        member = group.members.get(event.member_id)
        if member is None:
            return
        if isinstance(event, RebalanceExpired):
            if member.epoch != event.epoch:
                return
            why = f"it did not leave epoch {event.epoch} within {member.rebalance_timeout_ms} ms"
        else:
            why = "its session has expired"
        _log.info("group %s of %s: member %s is removed: %s", group_id, self._shard.name, member.member_id, why)
        self.of_classic.remove(group, [member], partial(self._removed, group_id, event))

    def _removed(self, group_id: str, event: Any, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            log_limited(
                _log, logging.WARNING, (self._shard.name, group_id, error),
                "group %s of %s: member %s is not removed yet: %s", group_id, self._shard.name, event.member_id, error.name,
            )  # fmt: skip
            kind = "session" if isinstance(event, SessionExpired) else "rebalance"
            self._shard.set_timer(group_id, f"{kind} {event.member_id}", _AGAIN_MS, event)

    # -- requests ---------------------------------------------------------------------------------------------------

    def to_group(self, message: ToConsumerGroup) -> None:
        """Serve a heartbeat."""
        group_id, beat = message.group_id, message.beat
        leaves = beat.epoch in (LEFT, STATIC_LEFT)
        around = self.around(group_id)
        try:
            base, first, converted = self._group_for(group_id, around, joins=beat.epoch == JOIN, leaves=leaves)
            decision = leave(base, beat, around) if leaves else heartbeat(base, beat, around)
        except Refusal as refusal:
            message.reply_to(refusal.code, refusal.message, None)
            return

        def then(error: ErrorCode) -> None:
            message.reply_to(error, None, decision.answer if error is ErrorCode.NONE else None)

        if converted is not None:
            converted()
        if beat.epoch == LEFT:
            gone = base.members[beat.member_id]
            if may_downgrade(base, [gone], around):
                self.of_classic.remove(base, [gone], then)
                return
        self.carry_out(group_id, base, decision, then, message.refuse, first)
        if decision.resolve:
            self._resolve(group_id, decision.resolve, around, message.may_describe)

    def _group_for(
        self, group_id: str, around: Around, *, joins: bool, leaves: bool
    ) -> tuple[ConsumerGroup, Sequence[KeyValue], Callable[[], None] | None]:
        """Return the group of a heartbeat, records that go before its own, and what is to be done if it is accepted.

        Raises Refusal GROUP_ID_NOT_FOUND."""
        group = self._shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, (), None
        if group is None and not joins:
            why = f"Group {group_id} not found." if leaves else f"Consumer group {group_id} not found."
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, why)
        if group is None:
            return ConsumerGroup(group_id), (), None
        if joins and isinstance(group, Group) and group.state is GroupState.EMPTY and not group.pending_joins:
            return ConsumerGroup(group_id), [(encode_group_key(group_id), None)], None
        if joins and isinstance(group, Group) and group.state is not GroupState.DEAD:
            return self.of_classic.upgrade(group, around)
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    # -- decisions --------------------------------------------------------------------------------------------------

    def around(self, group_id: str) -> Around:
        """Return what a decision about a group depends on."""
        surroundings = self._surroundings
        return Around(
            surroundings.image(),
            self._shard.clock.wall_ms(),
            surroundings.rules(group_id),
            self._newest_topics,
            group_id in self._resolving,
        )

    def carry_out(
        self,
        group_id: str,
        base: ConsumerGroup,
        decision: Decision,
        then: Callable[[ErrorCode], object],
        refuse: Callable[[ErrorCode], object] | None = None,
        first: Sequence[KeyValue] = (),
    ) -> None:
        """Make a decision the state of the group, write its records, and set its timers. `then` is called when the log has answered."""
        self._writes.write(group_id, base, decision.records, then, refuse, first)
        after = self._shard.groups.get(group_id)
        if isinstance(after, ConsumerGroup):
            if after.is_checked != decision.is_checked:
                self._shard.groups[group_id] = replace(after, is_checked=decision.is_checked)
            if after.epoch != base.epoch:
                _log.info(
                    "group %s of %s: %s, epoch %d, %d members",
                    group_id, self._shard.name, after.state.value, after.epoch, len(after.members),
                )  # fmt: skip
        self._set_timers(group_id, decision.timers)

    def _set_timers(self, group_id: str, timers: Sequence[Any]) -> None:
        shard = self._shard
        for timer in timers:
            session, rebalance = f"session {timer.member_id}", f"rebalance {timer.member_id}"
            match timer:
                case SessionTimer(member_id, delay_ms):
                    shard.set_timer(group_id, session, delay_ms, SessionExpired(member_id))
                case RebalanceTimer(delay_ms=None):
                    shard.cancel_timer(group_id, rebalance)
                case RebalanceTimer(member_id, epoch, int(delay_ms)):
                    shard.set_timer(group_id, rebalance, delay_ms, RebalanceExpired(member_id, epoch))
                case MemberGone():
                    for key in (session, rebalance, f"join {timer.member_id}", f"sync {timer.member_id}"):
                        shard.cancel_timer(group_id, key)

    # -- metadata and regular expressions ---------------------------------------------------------------------------

    def _topics_changed(self, changed: TopicsChanged) -> None:
        self._newest_topics = max(self._newest_topics, changed.created_at)
        for group_id, group in self._shard.groups.items():
            if isinstance(group, ConsumerGroup) and group.is_checked and group.subscribed_topics & changed.names:
                self._shard.groups[group_id] = replace(group, is_checked=False)

    def _resolve(
        self, group_id: str, regexes: frozenset[str], around: Around, may_describe: Callable[[str], bool]
    ) -> None:
        self._resolving.add(group_id)
        image = around.image
        topics = tuple(image.topics)

        def work() -> Mapping[str, Any]:
            return resolve(regexes, topics, may_describe, max(image.offset, 0), around.now_ms)

        def done(outcome: Any) -> None:
            if outcome.error is not None:
                log_limited(
                    _log, logging.ERROR, (self._shard.name, group_id),
                    "group %s of %s: its regular expressions cannot be resolved: %s", group_id, self._shard.name, outcome.error,
                )  # fmt: skip
            self._tell(RegexesResolved(group_id, outcome.value))

        self._surroundings.run(work, done)

    def _resolved(self, message: RegexesResolved) -> None:
        self._resolving.discard(message.group_id)
        group = self._shard.groups.get(message.group_id)
        if message.found is None or not isinstance(group, ConsumerGroup):
            return
        decision = resolved(group, message.found, self.around(message.group_id))
        self.carry_out(message.group_id, group, decision, lambda _: None)

    # -- questions --------------------------------------------------------------------------------------------------

    def is_visible(self, group: ConsumerGroup) -> bool:
        return True

    def is_unused(self, group: ConsumerGroup) -> bool:
        return not group.members

    def is_gone(self, group: ConsumerGroup) -> bool:
        return False

    def check_delete(self, group: ConsumerGroup) -> ErrorCode:
        return ErrorCode.NONE if group.state is ConsumerGroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def tombstones(self, group: ConsumerGroup) -> Sequence[KeyValue]:
        return [encode(record) for record in tombstones(group)]

    # -- offsets ----------------------------------------------------------------------------------------------------

    def check_commit(self, group: ConsumerGroup, commit: CommitOffsets) -> Sequence[ErrorCode]:
        return [check_commit(group, commit, self._surroundings.image())] * len(commit.offsets)

    def committed(self, group: ConsumerGroup, commit: CommitOffsets) -> None:
        pass  # a commit is no heartbeat

    def check_fetch(self, group: ConsumerGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
        return check_fetch(group, member_id, member_epoch)

    def check_delete_offsets(self, group: ConsumerGroup) -> ErrorCode:
        return ErrorCode.NONE

    def uses_topic(self, group: ConsumerGroup, topic: str) -> bool:
        return topic in group.subscribed_topics

    def kept_since(self, group: ConsumerGroup, topic: str, committed_at_ms: int) -> int | None:
        return None if topic in group.subscribed_topics else committed_at_ms
