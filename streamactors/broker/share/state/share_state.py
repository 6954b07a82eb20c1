"""The stored state of one share partition, and how updates are merged into it. Pure.

Owner: the share coordinator. Source: KIP-932; the merge is that of Apache Kafka's PersisterStateBatchCombiner: where states overlap, the
one with more deliveries counts, then the higher state."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from streamactors.broker.share.partition.in_flight import RecordState, StateBatch

UNINITIALISED: Final = -1
"""Start offset of a share partition whose first offset is not decided yet."""
NO_COUNT: Final = -1


class ShareKey(NamedTuple):
    """A share partition: a group, and a partition of a topic."""

    group_id: str
    topic_id: uuid.UUID
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The string that decides which partition of `__share_group_state` has it: `group:topic id:partition`."""
        topic = base64.urlsafe_b64encode(self.topic_id.bytes).rstrip(b"=").decode()
        return f"{self.group_id}:{topic}:{self.partition}"

    @classmethod
    def of_coordinator_key(cls, text: str) -> ShareKey | None:
        """Return the share partition of a coordinator key, None if the string is none. A group id may have colons."""
        parts = text.rsplit(":", 2)
        if len(parts) < 3 or not parts[0].strip():
            return None
        try:
            topic = base64.b64decode(parts[1] + "==", altchars=b"-_", validate=True)
            return cls(parts[0], uuid.UUID(bytes=topic), int(parts[2]))
        except (ValueError, binascii.Error):
            return None


class ShareState(NamedTuple):
    """What a snapshot record holds. Times are wall-clock milliseconds."""

    snapshot_epoch: int
    state_epoch: int  # grows each time the group's offset is set anew
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...] = ()
    complete_count: int = NO_COUNT  # records from start_offset on that are done
    created_ms: int = -1
    written_ms: int = -1


class ShareUpdate(NamedTuple):
    """What an update record holds: the states that have changed. Start offset -1: it has not."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    complete_count: int = NO_COUNT


@dataclass(frozen=True, slots=True)
class Stored:
    """A share partition at its coordinator: the state, the highest epochs that were seen, and the updates since the last snapshot."""

    state: ShareState
    leader_epoch: int
    state_epoch: int
    updates: int = 0

    @property
    def is_used(self) -> bool:
        """Whether a leader has read the state or changed it since it was initialised."""
        state = self.state
        return bool(self.updates or state.leader_epoch or state.batches or state.complete_count > 0)

    @classmethod
    def of_snapshot(cls, state: ShareState, before: Stored | None) -> Stored:
        """Return what a snapshot makes of the state before it."""
        if before is None:
            return cls(state, state.leader_epoch, state.state_epoch)
        return cls(state, max(before.leader_epoch, state.leader_epoch), max(before.state_epoch, state.state_epoch))

    @classmethod
    def of_update(cls, update: ShareUpdate, before: Stored | None) -> Stored:
        """Return what an update makes of the state before it. Without a snapshot the update is all that is known."""
        if before is None:
            state = ShareState(
                update.snapshot_epoch,
                0,
                update.leader_epoch,
                update.start_offset,
                update.batches,
                update.complete_count,
            )
            return cls(state, update.leader_epoch, 0, 1)
        known = before.state
        start = known.start_offset if update.start_offset == UNINITIALISED else update.start_offset
        state = known._replace(
            start_offset=start,
            leader_epoch=known.leader_epoch if update.leader_epoch < 0 else update.leader_epoch,
            complete_count=update.complete_count,
            batches=merged(known.batches, update.batches, start),
        )
        return cls(state, max(before.leader_epoch, update.leader_epoch), before.state_epoch, before.updates + 1)


def merged(known: Sequence[StateBatch], new: Iterable[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Return the states from `start` on, without overlaps, in order. Neighbours with the same state become one."""
    batches = []
    for batch in (*known, *new):
        if start == UNINITIALISED or batch.first >= start:
            batches.append(batch)
        elif batch.last >= start:
            batches.append(batch._replace(first=start))
    return tuple(batches) if len(batches) < 2 else _swept(batches)


def _swept(batches: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    edges: dict[int, list[tuple[int, tuple[int, RecordState]]]] = {}
    for first, last, state, deliveries in batches:
        edges.setdefault(first, []).append((1, (deliveries, state)))
        edges.setdefault(last + 1, []).append((-1, (deliveries, state)))
    found: list[StateBatch] = []
    active: Counter[tuple[int, RecordState]] = Counter()
    winner, begun = None, 0
    for offset in sorted(edges):
        if winner is not None:
            deliveries, state = winner
            tail = found[-1] if found else None
            if tail is not None and tail.last + 1 == begun and tail[2:] == (state, deliveries):
                found[-1] = tail._replace(last=offset - 1)
            else:
                found.append(StateBatch(begun, offset - 1, state, deliveries))
        for change, rank in edges[offset]:
            active[rank] += change
            if not active[rank]:
                del active[rank]
        winner, begun = max(active, default=None), offset
    return tuple(found)
