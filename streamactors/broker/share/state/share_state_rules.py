"""What the share coordinator answers and writes for one request. Pure.

Rules, their order and messages: Apache Kafka's ShareCoordinatorShard. A request with an older leader epoch or state epoch than those that were
seen is fenced. After `updates_per_snapshot` updates the whole state is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.share.state.share_asks import (
    UNKNOWN,
    Ask,
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    StateAnswer,
    WriteState,
)
from streamactors.broker.share.state.share_state import (
    UNINITIALISED,
    ShareKey,
    ShareState,
    ShareUpdate,
    Stored,
    merged,
)
from streamactors.broker.share.state.share_state_record import Record, snapshot_record, tombstone, update_record

_MESSAGES: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.FENCED_STATE_EPOCH: (
        "The share coordinator rejected the request because the share-group state epoch did not match."
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}
_NEGATIVE_PARTITION: Final = "The partition id cannot be a negative number."
_NEGATIVE_LEADER: Final = "The leader epoch cannot be a negative number."
_NEGATIVE_STATE: Final = "The state epoch cannot be a negative number."


@dataclass(frozen=True, slots=True)
class Known:
    """What the rules know beside the request: whether the topic has the partition, the time and the setting."""

    exists: bool
    now_ms: int
    updates_per_snapshot: int = 500


class Decision(NamedTuple):
    """The answer, and for a change the record and the state after it. `after` is None for a deleted share partition."""

    answer: StateAnswer
    record: Record | None = None
    after: Stored | None = None
    is_snapshot: bool = False


def decide(key: ShareKey, stored: Stored | None, ask: Ask, known: Known) -> Decision:
    """Return the decision about one request."""
    return _RULES[type(ask)](key, stored, ask, known)


def snapshot_of(key: ShareKey, stored: Stored, now_ms: int) -> Decision:
    """Return the snapshot of a state that has not changed."""
    state = stored.state._replace(snapshot_epoch=stored.state.snapshot_epoch + 1, written_ms=now_ms)
    return _snapshot(key, state, stored, StateAnswer())


def _snapshot(key: ShareKey, state: ShareState, before: Stored | None, answer: StateAnswer) -> Decision:
    return Decision(answer, snapshot_record(key, state), Stored.of_snapshot(state, before), is_snapshot=True)


def _refused(error: ErrorCode, message: str | None = None) -> Decision:
    return Decision(StateAnswer(error, _MESSAGES.get(error) if message is None else message))


def _invalid(message: str) -> Decision:
    return _refused(ErrorCode.INVALID_REQUEST, message)


def _initialize(key: ShareKey, stored: Stored | None, ask: InitializeState, known: Known) -> Decision:
    if key.partition < 0:
        return _invalid(_NEGATIVE_PARTITION)
    if ask.state_epoch < 0:
        return _invalid(_NEGATIVE_STATE)
    if stored is not None and stored.state_epoch > ask.state_epoch:
        return _refused(ErrorCode.FENCED_STATE_EPOCH)
    if not known.exists:
        return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    repeats = stored is not None and stored.state_epoch == ask.state_epoch and stored.is_used
    if repeats and ask.start_offset == UNINITIALISED:
        # A request that was sent again because its answer was lost: members have acknowledged records meanwhile. One with an offset is a user's.
        return Decision(StateAnswer())
    state = ShareState(
        0 if stored is None else stored.state.snapshot_epoch + 1,
        ask.state_epoch,
        0,
        ask.start_offset,
        complete_count=-1 if ask.start_offset == UNINITIALISED else 0,
        created_ms=known.now_ms,
        written_ms=known.now_ms,
    )
    return _snapshot(key, state, stored, StateAnswer())


def _read(key: ShareKey, stored: Stored | None, ask: ReadState, known: Known) -> Decision:
    if key.partition < 0:
        return _invalid(_NEGATIVE_PARTITION)
    if ask.leader_epoch < 0:
        return _invalid(_NEGATIVE_LEADER)
    if stored is None:
        return _invalid("Read operation on uninitialized share partition not allowed.")
    if stored.leader_epoch > ask.leader_epoch:
        return _refused(ErrorCode.FENCED_LEADER_EPOCH)
    if not known.exists:
        return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    state = stored.state
    answer = StateAnswer(state_epoch=state.state_epoch, start_offset=state.start_offset, batches=state.batches)
    if stored.leader_epoch == ask.leader_epoch:
        return Decision(answer)
    taken = WriteState(state.state_epoch, ask.leader_epoch, state.start_offset, (), state.complete_count)
    return _written(key, stored, taken, ask.leader_epoch, answer, known)


def _write(key: ShareKey, stored: Stored | None, ask: WriteState, known: Known) -> Decision:
    if key.partition < 0:
        return _invalid(_NEGATIVE_PARTITION)
    if ask.leader_epoch < 0:
        return _invalid(_NEGATIVE_LEADER)
    if ask.state_epoch < 0:
        return _invalid(_NEGATIVE_STATE)
    if stored is None:
        return _invalid("Write operation on uninitialized share partition not allowed.")
    if stored.leader_epoch > ask.leader_epoch:
        return _refused(ErrorCode.FENCED_LEADER_EPOCH)
    if stored.state_epoch > ask.state_epoch:
        return _refused(ErrorCode.FENCED_STATE_EPOCH)
    if not known.exists:
        return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _written(key, stored, ask, stored.state.leader_epoch, StateAnswer(), known)


def _written(
    key: ShareKey, stored: Stored, ask: WriteState, leader_epoch: int, answer: StateAnswer, known: Known
) -> Decision:
    state = stored.state
    start = max(ask.start_offset, state.start_offset)
    count = ask.complete_count
    if ask.start_offset == state.start_offset:
        count = max(count, state.complete_count)
    elif ask.start_offset < state.start_offset:
        count = state.complete_count
    if stored.updates >= known.updates_per_snapshot:
        whole = ShareState(
            state.snapshot_epoch + 1, state.state_epoch, leader_epoch, start, merged(state.batches, ask.batches, start),
            count, known.now_ms, known.now_ms,
        )  # fmt: skip
        return _snapshot(key, whole, stored, answer)
    update = ShareUpdate(state.snapshot_epoch, leader_epoch, start, merged((), ask.batches, start), count)
    return Decision(answer, update_record(key, update), Stored.of_update(update, stored))


def _delete(key: ShareKey, stored: Stored | None, _ask: DeleteState, known: Known) -> Decision:
    if key.partition < 0:
        return _invalid(_NEGATIVE_PARTITION)
    if not known.exists:
        return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return Decision(StateAnswer()) if stored is None else Decision(StateAnswer(), tombstone(key))


def _summary(key: ShareKey, stored: Stored | None, _ask: ReadSummary, known: Known) -> Decision:
    if key.partition < 0:
        return _invalid(_NEGATIVE_PARTITION)
    if not known.exists:
        return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if stored is None:
        return Decision(UNKNOWN)
    state = stored.state
    return Decision(
        StateAnswer(
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            complete_count=state.complete_count,
        )
    )


# Each function takes the one request it is listed under.
_RULES: Final[dict[type, Callable[..., Decision]]] = {
    InitializeState: _initialize,
    ReadState: _read,
    WriteState: _write,
    DeleteState: _delete,
    ReadSummary: _summary,
}
