"""What a coordinator does with offsets: commit, fetch, delete, expire, and the end of transactions.

Owner: the coordinator actor of a partition; each function is one of its messages. An offset is answered, and seen
by anybody, once the log has acknowledged it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from streamactors.broker.config.setting import LONG_MAX
from streamactors.broker.coordinator.coordinator_log import client_error, transactional_batch
from streamactors.broker.coordinator.record_codec import too_long
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic_commit import check_commit, check_delete_offsets, session_touched
from streamactors.broker.group.classic_group import GroupState
from streamactors.broker.group.group_messages import (
    CommitOffsets,
    DeleteOffsets,
    EndTransaction,
    FetchedOffset,
    FetchedOffsets,
    FetchOffsets,
    NewOffset,
    TopicsDeleted,
)
from streamactors.broker.group.group_shard import GroupShard
from streamactors.broker.group.offset_record import (
    NO_EXPIRY,
    CommittedOffset,
    encode_offset_key,
    encode_offset_value,
)
from streamactors.broker.group.offsets_state import Partition
from streamactors.broker.group.subscription import is_subscribed
from streamactors.broker.records.control import build_marker
from streamactors.broker.records.record import NewRecord

_log = logging.getLogger("streamactors.broker.group")


def commit_offsets(shard: GroupShard, commit: CommitOffsets) -> None:
    """Write offsets down if the group lets this member commit."""
    transactional = commit.producer_id >= 0
    group = shard.groups.get(commit.group_id)
    if group is None:
        # Without a generation nobody claims to be a member: an administrator, or a consumer that assigns to itself.
        error = ErrorCode.NONE if commit.generation < 0 else commit.unknown_group
    else:
        error = check_commit(
            group, commit.member_id, commit.instance_id, commit.generation, transactional=transactional
        )
    if error is not ErrorCode.NONE:
        commit.reply_to([error] * len(commit.offsets))
        return
    if group is not None and not transactional:
        touched = session_touched(group, commit.member_id)
        if touched is not None:
            shard.set_timer(commit.group_id, touched)
    now_ms = shard.clock.wall_ms()
    expires_at_ms = NO_EXPIRY if commit.retention_ms < 0 else min(now_ms + commit.retention_ms, LONG_MAX)
    errors: list[ErrorCode] = []
    accepted: list[tuple[Partition, CommittedOffset]] = []
    records: list[tuple[bytes, bytes | None]] = []
    for new in commit.offsets:
        if _too_large(new, shard.offset_rules.metadata_max_bytes):
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        errors.append(ErrorCode.NONE)
        offset = CommittedOffset(new.offset, new.leader_epoch, new.metadata, now_ms, expires_at_ms)
        accepted.append(((new.topic, new.partition), offset))
        records.append((encode_offset_key(commit.group_id, new.topic, new.partition), encode_offset_value(offset)))
    if not records:
        commit.reply_to(errors)
        return

    partitions = [partition for partition, _ in accepted]
    offsets = shard.offsets  # these ones: after it has resigned the coordinator has others
    offsets.announce(commit.group_id, partitions)

    def written(error: ErrorCode, base_offset: int) -> None:
        offsets.settle(commit.group_id, partitions)
        if error is ErrorCode.NONE:
            shard.groups.setdefault(commit.group_id, shard.group(commit.group_id))
            for at, (partition, offset) in enumerate(accepted, base_offset):
                offsets.put(commit.group_id, partition, CommittedOffset(*offset[:-1], at), commit.producer_id)
            commit.reply_to(errors)
        else:
            heard = client_error(error, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            commit.reply_to([each or heard for each in errors])

    if transactional:
        stamped = [NewRecord(key, value, now_ms) for key, value in records]
        shard.log.write_batch(transactional_batch(stamped, commit.producer_id, commit.producer_epoch), written)
    else:
        shard.log.write(records, written)


def _too_large(new: NewOffset, limit: int) -> bool:
    return len(new.metadata) > limit or too_long(new.metadata)


def fetch_offsets(shard: GroupShard, fetch: FetchOffsets) -> None:
    """Answer with committed offsets. A group nobody knows has none, which is no error."""
    offsets, group_id = shard.offsets, fetch.group_id
    group = shard.groups.get(group_id)
    dead = group is not None and group.state is GroupState.DEAD
    known = {} if dead else offsets.of_group(group_id)
    wanted: Iterable[Partition] = sorted(known) if fetch.partitions is None else fetch.partitions
    found = [
        FetchedOffset(*partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if fetch.require_stable and offsets.is_unstable(group_id, partition)
        else FetchedOffset(*partition, known.get(partition))
        for partition in wanted
    ]
    fetch.reply_to(FetchedOffsets(ErrorCode.NONE, found))


def delete_offsets(shard: GroupShard, delete: DeleteOffsets) -> None:
    """Delete single offsets, except those of topics that the group's members still subscribe to."""
    group = shard.groups.get(delete.group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else check_delete_offsets(group)
    if group is None or error is not ErrorCode.NONE:
        delete.reply_to(error, ())
        return
    errors = [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed(group, topic) else ErrorCode.NONE
        for topic, _ in delete.partitions
    ]
    existing = shard.offsets.partitions_of(delete.group_id)
    chosen = [
        (delete.group_id, partition)
        for partition, each in zip(delete.partitions, errors, strict=True)
        if each is ErrorCode.NONE and partition in existing
    ]
    _write_tombstones(shard, chosen, lambda failed: delete.reply_to(client_error(failed), errors))


def delete_topics(shard: GroupShard, deleted: TopicsDeleted) -> None:
    """Delete every group's offsets of topics that are gone: a new topic of that name begins at 0 again."""
    _write_tombstones(shard, list(shard.offsets.of_topics(deleted.topics)), lambda _: None)


def sweep(shard: GroupShard) -> None:
    """Delete offsets past their retention, and empty groups that have none left."""
    now_ms = shard.clock.wall_ms()
    empty: list[str] = []
    expired: list[tuple[str, Partition]] = []
    for group_id, group in shard.groups.items():
        gone = shard.offsets.expired(group, now_ms, shard.offset_rules.retention_ms)
        unused = group.state is GroupState.EMPTY and not group.pending_joins and shard.offsets.is_settled(group_id)
        if unused and len(gone) == len(shard.offsets.of_group(group_id)):
            empty.append(group_id)  # its offsets go with it
        else:
            expired.extend((group_id, partition) for partition in gone)
    _write_tombstones(shard, expired, lambda _: None)
    if empty:
        shard.remove(empty, lambda _: None)
    if expired or empty:
        _log.info("%s: %d offsets and %d groups have expired", shard.name, len(expired), len(empty))


def end_transaction(shard: GroupShard, end: EndTransaction) -> None:
    """Write the marker; then the offsets that waited for it count, or are forgotten."""

    def written(error: ErrorCode, _offset: int) -> None:
        if error is ErrorCode.NONE:
            for group_id in shard.offsets.end_transaction(end.producer_id, committed=end.committed):
                shard.groups.setdefault(group_id, shard.group(group_id))
        end.reply_to(error)

    marker = build_marker(
        end.producer_id,
        end.producer_epoch,
        committed=end.committed,
        coordinator_epoch=end.coordinator_epoch,
        timestamp_ms=shard.clock.wall_ms(),
    )
    shard.log.write_batch(marker, written)


def _write_tombstones(
    shard: GroupShard, offsets: Sequence[tuple[str, Partition]], then: Callable[[ErrorCode], object]
) -> None:
    if not offsets:
        then(ErrorCode.NONE)
        return

    def written(error: ErrorCode, _offset: int) -> None:
        if error is ErrorCode.NONE:
            for group_id, partition in offsets:
                shard.offsets.delete(group_id, partition)
        then(error)

    records: list[tuple[bytes, bytes | None]] = [
        (encode_offset_key(group_id, *partition), None) for group_id, partition in offsets
    ]
    shard.log.write(records, written)
