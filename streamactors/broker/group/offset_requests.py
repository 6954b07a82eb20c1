"""The requests of a coordinator about offsets: commit, fetch, delete, expire, and the end of transactions.

Owner: the coordinator actor of a partition; each function serves one type of message. A commit is answered and visible when the
log has acknowledged it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from streamactors.broker.config.setting import LONG_MAX
from streamactors.broker.coordinator.coordinator_log import (
    KeyValue,
    Refuse,
    client_error,
    transactional_batch,
)
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import (
    CommitOffsets,
    DeleteOffsets,
    FetchedOffset,
    FetchedOffsets,
    FetchOffsets,
    NewOffset,
    TopicsDeleted,
    WriteMarker,
)
from streamactors.broker.group.offset_record import (
    NO_EXPIRY,
    CommittedOffset,
    encode_offset_key,
    encode_offset_value,
)
from streamactors.broker.group.offsets_state import PartitionKey
from streamactors.broker.protocol.record_schema import too_long
from streamactors.broker.records.control import build_marker
from streamactors.broker.records.record import NewRecord
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.broker.group.group_shard import GroupShard

_log = logging.getLogger("streamactors.broker.group")


@dataclass(frozen=True, slots=True)
class OffsetRules:
    """The broker's settings for committed offsets."""

    retention_ms: int = 7 * 86_400_000
    metadata_max_bytes: int = 4_096


def commit_offsets(shard: GroupShard, commit: CommitOffsets) -> None:
    """Write offsets if the member may commit."""
    transactional = commit.producer_id >= 0
    group = shard.groups.get(commit.group_id)
    if group is None:
        # A request without a generation is from an administrator, or a consumer with manual assignment.
        error = ErrorCode.NONE if commit.generation < 0 else commit.unknown_group
        checked: Sequence[ErrorCode] = [error] * len(commit.offsets)
    else:
        checked = shard.kind_of(group).check_commit(group, commit)
    if ErrorCode.NONE in checked and not commit.still_open():
        checked = [ErrorCode.INVALID_TXN_STATE] * len(commit.offsets)
    if ErrorCode.NONE not in checked:
        commit.reply_to(checked)
        return
    if group is not None and not transactional:
        shard.kind_of(group).committed(group, commit)
    now_ms = shard.clock.wall_ms()
    expires_at_ms = NO_EXPIRY if commit.retention_ms < 0 else min(now_ms + commit.retention_ms, LONG_MAX)
    errors: list[ErrorCode] = []
    accepted: list[tuple[PartitionKey, CommittedOffset]] = []
    records: list[tuple[bytes, bytes | None]] = []
    for new, error in zip(commit.offsets, checked, strict=True):
        if error is not ErrorCode.NONE:
            errors.append(error)
            continue
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
    offsets = shard.offsets  # kept, because `shard.offsets` is replaced when the coordinator resigns
    offsets.announce(commit.group_id, partitions)

    def written(error: ErrorCode, base_offset: int) -> None:
        offsets.settle(commit.group_id, partitions)
        if error is ErrorCode.NONE:
            shard.groups.setdefault(commit.group_id, shard.group(commit.group_id))
            for at, (partition, offset) in enumerate(accepted, base_offset):
                offsets.put(commit.group_id, partition, CommittedOffset(*offset[:-1], at), commit.producer_id)
            commit.reply_to(errors)
        else:
            refused = client_error(error, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            commit.reply_to([each or refused for each in errors])

    if transactional:
        stamped = [NewRecord(key, value, now_ms) for key, value in records]
        shard.log.write_batch(
            transactional_batch(stamped, commit.producer_id, commit.producer_epoch), written, commit.refuse
        )
    else:
        shard.log.write(records, written, commit.refuse)


def _too_large(new: NewOffset, limit: int) -> bool:
    return len(new.metadata) > limit or too_long(new.metadata)


def fetch_offsets(shard: GroupShard, fetch: FetchOffsets) -> None:
    """Answer with committed offsets. An unknown group has none, without an error."""
    offsets, group_id = shard.offsets, fetch.group_id
    group = shard.groups.get(group_id)
    if group is not None:
        error = shard.kind_of(group).check_fetch(group, fetch.member_id, fetch.member_epoch)
        if error is not ErrorCode.NONE:
            fetch.refuse(error)
            return
    gone = group is not None and shard.kind_of(group).is_gone(group)
    known = {} if gone else offsets.of_group(group_id)
    wanted: Iterable[PartitionKey] = sorted(known) if fetch.partitions is None else fetch.partitions
    found = [
        FetchedOffset(*partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if fetch.require_stable and offsets.is_unstable(group_id, partition)
        else FetchedOffset(*partition, known.get(partition))
        for partition in wanted
    ]
    fetch.reply_to(FetchedOffsets(ErrorCode.NONE, found))


def delete_offsets(shard: GroupShard, delete: DeleteOffsets) -> None:
    """Delete single offsets, except those of topics that the group's members subscribe to."""
    group = shard.groups.get(delete.group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else shard.kind_of(group).check_delete_offsets(group)
    if group is None or error is not ErrorCode.NONE:
        delete.reply_to(error, ())
        return
    errors = [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if shard.kind_of(group).uses_topic(group, topic) else ErrorCode.NONE
        for topic, _ in delete.partitions
    ]
    existing = shard.offsets.partitions_of(delete.group_id)
    chosen = [
        (delete.group_id, partition)
        for partition, each in zip(delete.partitions, errors, strict=True)
        if each is ErrorCode.NONE and partition in existing
    ]
    _write_tombstones(shard, chosen, lambda failed: delete.reply_to(client_error(failed), errors), delete.refuse)


def delete_topics(shard: GroupShard, deleted: TopicsDeleted) -> None:
    """Delete all offsets of deleted topics: a new topic of the same name begins at offset 0."""
    _delete_topics_offsets(shard, list(shard.offsets.of_topics(deleted.topics)))


def _delete_topics_offsets(shard: GroupShard, offsets: Sequence[tuple[str, PartitionKey]]) -> None:
    def then(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            left = [(*each, found) for each in offsets if (found := shard.offsets.get(*each)) is not None]
            shard.owed_tombstones.extend(left)
            _log_remaining(shard.name, len(left), "offsets of deleted topics", error)

    _write_tombstones(shard, offsets, then)


def sweep(shard: GroupShard) -> None:
    """Delete offsets past their retention, and empty groups without offsets."""
    now_ms = shard.clock.wall_ms()
    owed, shard.owed_tombstones = shard.owed_tombstones, []
    # An offset committed since then belongs to a new topic of the same name and stays.
    unchanged = [(group_id, where) for group_id, where, found in owed if shard.offsets.get(group_id, where) == found]
    _delete_topics_offsets(shard, unchanged)
    empty: list[str] = []
    expired: list[tuple[str, PartitionKey]] = []
    for group_id, group in shard.groups.items():
        kind = shard.kind_of(group)
        kept_since = partial(kind.kept_since, group)
        gone = shard.offsets.expired(group_id, kept_since, now_ms, shard.offset_rules.retention_ms)
        unused = kind.is_unused(group) and shard.offsets.is_settled(group_id)
        if unused and len(gone) == len(shard.offsets.of_group(group_id)):
            empty.append(group_id)  # its offsets go with it
        else:
            expired.extend((group_id, partition) for partition in gone)
    _write_tombstones(shard, expired, partial(_expired, shard.name, len(expired), "offsets"))
    if empty:
        shard.remove(empty, partial(_expired, shard.name, len(empty), "groups"))


def _expired(name: str, count: int, kind: str, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        _log_remaining(name, count, f"expired {kind}", error)
    elif count:
        _log.info("%s: %d %s have expired", name, count, kind)


def _log_remaining(name: str, count: int, what: str, error: ErrorCode) -> None:
    """The partition is not in the cause: a broker that has too few replicas refuses the tombstones of all its partitions at once."""
    log_limited(
        _log, logging.WARNING, (what, error),
        "%s: %d %s remain (%s); the next sweep deletes them", name, count, what, error.name,
    )  # fmt: skip


def end_transaction(shard: GroupShard, end: WriteMarker) -> None:
    """Write the marker, then commit or drop the transaction's offsets."""
    if end.is_stale():
        end.reply_to(ErrorCode.INVALID_PRODUCER_EPOCH)
        return

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
    shard.log.write_batch(marker, written, end.refuse)


def _write_tombstones(
    shard: GroupShard,
    offsets: Sequence[tuple[str, PartitionKey]],
    then: Callable[[ErrorCode], object],
    refuse: Refuse | None = None,
) -> None:
    def written(part: range) -> None:
        for group_id, partition in offsets[part.start : part.stop]:
            shard.offsets.delete(group_id, partition)

    records: list[KeyValue] = [(encode_offset_key(group_id, *partition), None) for group_id, partition in offsets]
    shard.log.write_all(records, written, then, refuse)
