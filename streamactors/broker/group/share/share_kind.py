"""Runs share groups for a shard: carries out the decisions of `share_rules`.

Owner: `GroupShard`. A decision counts for the next request at once, as in Apache Kafka; answers wait for the log (`group_writes.py`).
Share partitions are begun and forgotten by the share coordinator, which may be on another broker; its answer comes as a message."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.coordinator.coordinator_log import KeyValue
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.group_kind import GroupType
from streamactors.broker.group.group_messages import CommitOffsets
from streamactors.broker.group.group_writes import GroupWrites
from streamactors.broker.group.share import share_offsets
from streamactors.broker.group.share.share_group import Partitions, ShareGroup, TopicPartitions
from streamactors.broker.group.share.share_messages import (
    AlterShareOffsets,
    BeatAnswer,
    DeleteShareOffsets,
    SessionOver,
    ShareHeartbeat,
    ShareTopicsGone,
    StatesBegun,
    StatesDeleted,
)
from streamactors.broker.group.share.share_record import encode
from streamactors.broker.group.share.share_rules import (
    LEAVES,
    Begin,
    Decided,
    Facts,
    begun,
    heartbeat,
    leave,
    not_begun,
    set_states,
    tombstones,
    topics_gone,
)
from streamactors.broker.share.state.share_asks import Ask, DeleteState, InitializeState, Reply, StateAnswer
from streamactors.broker.share.state.share_state import ShareKey
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.broker.group.group_shard import GroupShard

_log = logging.getLogger("streamactors.broker.group")


_AGAIN_MS: Final = 500
"""When a session whose end the log refused ends again."""


@dataclass(frozen=True, slots=True)
class ShareGroupRules:
    """The settings of one share group: its own, or the broker's. Times in milliseconds."""

    session_ms: int = 45_000  # share.session.timeout.ms
    heartbeat_ms: int = 5_000  # share.heartbeat.interval.ms


@dataclass(frozen=True, slots=True)
class ShareNeeds:
    """What share groups need of their broker: the facts of now, the settings of a group, and the share coordinator."""

    facts: Callable[[str], Facts]
    rules: Callable[[str], ShareGroupRules]
    ask: Callable[[ShareKey, Ask, Reply], object]


class ShareKind:
    """The share groups of one shard."""

    group_type: Final = GroupType.SHARE

    def __init__(self, shard: GroupShard, needs: ShareNeeds | None) -> None:
        self._shard = shard
        self._writes = GroupWrites(shard, lambda decided, _records: decided, encode)
        self.needs = ShareNeeds(_no_facts, lambda _: ShareGroupRules(), _no_coordinator) if needs is None else needs
        self.serves: Final[Mapping[type, Callable[[Any], object]]] = {
            ShareHeartbeat: self._heartbeat,
            StatesBegun: self._states_begun,
            StatesDeleted: self._states_deleted,
            ShareTopicsGone: self._topics_gone,
            AlterShareOffsets: partial(share_offsets.alter, self),
            DeleteShareOffsets: partial(share_offsets.delete, self),
        }

    def tell(self, message: object) -> None:
        """Send a message to the coordinator itself."""
        self._shard.tell(message)

    def group(self, group_id: str) -> ShareGroup | None:
        """Return the share group, None if there is no group of this id. Raises Refusal if it has another kind."""
        group = self._shard.groups.get(group_id)
        if group is None or isinstance(group, ShareGroup):
            return group
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")

    # -- heartbeats -------------------------------------------------------------------------------------------------

    def _heartbeat(self, message: ShareHeartbeat) -> None:
        group_id, beat = message.group_id, message.beat
        try:
            group = self.group(group_id)
            if beat.epoch == LEAVES:
                self._leave(message, group)
                return
            if group is None and beat.epoch:
                raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
            decided = heartbeat(group or ShareGroup(group_id), beat, self.needs.facts(group_id))
        except Refusal as refusal:
            message.reply_to(BeatAnswer(refusal.code, refusal.message))
            return
        member = decided.member
        assert member is not None
        rules = self.needs.rules(group_id)
        self._shard.set_timer(
            group_id, f"share-session:{beat.member_id}", rules.session_ms, SessionOver(beat.member_id)
        )
        answer = BeatAnswer(
            member_id=member.member_id,
            epoch=member.epoch,
            heartbeat_ms=rules.heartbeat_ms,
            assignment=decided.assignment,
        )
        self.write(decided, partial(self._answer, message, answer, decided.begins), message.refuse)

    def _answer(self, message: ShareHeartbeat, answer: BeatAnswer, begins: Sequence[Begin], error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            message.reply_to(BeatAnswer(error))
            return
        message.reply_to(answer)
        if begins:
            self.begin(message.group_id, begins)

    def _leave(self, message: ShareHeartbeat, group: ShareGroup | None) -> None:
        member_id = message.beat.member_id
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {message.group_id} not found.")
        decided = leave(group, member_id, self.needs.facts(message.group_id))
        self._shard.cancel_timer(message.group_id, f"share-session:{member_id}")
        answer = BeatAnswer(member_id=member_id, epoch=LEAVES)
        self.write(decided, partial(self._answer, message, answer, ()), message.refuse)

    # -- share partitions -------------------------------------------------------------------------------------------

    def begin(
        self,
        group_id: str,
        begins: Iterable[Begin],
        then: Callable[[dict[tuple[uuid.UUID, int], StateAnswer]], object] | None = None,
    ) -> None:
        """Have the share coordinator begin share partitions. When all have answered, the group takes note, and `then` gets the answers."""
        left = list(begins)
        answers: dict[tuple[uuid.UUID, int], StateAnswer] = {}

        def answered(place: tuple[uuid.UUID, int], answer: StateAnswer) -> None:
            answers[place] = answer
            if len(answers) < len(left):
                return
            failed = [each for each in answers.values() if each.error]
            if failed:
                _log.error("share group %s: share partitions cannot be begun: %s", group_id, failed[0].message)
            self.tell(StatesBegun(group_id, _by_topic(answers), not failed))
            if then is not None:
                then(answers)

        for each in left:
            place = (each.topic_id, each.partition)
            key = ShareKey(group_id, *place)
            self.needs.ask(key, InitializeState(each.state_epoch, each.start_offset), partial(answered, place))

    def _states_begun(self, message: StatesBegun) -> None:
        group = self._shard.groups.get(message.group_id)
        if isinstance(group, ShareGroup):
            decide = begun if message.succeeded else not_begun
            self.write(decide(group, message.topics, self.needs.facts(message.group_id)))

    def forget(self, group_id: str, topics: Partitions, then: Callable[[], object] = lambda: None) -> None:
        """Have the share coordinator forget share partitions; `then` is called when all have answered."""
        places = [ShareKey(group_id, topic_id, each) for topic_id, found in topics.items() for each in sorted(found)]
        left = len(places)

        def answered(answer: StateAnswer) -> None:
            nonlocal left
            left -= 1
            if answer.error:
                _log.warning("share group %s: a share partition cannot be forgotten: %s", group_id, answer.message)
            if not left:
                then()

        for key in places:
            self.needs.ask(key, DeleteState(), answered)
        if not places:
            then()

    def _states_deleted(self, message: StatesDeleted) -> None:
        group = self._shard.groups.get(message.group_id)
        if isinstance(group, ShareGroup):
            deleting = {each: name for each, name in group.deleting.items() if each not in message.topic_ids}
            self.write(set_states(group, self.needs.facts(message.group_id), deleting=deleting))

    def _topics_gone(self, message: ShareTopicsGone) -> None:
        for group_id, group in tuple(self._shard.groups.items()):
            if isinstance(group, ShareGroup):
                self.write(topics_gone(group, message.topic_ids, self.needs.facts(group_id)))

    # -- the log ----------------------------------------------------------------------------------------------------

    def write(
        self,
        decided: Decided,
        then: Callable[[ErrorCode], object] = lambda error: None,
        refuse: Callable[[ErrorCode], object] | None = None,
    ) -> None:
        """Carry a decision out; `then` gets the outcome when its records are written."""
        group_id = decided.group.group_id
        if decided.records:
            self._writes.write(group_id, decided.group, decided.records, then, refuse)
        else:
            self._writes.when_written(group_id, then)

    # -- life -------------------------------------------------------------------------------------------------------

    def loaded(self, group_id: str) -> None:
        group = self._shard.groups[group_id]
        assert isinstance(group, ShareGroup)
        session_ms = self.needs.rules(group_id).session_ms
        for each in group.members:
            self._shard.set_timer(group_id, f"share-session:{each}", session_ms, SessionOver(each))

    def resigned(self, group_id: str) -> None:
        """Share groups park no requests."""

    def deleted(self, group_id: str) -> None:
        group = self._shard.groups.pop(group_id, None)
        if isinstance(group, ShareGroup):
            self.forget(group_id, _all_partitions(group))

    def timer_due(self, group_id: str, event: Any) -> None:
        group = self._shard.groups.get(group_id)
        if isinstance(group, ShareGroup) and isinstance(event, SessionOver) and event.member_id in group.members:
            _log.info("share group %s: member %s has sent no heartbeat and is removed", group_id, event.member_id)
            decided = leave(group, event.member_id, self.needs.facts(group_id))
            self.write(decided, partial(self._session_over, group_id, event))

    def _session_over(self, group_id: str, event: SessionOver, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            log_limited(
                _log, logging.WARNING, (self._shard.name, group_id, error),
                "share group %s: member %s is not removed yet: %s", group_id, event.member_id, error.name,
            )  # fmt: skip
            self._shard.set_timer(group_id, f"share-session:{event.member_id}", _AGAIN_MS, event)

    # -- questions --------------------------------------------------------------------------------------------------

    def is_visible(self, group: ShareGroup) -> bool:
        return True

    def is_unused(self, group: ShareGroup) -> bool:
        return False  # a share group stays until it is deleted

    def is_gone(self, group: ShareGroup) -> bool:
        return False

    def check_delete(self, group: ShareGroup) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE

    def tombstones(self, group: ShareGroup) -> Sequence[KeyValue]:
        return [encode(record) for record in tombstones(group)]

    # -- offsets: a share group commits none ------------------------------------------------------------------------

    def check_commit(self, group: ShareGroup, commit: CommitOffsets) -> Sequence[ErrorCode]:
        return [ErrorCode.GROUP_ID_NOT_FOUND] * len(commit.offsets)

    def committed(self, group: ShareGroup, commit: CommitOffsets) -> None:
        """No commit of a share group is accepted."""

    def check_fetch(self, group: ShareGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_delete_offsets(self, group: ShareGroup) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def uses_topic(self, group: ShareGroup, topic: str) -> bool:
        return topic in group.subscribed_topics

    def kept_since(self, group: ShareGroup, topic: str, committed_at_ms: int) -> int | None:
        return committed_at_ms


def _no_facts(group_id: str) -> Facts:
    raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"share group {group_id}: this coordinator has no share groups")


def _no_coordinator(_key: ShareKey, _ask: Ask, reply: Reply) -> None:
    reply(StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _by_topic(places: Iterable[tuple[uuid.UUID, int]]) -> dict[uuid.UUID, frozenset[int]]:
    topics: dict[uuid.UUID, set[int]] = {}
    for topic_id, partition in places:
        topics.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(found) for topic_id, found in topics.items()}


def _all_partitions(group: ShareGroup) -> dict[uuid.UUID, frozenset[int]]:
    found: dict[uuid.UUID, frozenset[int]] = {}
    known: Iterable[tuple[uuid.UUID, TopicPartitions]] = (*group.initialized.items(), *group.initializing.items())
    for topic_id, topic in known:
        found[topic_id] = found.get(topic_id, frozenset()) | topic.partitions
    return found
