"""Carries out what members of the classic protocol ask of a consumer group, and the change of a group's protocol.

Owner: `ConsumerKind`. The rules are in `classic_members.py` and `migration.py`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.broker.coordinator.coordinator_log import KeyValue
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.classic.classic_events import (
    JOIN_TIMER,
    SYNC_TIMER,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    SyncAnswer,
    SyncGroup,
)
from streamactors.broker.group.classic.classic_group import Group
from streamactors.broker.group.consumer import classic_members
from streamactors.broker.group.consumer.classic_members import Joined, MustJoinAgain
from streamactors.broker.group.consumer.consumer_events import Around
from streamactors.broker.group.consumer.consumer_group import ConsumerGroup, ConsumerMember
from streamactors.broker.group.consumer.consumer_messages import SessionExpired
from streamactors.broker.group.consumer.consumer_record import ConsumerRecord, encode
from streamactors.broker.group.consumer.consumer_state import remove_members
from streamactors.broker.group.consumer.migration import downgraded, may_downgrade, upgraded
from streamactors.broker.group.consumer.record_of import tombstones
from streamactors.broker.group.group_messages import ToGroup
from streamactors.broker.group.group_record import encode_group_key, encode_group_value

if TYPE_CHECKING:
    from streamactors.broker.group.consumer.consumer_kind import ConsumerKind
    from streamactors.broker.group.group_shard import GroupShard

_log = logging.getLogger("streamactors.broker.group")

Then = Callable[[ErrorCode], object]


class ClassicRequests:
    """Requests of the classic protocol to the consumer groups of a shard."""

    def __init__(self, shard: GroupShard, kind: ConsumerKind) -> None:
        self._shard = shard
        self._kind = kind

    def serve(self, group: ConsumerGroup, message: ToGroup) -> None:
        """Serve a request of a member."""
        event = message.event
        try:
            match event:
                case JoinGroup():
                    self._join(group, event)
                case SyncGroup():
                    self._sync(group, event)
                case Heartbeat():
                    self._heartbeat(group, event)
                case LeaveGroup():
                    self._leave(group, event)
        except MustJoinAgain as must:
            self._await_join(group.group_id, must.member)
            message.refuse(must.code)
        except Refusal as refusal:
            message.refuse(refusal.code)

    # -- requests ---------------------------------------------------------------------------------------------------

    def _join(self, group: ConsumerGroup, asked: JoinGroup) -> None:
        around = self._kind.around(group.group_id)
        joined = classic_members.join(group, asked, around)

        def then(error: ErrorCode) -> None:
            if error is ErrorCode.NONE and not joined.downgrades and joined.member is not None:
                self._joined(group.group_id, joined.member, asked)
            _reply(asked, joined.answer if error is ErrorCode.NONE else JoinAnswer(error, ""))

        if joined.member is None:
            then(ErrorCode.NONE)
        elif joined.downgrades:
            self._downgrade_with(group, joined, around, then)
        else:
            self._kind.carry_out(group.group_id, group, joined.decision, then, _refusing(asked))

    def _joined(self, group_id: str, member: ConsumerMember, asked: JoinGroup) -> None:
        expired = SessionExpired(member.member_id)
        self._shard.cancel_timer(group_id, f"join {member.member_id}")
        self._shard.set_timer(group_id, f"session {member.member_id}", asked.session_timeout_ms, expired)
        self._shard.set_timer(group_id, f"sync {member.member_id}", asked.rebalance_timeout_ms, expired)

    def _sync(self, group: ConsumerGroup, asked: SyncGroup) -> None:
        answer, member = classic_members.sync(group, asked, self._kind.around(group.group_id).image)

        def then(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._shard.cancel_timer(group.group_id, f"sync {member.member_id}")
                self._touch(group.group_id, member)
            _reply(asked, answer if error is ErrorCode.NONE else SyncAnswer(error))

        self._kind.when_written(group.group_id, then)

    def _heartbeat(self, group: ConsumerGroup, asked: Heartbeat) -> None:
        error, member = classic_members.heartbeat(group, asked)
        self._touch(group.group_id, member)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._await_join(group.group_id, member)
        self._kind.when_written(group.group_id, lambda failed: _reply(asked, HeartbeatAnswer(failed or error)))

    def _leave(self, group: ConsumerGroup, asked: LeaveGroup) -> None:
        gone, results = classic_members.leaving(group, asked)

        def then(error: ErrorCode) -> None:
            _reply(asked, LeaveAnswer(error, tuple(results) if error is ErrorCode.NONE else ()))

        if gone:
            self.remove(group, gone, then)
        else:
            then(ErrorCode.NONE)

    def _touch(self, group_id: str, member: ConsumerMember) -> None:
        if member.classic is not None:
            expired = SessionExpired(member.member_id)
            self._shard.set_timer(group_id, f"session {member.member_id}", member.classic.session_timeout_ms, expired)

    def _await_join(self, group_id: str, member: ConsumerMember) -> None:
        key = f"join {member.member_id}"
        if not self._shard.has_timer(group_id, key):
            self._shard.set_timer(group_id, key, member.rebalance_timeout_ms, SessionExpired(member.member_id))

    # -- changes of the protocol ------------------------------------------------------------------------------------

    def remove(self, group: ConsumerGroup, gone: Collection[ConsumerMember], then: Then) -> None:
        """Remove members. The group becomes a classic one if only members of the classic protocol are left."""
        around = self._kind.around(group.group_id)
        if may_downgrade(group, gone, around):
            classic = downgraded(group, gone, None, self._shard.classic.rules, around)
            self._become_classic(group, classic, [], {}, then, rebalance=True)
        else:
            self._kind.carry_out(group.group_id, group, remove_members(group, gone, around), then)

    def _downgrade_with(self, group: ConsumerGroup, joined: Joined, around: Around, then: Then) -> None:
        joining = joined.member
        assert joining is not None
        replaced = group.static_member(joining.instance_id)
        assert replaced is not None
        classic = downgraded(group, (), joining, self._shard.classic.rules, around)
        renamed = {replaced.member_id: joining.member_id}
        self._become_classic(group, classic, joined.decision.records, renamed, then, rebalance=joined.rebalances)

    def _become_classic(
        self,
        group: ConsumerGroup,
        classic: Group,
        first: Sequence[ConsumerRecord],
        renamed: Mapping[str, str],
        then: Then,
        *,
        rebalance: bool,
    ) -> None:
        group_id = group.group_id
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        records = [encode(record) for record in (*first, *tombstones(group, renamed))]
        records.append((encode_group_key(group_id), encode_group_value(classic, assignments)))
        for member_id in group.members:
            for key in ("session", "rebalance", "join", "sync"):
                self._shard.cancel_timer(group_id, f"{key} {member_id}")
        _log.info("group %s of %s is a classic group again", group_id, self._shard.name)
        self._kind.replace_group(group_id, classic, records, then)
        self._shard.classic.adopt(classic, rebalance=rebalance)

    def upgrade(self, group: Group, around: Around) -> tuple[ConsumerGroup, list[KeyValue], Callable[[], None]]:
        """Return the consumer group that a classic group becomes, the records, and what is to be done when it does. Raises Refusal."""
        made, records = upgraded(group, around)
        written = [(encode_group_key(group.group_id), None), *(encode(record) for record in records)]

        def done() -> None:
            _log.info("group %s of %s is a consumer group from now on", group.group_id, self._shard.name)
            for key in (JOIN_TIMER, SYNC_TIMER):
                self._shard.cancel_timer(group.group_id, key)
            for member in group.members.values():
                if member.join is not None:
                    _answer(member.join, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
                if member.sync is not None:
                    _answer(member.sync, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
                expired = SessionExpired(member.member_id)
                self._shard.set_timer(group.group_id, f"session {member.member_id}", member.session_timeout_ms, expired)

        return made, written, done


def _reply(asked: Any, answer: object) -> None:
    asked.reply_to(answer)


def _answer(parked: Any, answer: object) -> None:
    parked(answer)


def _refusing(asked: Any) -> Callable[[ErrorCode], object]:
    return lambda error: asked.reply_to(asked.refused(error))
