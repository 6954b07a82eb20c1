"""Checks of requests that commit or fetch offsets of a streams group.

Owner: the group coordinator. Pure. With an older epoch a member may commit the source topics of tasks that it has had since then.
Source: KIP-1071, KIP-1251; Apache Kafka's StreamsGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.streams.streams_group import StreamsGroup

if TYPE_CHECKING:
    from streamactors.broker.group.group_messages import CommitOffsets

_KNOWS_EPOCHS: Final = 9
"""The version of OffsetCommit from which on the generation may be a member epoch."""

_TXN_KNOWS_EPOCHS: Final = 6
"""The version of TxnOffsetCommit from which on STALE_MEMBER_EPOCH is answered."""


def check_commit(group: StreamsGroup, commit: CommitOffsets) -> ErrorCode:
    """Return NONE if these offsets may be committed."""
    transactional = commit.producer_id >= 0
    epoch = commit.generation
    if epoch < 0 and not group.members:
        return ErrorCode.NONE  # an administrator
    if transactional and epoch == -1 and not commit.member_id and commit.instance_id is None:
        return ErrorCode.NONE  # a producer that does not say who reads
    member = group.members.get(commit.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not transactional and commit.version < _KNOWS_EPOCHS:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    old = transactional and commit.version < _TXN_KNOWS_EPOCHS
    stale = ErrorCode.ILLEGAL_GENERATION if old else ErrorCode.STALE_MEMBER_EPOCH
    if epoch > member.epoch or group.topology is None:
        return stale
    for offset in commit.offsets:
        name = group.topology.subtopology_of(offset.topic) or ""
        owned = (member.assigned, member.revoking)
        epochs = [
            each.active[name][offset.partition] for each in owned if offset.partition in each.active.get(name, {})
        ]
        if not epochs or epoch < epochs[0]:
            return stale
    return ErrorCode.NONE


def check_fetch(group: StreamsGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Return NONE if a member, or a client that names none, may fetch offsets."""
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH
