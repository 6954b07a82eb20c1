"""Checks of requests that commit or fetch offsets of a consumer group.

Owner: the group coordinator. Pure. A member may commit with the epoch that it has. With an older one, which it had when it read the records, it may commit
partitions that it has owned since then. Source: KIP-848, KIP-1251; Apache Kafka's ConsumerGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.consumer.consumer_group import ConsumerGroup

if TYPE_CHECKING:
    from streamactors.broker.group.group_messages import CommitOffsets
    from streamactors.broker.metadata.image import MetadataImage

_KNOWS_EPOCHS: Final = 9
"""The version of OffsetCommit from which on the generation may be a member epoch."""

_TXN_KNOWS_EPOCHS: Final = 6
"""The version of TxnOffsetCommit from which on STALE_MEMBER_EPOCH is answered."""


def check_commit(group: ConsumerGroup, commit: CommitOffsets, image: MetadataImage) -> ErrorCode:
    """Return NONE if these offsets may be committed."""
    transactional = commit.producer_id >= 0
    epoch = commit.generation
    if epoch < 0 and not group.members:
        return ErrorCode.NONE  # an administrator, or a consumer with manual assignment
    if transactional and epoch == -1 and not commit.member_id and commit.instance_id is None:
        return ErrorCode.NONE  # a producer that does not say who reads
    member = group.members.get(commit.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    stale = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    if member.classic is None and not transactional and commit.version < _KNOWS_EPOCHS:
        return ErrorCode.UNSUPPORTED_VERSION
    if transactional:
        stale = ErrorCode.ILLEGAL_GENERATION if commit.version < _TXN_KNOWS_EPOCHS else stale
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch > member.epoch:
        return stale
    for offset in commit.offsets:
        topic = image.topics.get(offset.topic)
        since = None if topic is None else member.assignment_epoch(topic.topic_id, offset.partition)
        if since is None or epoch < since:
            return stale
    return ErrorCode.NONE


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Return NONE if a member, or a client that names none, may fetch offsets."""
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
