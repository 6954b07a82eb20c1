"""The coordinator actor of one offsets partition: one message at a time, in order.

Owner: the group component. The rules live in `classic_state.py` and `offsets_state.py`, what is done about them in
`group_shard.py` and `offset_requests.py`; here is only when: not before the partition has been read, not after it
went to another broker, and one append per turn."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from streamactors.actors.messages import ActorAddress, ActorTypeDispatcher
from streamactors.broker.coordinator.loading import LoadFailed
from streamactors.broker.coordinator.phase import Phase
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group import offset_requests
from streamactors.broker.group.group_messages import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    EndTransaction,
    FetchOffsets,
    Flush,
    ListGroups,
    Loaded,
    Request,
    Resign,
    Sweep,
    TimerDue,
    ToGroup,
    TopicsDeleted,
)
from streamactors.broker.group.group_shard import GroupShard
from streamactors.broker.group.refusal import refuse

_log = logging.getLogger("streamactors.broker.group")


class GroupCoordinatorActor(ActorTypeDispatcher):  # type: ignore[misc]
    """Owns the groups of one offsets partition."""

    def __init__(self, shard: GroupShard) -> None:
        super().__init__()
        self.shard = shard
        self.phase = Phase.LOADING
        self._deleted_topics: frozenset[str] = frozenset()  # while the partition was being read
        self._answers: Final[dict[type, Callable[..., object]]] = {
            ToGroup: shard.to_group,
            CommitOffsets: lambda message: offset_requests.commit_offsets(shard, message),
            FetchOffsets: lambda message: offset_requests.fetch_offsets(shard, message),
            DescribeGroups: self._describe,
            ListGroups: self._list,
            DeleteGroups: shard.delete_groups,
            DeleteOffsets: lambda message: offset_requests.delete_offsets(shard, message),
            EndTransaction: lambda message: offset_requests.end_transaction(shard, message),
        }

    def _serve(self, message: Request, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            self._answers[type(message)](message)
        else:
            refuse(message, self.phase.error)

    receiveMsg_ToGroup = _serve
    receiveMsg_CommitOffsets = _serve
    receiveMsg_FetchOffsets = _serve
    receiveMsg_DescribeGroups = _serve
    receiveMsg_ListGroups = _serve
    receiveMsg_DeleteGroups = _serve
    receiveMsg_DeleteOffsets = _serve
    receiveMsg_EndTransaction = _serve

    def receiveMsg_Flush(self, _message: Flush, _sender: ActorAddress | None) -> None:
        self.shard.log.flush()

    def receiveMsg_TimerDue(self, message: TimerDue, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            self.shard.timer_due(message)

    def receiveMsg_TopicsDeleted(self, message: TopicsDeleted, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            offset_requests.delete_topics(self.shard, message)
        else:
            self._deleted_topics |= message.topics

    def receiveMsg_Sweep(self, _message: Sweep, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            offset_requests.sweep(self.shard)

    def receiveMsg_Loaded(self, message: Loaded, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.LOADING:
            self.phase = Phase.ACTIVE
            self.shard.take_over(message)
            if self._deleted_topics:
                offset_requests.delete_topics(self.shard, TopicsDeleted(self._deleted_topics))

    def receiveMsg_LoadFailed(self, message: LoadFailed, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.LOADING:
            self.phase = Phase.FAILED
            _log.error("%s cannot be read, its groups are not available: %s", self.shard.name, message.error)

    def receiveMsg_Resign(self, _message: Resign, _sender: ActorAddress | None) -> None:
        if self.phase is Phase.ACTIVE:
            self.shard.log.flush()
            self.shard.resign()
        self.phase = Phase.RESIGNED

    def _describe(self, message: DescribeGroups) -> None:
        message.reply_to(ErrorCode.NONE, [self.shard.visible(group_id) for group_id in message.group_ids])

    def _list(self, message: ListGroups) -> None:
        seen = map(self.shard.visible, self.shard.groups)
        message.reply_to(ErrorCode.NONE, [group for group in seen if group is not None])
