"""The records of `__share_group_state`: Kafka's ShareSnapshot and ShareUpdate (KIP-932).

Owner: the share coordinator. Key 0 is a snapshot, key 1 an update of it; both name the group, the topic id and the partition. A null
value of key 0 deletes the share partition."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple

from streamactors.broker.protocol.record_schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    TEXT,
    UUID,
    CorruptRecord,
    Field,
    Versioned,
    array,
    structure,
)
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.share.partition.in_flight import RecordState, StateBatch
from streamactors.broker.share.state.share_state import NO_COUNT, ShareKey, ShareState, ShareUpdate, Stored
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.share")

SNAPSHOT, UPDATE = 0, 1


class _Key(NamedTuple):
    group_id: Annotated[str, TEXT]
    topic_id: Annotated[uuid.UUID, UUID]
    partition: Annotated[int, INT32]


class _Batch(NamedTuple):
    first: Annotated[int, INT64]
    last: Annotated[int, INT64]
    state: Annotated[int, INT8]
    deliveries: Annotated[int, INT16]


class _Snapshot(NamedTuple):
    snapshot_epoch: Annotated[int, INT32]
    state_epoch: Annotated[int, INT32]
    leader_epoch: Annotated[int, INT32]
    start_offset: Annotated[int, INT64]
    created_ms: Annotated[int, INT64]
    written_ms: Annotated[int, INT64]
    batches: Annotated[Sequence[_Batch], array(structure(_Batch))]
    complete_count: Annotated[int, Field(INT32, tag=0)] = NO_COUNT


class _Update(NamedTuple):
    snapshot_epoch: Annotated[int, INT32]
    leader_epoch: Annotated[int, INT32]
    start_offset: Annotated[int, INT64]
    batches: Annotated[Sequence[_Batch], array(structure(_Batch))]
    complete_count: Annotated[int, Field(INT32, tag=0)] = NO_COUNT


# A key has the kind of its record where values have their version.
_KEY: Final = Versioned("a share partition's key", structure(_Key), highest=UPDATE)
_SNAPSHOT: Final = Versioned("a share partition's snapshot", structure(_Snapshot), highest=0, flexible_since=0)
_UPDATE: Final = Versioned("a share partition's update", structure(_Update), highest=0, flexible_since=0)

Record = tuple[bytes, bytes | None]


def snapshot_record(key: ShareKey, state: ShareState) -> Record:
    """Return the record of a whole state."""
    value = _Snapshot(
        state.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.created_ms,
        state.written_ms,
        [_Batch(*each) for each in state.batches],
        state.complete_count,
    )
    return _KEY.encode(_Key(*key), SNAPSHOT), _SNAPSHOT.encode(value, 0)


def update_record(key: ShareKey, update: ShareUpdate) -> Record:
    """Return the record of what has changed."""
    value = _Update(
        update.snapshot_epoch,
        update.leader_epoch,
        update.start_offset,
        [_Batch(*each) for each in update.batches],
        update.complete_count,
    )
    return _KEY.encode(_Key(*key), UPDATE), _UPDATE.encode(value, 0)


def tombstone(key: ShareKey) -> Record:
    """Return the record that deletes a share partition."""
    return _KEY.encode(_Key(*key), SNAPSHOT), None


def decode_share_record(key: bytes, value: bytes | None) -> tuple[ShareKey, ShareState | ShareUpdate | None] | None:
    """Return a share partition and its snapshot or update; None instead of it for a tombstone. Return None for a record of another kind.

    Raises CorruptRecord."""
    kind = int.from_bytes(key[:2], "big") if len(key) >= 2 else SNAPSHOT
    if kind > UPDATE:
        return None
    share_key = ShareKey(*_KEY.decode(key))
    if value is None:
        return share_key, None
    if kind == UPDATE:
        update = _UPDATE.decode(value)
        return share_key, ShareUpdate(
            update.snapshot_epoch,
            update.leader_epoch,
            update.start_offset,
            _states(update.batches),
            update.complete_count,
        )
    snapshot = _SNAPSHOT.decode(value)
    return share_key, ShareState(
        snapshot.snapshot_epoch,
        snapshot.state_epoch,
        snapshot.leader_epoch,
        snapshot.start_offset,
        _states(snapshot.batches),
        snapshot.complete_count,
        snapshot.created_ms,
        snapshot.written_ms,
    )


def _states(batches: Iterable[_Batch]) -> tuple[StateBatch, ...]:
    found = []
    for first, last, state, deliveries in batches:
        if state not in RecordState._value2member_map_ or last < first:
            raise CorruptRecord(f"offsets {first} to {last} have state {state}")
        found.append(StateBatch(first, last, RecordState(state), deliveries))
    return tuple(found)


class LoadedStates(NamedTuple):
    """What a partition of the topic holds: the states, and the offset of the last snapshot of each."""

    states: dict[ShareKey, Stored]
    snapshots: dict[ShareKey, int]


def load_states(batches: Iterable[RecordBatch], name: str) -> LoadedStates:
    """Fold a partition. An unreadable record is logged and skipped."""
    loaded = LoadedStates({}, {})
    for batch in batches:
        for record in batch.records() if batch.count and not batch.is_control else ():
            try:
                found = decode_share_record(record.key or b"", record.value)
            except CorruptRecord as error:
                log_limited(
                    _log, logging.ERROR, name,
                    "%s: the record at offset %d is left out: %s", name, record.offset, error,
                )  # fmt: skip
                continue
            if found is not None:
                _fold(loaded, *found, record.offset)
    return loaded


def _fold(loaded: LoadedStates, key: ShareKey, value: ShareState | ShareUpdate | None, offset: int) -> None:
    states, snapshots = loaded
    if value is None:
        states.pop(key, None)
        snapshots.pop(key, None)
    elif isinstance(value, ShareUpdate):
        states[key] = Stored.of_update(value, states.get(key))
        snapshots.setdefault(key, offset)
    else:
        states[key] = Stored.of_snapshot(value, states.get(key))
        snapshots[key] = offset
