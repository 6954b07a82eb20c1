"""Reads an offsets partition into the state of a new coordinator.

Owner: a helper thread, which passes the state to the coordinator. 100,000 committed offsets take well under two seconds.
`record_folds.py` has the records of groups. Records of group protocols that are not there are kept in the log and ignored."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from streamactors.broker.group.classic.classic_group import Group, GroupRules
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.group_messages import LoadedGroups
from streamactors.broker.group.offset_record import KEY_VERSIONS as OFFSET_KEY_VERSIONS
from streamactors.broker.group.offset_record import decode_offset_key, decode_offset_value
from streamactors.broker.group.offsets_state import OffsetsState
from streamactors.broker.group.record_folds import FOLDS
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.control import read_marker
from streamactors.broker.records.record import Record
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.group")

_VERSION_BYTES: Final = 2


def load_groups(batches: Iterable[RecordBatch], rules: GroupRules, name: str) -> LoadedGroups:
    """Fold an offsets partition. An unreadable record is logged and skipped."""
    groups: dict[str, CoordinatedGroup] = {}
    offsets = OffsetsState()
    unknown: dict[int, int] = {}
    for batch in batches:
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None:
                offsets.end_transaction(batch.producer_id, committed=marker.committed)
            continue
        producer_id = batch.producer_id if batch.is_transactional else -1
        for record in batch.records() if batch.count else ():
            try:
                kind = _fold(record, producer_id, groups, offsets, rules)
            except CorruptRecord as error:
                log_limited(
                    _log, logging.ERROR, name,
                    "%s: the record at offset %d is left out: %s", name, record.offset, error,
                )  # fmt: skip
                continue
            if kind is not None:
                unknown[kind] = unknown.get(kind, 0) + 1
    if unknown:
        kinds = ", ".join(f"{count} with key version {kind}" for kind, count in sorted(unknown.items()))
        _log.warning("%s has records of other group protocols, which are kept but not used: %s", name, kinds)
    for group_id in offsets.groups():
        # A client commits offsets for this group without being a member.
        groups.setdefault(group_id, Group(group_id, rules))
    return LoadedGroups(groups, offsets)


def _fold(
    record: Record, producer_id: int, groups: dict[str, CoordinatedGroup], offsets: OffsetsState, rules: GroupRules
) -> int | None:
    """Fold one record; return the version of its key if its kind is unknown."""
    key, value = record.key, record.value
    if key is None or len(key) < _VERSION_BYTES:
        raise CorruptRecord("it has no key")
    kind = int.from_bytes(key[:_VERSION_BYTES], "big", signed=True)
    if kind in OFFSET_KEY_VERSIONS:
        group_id, topic, partition = decode_offset_key(key)
        if value is None:
            offsets.delete(group_id, (topic, partition))
        else:
            offsets.put(group_id, (topic, partition), decode_offset_value(value, record.offset), producer_id)
    elif (fold := FOLDS.get(kind)) is not None:
        fold(groups, key, value, rules)
    else:
        return kind
    return None
