"""The rules of the share coordinator, as Apache Kafka 4.4 has them; and the merge of states beside a model with one row per record."""

from __future__ import annotations

import uuid
from random import Random

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.share.partition.in_flight import RecordState, StateBatch
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
from streamactors.broker.share.state.share_state import ShareKey, Stored, merged
from streamactors.broker.share.state.share_state_record import decode_share_record
from streamactors.broker.share.state.share_state_rules import Decision, Known, decide, snapshot_of

E, S = ErrorCode, RecordState
KEY = ShareKey("g", uuid.UUID(int=7), 0)
KNOWN = Known(exists=True, now_ms=1000, updates_per_snapshot=3)


class Coordinator:
    """One share partition, decided request by request."""

    def __init__(self) -> None:
        self.stored: Stored | None = None
        self.written: list[Decision] = []

    def ask(self, ask: Ask, known: Known = KNOWN, key: ShareKey = KEY) -> StateAnswer:
        decision = decide(key, self.stored, ask, known)
        if decision.record is not None:
            self.stored = decision.after
            self.written.append(decision)
        return decision.answer


def _begun(state_epoch: int = 1, start: int = 0) -> Coordinator:
    coordinator = Coordinator()
    coordinator.ask(InitializeState(state_epoch, start))
    return coordinator


def _write(start: int, *batches: StateBatch, leader: int = 1, state: int = 1, count: int = 0) -> WriteState:
    return WriteState(state, leader, start, batches, count)


def test_a_share_partition_is_begun_with_a_snapshot_and_begun_anew_with_the_next_one() -> None:
    coordinator = _begun(2, -1)
    assert coordinator.stored is not None
    assert coordinator.stored.state[:4] == (0, 2, 0, -1)
    assert coordinator.stored.state.complete_count == -1
    coordinator.ask(InitializeState(3, 40))
    assert coordinator.stored.state[:4] == (1, 3, 0, 40)
    assert coordinator.stored.state.complete_count == 0
    assert [each.is_snapshot for each in coordinator.written] == [True, True]


def test_a_late_repetition_does_not_take_back_what_members_have_acknowledged() -> None:
    # Its answer was lost for thirty seconds, and another attempt had begun the share partition long before.
    coordinator = _begun(1, -1)
    assert coordinator.ask(InitializeState(1, -1)) == StateAnswer()
    assert len(coordinator.written) == 2, "nothing has read it: it is begun anew, as in Apache Kafka"
    coordinator.ask(ReadState(1))
    done = StateBatch(0, 9, RecordState.ACKNOWLEDGED, 1)
    coordinator.ask(_write(0, done, count=10))
    before = coordinator.stored
    assert coordinator.ask(InitializeState(1, -1)) == StateAnswer()
    assert (coordinator.stored, len(coordinator.written)) == (before, 4)
    assert coordinator.ask(InitializeState(2, 3)) == StateAnswer()
    assert coordinator.stored is not None
    assert coordinator.stored.state[:5] == (2, 2, 0, 3, ())


def test_an_offset_that_a_user_sets_counts_also_in_the_same_epoch() -> None:
    # An empty group keeps its epoch, so its offsets may be set twice in one; the second time was taken for a repetition.
    coordinator = _begun(1, 0)
    coordinator.ask(ReadState(1))
    coordinator.ask(_write(0, StateBatch(0, 9, RecordState.ACKNOWLEDGED, 1), count=10))
    assert coordinator.ask(InitializeState(1, 0)) == StateAnswer()
    assert coordinator.stored is not None
    assert (coordinator.stored.state.batches, coordinator.stored.state.complete_count) == ((), 0)


def test_a_leader_that_takes_over_is_written_down_once() -> None:
    coordinator = _begun(1, 5)
    for _ in range(2):
        assert coordinator.ask(ReadState(4)) == StateAnswer(state_epoch=1, start_offset=5)
    assert len(coordinator.written) == 2
    assert coordinator.ask(ReadState(3)).error is E.FENCED_LEADER_EPOCH
    assert coordinator.ask(_write(5, leader=3)).error is E.FENCED_LEADER_EPOCH


def test_writes_are_merged_and_the_start_offset_never_moves_back() -> None:
    coordinator = _begun()
    coordinator.ask(ReadState(1))
    coordinator.ask(_write(0, StateBatch(0, 9, S.ACKNOWLEDGED, 1), count=10))
    coordinator.ask(_write(6, StateBatch(10, 12, S.AVAILABLE, 2), count=4))
    coordinator.ask(_write(2, count=99))
    answer = coordinator.ask(ReadState(1))
    assert answer.start_offset == 6
    assert answer.batches == (StateBatch(6, 9, S.ACKNOWLEDGED, 1), StateBatch(10, 12, S.AVAILABLE, 2))
    assert coordinator.ask(ReadSummary()).complete_count == 4


def test_the_whole_state_is_written_after_the_agreed_number_of_updates() -> None:
    coordinator = _begun()
    for at in range(8):
        coordinator.ask(_write(0, StateBatch(at, at, S.ACKNOWLEDGED, 1)))
    assert [each.is_snapshot for each in coordinator.written] == [True, *[False] * 3, True, *[False] * 3, True]
    assert coordinator.stored is not None
    assert coordinator.stored.state.batches == (StateBatch(0, 7, S.ACKNOWLEDGED, 1),)


def test_what_is_written_gives_the_same_state_again() -> None:
    coordinator = _begun()
    random = Random(5)
    for _ in range(60):
        first = random.randint(0, 30)
        batch = StateBatch(
            first, first + random.randint(0, 5), random.choice((S.AVAILABLE, S.ACKNOWLEDGED)), random.randint(1, 3)
        )
        coordinator.ask(_write(random.randint(0, 8), batch, count=random.randint(0, 9)))
        replayed: Stored | None = None
        for each in coordinator.written:
            assert each.record is not None
            decoded = decode_share_record(*each.record)
            assert decoded is not None
            value = decoded[1]
            assert value is not None
            replayed = Stored.of_snapshot(value, replayed) if each.is_snapshot else Stored.of_update(value, replayed)  # type: ignore[arg-type]
        assert replayed == coordinator.stored


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (ReadState(0), "Read operation on uninitialized share partition not allowed."),
        (_write(0), "Write operation on uninitialized share partition not allowed."),
        (ReadState(-1), "The leader epoch cannot be a negative number."),
        (_write(0, leader=-1), "The leader epoch cannot be a negative number."),
        (_write(0, state=-1), "The state epoch cannot be a negative number."),
        (InitializeState(-1, 0), "The state epoch cannot be a negative number."),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_invalid_with_apaches_message(ask: Ask, message: str) -> None:
    assert Coordinator().ask(ask) == StateAnswer(E.INVALID_REQUEST, message)


@pytest.mark.parametrize("ask", [ReadState(0), _write(0), InitializeState(0, 0), DeleteState(), ReadSummary()])
def test_a_negative_partition_is_invalid(ask: Ask) -> None:
    answer = Coordinator().ask(ask, key=KEY._replace(partition=-1))
    assert answer == StateAnswer(E.INVALID_REQUEST, "The partition id cannot be a negative number.")


@pytest.mark.parametrize("ask", [ReadState(1), _write(0), InitializeState(1, 0), DeleteState(), ReadSummary()])
def test_a_partition_that_does_not_exist_is_unknown(ask: Ask) -> None:
    answer = _begun().ask(ask, Known(exists=False, now_ms=0))
    assert answer == StateAnswer(E.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def test_a_state_epoch_that_is_over_is_fenced() -> None:
    coordinator = _begun(5)
    assert coordinator.ask(_write(0, state=4)).error is E.FENCED_STATE_EPOCH
    assert coordinator.ask(InitializeState(4, 0)).error is E.FENCED_STATE_EPOCH


def test_a_deleted_share_partition_is_unknown_and_deleting_it_again_writes_nothing() -> None:
    coordinator = _begun()
    assert coordinator.ask(DeleteState()).error is E.NONE
    assert coordinator.stored is None
    assert coordinator.ask(DeleteState()).error is E.NONE
    assert len(coordinator.written) == 2
    assert coordinator.ask(ReadSummary()) == UNKNOWN


def test_a_snapshot_of_a_quiet_share_partition_keeps_when_it_was_made() -> None:
    coordinator = _begun()
    assert coordinator.stored is not None
    after = snapshot_of(KEY, coordinator.stored, 9000).after
    assert after is not None
    assert (after.state.snapshot_epoch, after.state.created_ms, after.state.written_ms) == (1, 1000, 9000)


def test_merged_states_equal_a_model_with_one_row_per_record() -> None:
    for seed in range(2000):
        random = Random(seed)
        known: tuple[StateBatch, ...] = ()
        rows: dict[int, tuple[int, S]] = {}
        start = 0
        for _ in range(6):
            new = []
            for _ in range(random.randint(0, 3)):
                first = random.randint(0, 20)
                new.append(
                    StateBatch(
                        first,
                        first + random.randint(0, 6),
                        random.choice((S.AVAILABLE, S.ACKNOWLEDGED, S.ARCHIVED)),
                        random.randint(1, 3),
                    )
                )
            start = max(start, random.randint(0, 12))
            known = merged(known, new, start)
            for first, last, state, deliveries in new:
                for at in range(first, last + 1):
                    rows[at] = max(rows.get(at, (0, S.AVAILABLE)), (deliveries, state))
            rows = {at: row for at, row in rows.items() if at >= start}
            single = {at: (each.deliveries, each.state) for each in known for at in range(each.first, each.last + 1)}
            assert single == rows, seed
            assert len(single) == sum(each.last - each.first + 1 for each in known), f"{seed}: an overlap"
