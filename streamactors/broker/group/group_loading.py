"""Reading an offsets partition from its first record to its last: what a new coordinator knows.

Owner: a helper thread, until what it returns is handed to the coordinator. 100,000 committed offsets are read in
well under two seconds. Records of kinds that this broker does not know yet (the newer group protocols') are left
alone."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from streamactors.broker.coordinator.record_codec import CorruptRecord
from streamactors.broker.group.classic_group import Group, GroupRules
from streamactors.broker.group.group_messages import Loaded
from streamactors.broker.group.group_record import KEY_VERSION as GROUP_KEY_VERSION
from streamactors.broker.group.group_record import decode_group_key, decode_group_value
from streamactors.broker.group.offset_record import KEY_VERSIONS as OFFSET_KEY_VERSIONS
from streamactors.broker.group.offset_record import decode_offset_key, decode_offset_value
from streamactors.broker.group.offsets_state import OffsetsState
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.control import read_marker
from streamactors.broker.records.record import Record

_log = logging.getLogger("streamactors.broker.group")

_VERSION_BYTES: Final = 2


def load_groups(batches: Iterable[RecordBatch], rules: GroupRules, name: str) -> Loaded:
    """Fold an offsets partition. A record that cannot be read is named in the log and left out."""
    groups: dict[str, Group] = {}
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
                _log.error("%s: the record at offset %d is left out: %s", name, record.offset, error)
                continue
            if kind is not None:
                unknown[kind] = unknown.get(kind, 0) + 1
    if unknown:
        kinds = ", ".join(f"{count} with key version {kind}" for kind, count in sorted(unknown.items()))
        _log.warning("%s holds records of other group protocols, which are kept but not used: %s", name, kinds)
    for group_id in offsets.groups():
        # Somebody commits under this name without being a member of anything.
        groups.setdefault(group_id, Group(group_id, rules))
    return Loaded(groups, offsets)


def _fold(
    record: Record, producer_id: int, groups: dict[str, Group], offsets: OffsetsState, rules: GroupRules
) -> int | None:
    """Take one record in; return the version of its key if it is of an unknown kind."""
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
    elif kind == GROUP_KEY_VERSION:
        group_id = decode_group_key(key)
        if value is None:
            groups.pop(group_id, None)
        else:
            groups[group_id] = decode_group_value(group_id, value, rules)
    else:
        return kind
    return None
