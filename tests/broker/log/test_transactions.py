"""Transactions as one partition sees them: markers, last stable offset, aborted ranges, fencing, restarts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTransactionState,
    TransactionCoordinatorFenced,
)
from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.producers.producer_state import BatchMetadata, ProducerState
from streamactors.broker.log.segments.transaction_index import AbortedTransaction
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.control import build_marker
from streamactors.broker.records.record import NewRecord
from streamactors.broker.records.validation import AppendOrigin
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.transacting import MakeLog, Writer, committed_values


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(make_log: MakeLog) -> None:
    log = make_log()
    one, two = Writer(log, 1), Writer(log, 2)
    one.write(b"a")
    two.write(b"b")
    one.write(b"c")
    assert log.last_stable_offset == 0
    assert log.ongoing_transaction(1) == 0
    one.end(committed=True)
    assert log.last_stable_offset == 1
    assert log.ongoing_transaction(1) is None
    two.end(committed=False)
    assert log.last_stable_offset == log.end_offset == 5
    assert committed_values(log) == [b"a", b"c"]


def test_a_marker_that_is_not_replicated_yet_does_not_move_the_last_stable_offset(make_log: MakeLog) -> None:
    log = make_log()
    one = Writer(log, 1)
    one.write(b"a")
    marker = one.end(committed=True, replicated=False)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(marker)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(marker + 1)
    assert log.last_stable_offset == 2


def test_records_outside_a_transaction_are_stable_beside_an_open_one(make_log: MakeLog) -> None:
    log = make_log()
    one = Writer(log, 1)
    log.append_as_leader(memoryview(build_batch([NewRecord(None, b"plain", NOW_MS)])), 0, NOW_MS)
    one.write(b"a")
    assert log.last_stable_offset == 1
    assert committed_values(log) == [b"plain"]


def test_nothing_beyond_the_high_watermark_is_stable(make_log: MakeLog) -> None:
    log = make_log()
    for visible in (True, False):
        log.append_as_leader(memoryview(build_batch([NewRecord(None, b"plain", NOW_MS)])), 0, NOW_MS)
        if visible:
            log.advance_high_watermark(1)
    batch = build_batch(
        [NewRecord(b"k", b"v", NOW_MS)], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    log.append_as_leader(memoryview(batch), 0, NOW_MS)
    assert (log.first_unstable, log.high_watermark, log.last_stable_offset) == (2, 1, 1)


def test_an_aborted_transaction_has_its_offsets_and_the_last_stable_offset(make_log: MakeLog) -> None:
    log = make_log()
    one, two = Writer(log, 1), Writer(log, 2)
    one.write(b"a", b"b")
    two.write(b"c")
    one.write(b"d")
    one.end(committed=False)
    two.end(committed=False)
    assert log.reader.aborted_transactions(0, 100) == [
        AbortedTransaction(1, 0, 4, 2),
        AbortedTransaction(2, 2, 5, 6),
    ]
    assert log.reader.aborted_transactions(5, 100) == [AbortedTransaction(2, 2, 5, 6)]
    assert log.reader.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 4, 2)]


def test_an_empty_transaction_leaves_no_range(make_log: MakeLog) -> None:
    log = make_log()
    Writer(log, 1).end(committed=False)
    assert log.reader.aborted_transactions(0, 10) == []
    assert log.last_stable_offset == 1


def test_plain_writes_inside_an_open_transaction_are_refused(make_log: MakeLog) -> None:
    log = make_log()
    one = Writer(log, 1)
    one.write(b"a")
    with pytest.raises(InvalidTransactionState, match="began at offset 0"):
        one.write(b"b", transactional=False)
    assert log.end_offset == 1


def test_markers_fence_old_epochs_and_old_coordinators(make_log: MakeLog) -> None:
    log = make_log()
    one = Writer(log, 1)
    one.write(b"a")
    one.epoch = 3
    one.end(committed=False, coordinator_epoch=5)
    one.epoch = 2
    with pytest.raises(InvalidProducerEpoch, match="epoch 2 of producer 1 is older than 3"):
        one.write(b"b")
    with pytest.raises(InvalidProducerEpoch):
        one.end(committed=True, coordinator_epoch=5)
    one.epoch = 3
    with pytest.raises(TransactionCoordinatorFenced, match="coordinator epoch 4, the current one is 5"):
        one.end(committed=True, coordinator_epoch=4)
    one.sequence = 0
    assert one.write(b"c") == 2


def test_clients_cannot_write_markers(make_log: MakeLog) -> None:
    log = make_log()
    marker = build_marker(1, 0, committed=True, coordinator_epoch=0, timestamp_ms=0)
    with pytest.raises(InvalidRecord, match="control records"):
        log.append_as_leader(memoryview(marker), 0, NOW_MS)


def test_a_coordinator_writes_for_a_producer_without_sequences(make_log: MakeLog) -> None:
    # offsets committed in a transaction: written by the group coordinator with the producer's id and epoch
    log = make_log()
    for _ in range(2):
        batch = build_batch([NewRecord(b"k", b"v", NOW_MS)], producer_id=4, producer_epoch=1, transactional=True)
        log.append_as_leader(memoryview(batch), 0, NOW_MS, AppendOrigin.COORDINATOR)
    assert log.ongoing_transaction(4) == 0
    stale = build_batch([NewRecord(b"k", b"v", NOW_MS)], producer_id=4, producer_epoch=0, transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        log.append_as_leader(memoryview(stale), 0, NOW_MS, AppendOrigin.COORDINATOR)


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_remembers_open_and_aborted_transactions(
    make_log: MakeLog, reopen: Callable[..., PartitionLog], clean: bool
) -> None:
    log = make_log(segment_bytes=400)
    one, two, three = Writer(log, 1), Writer(log, 2), Writer(log, 3)
    three.write(b"kept open")
    for number in range(12):
        writer = (one, two)[number % 2]
        writer.write(b"%d" % number * 20)
        writer.end(committed=number % 3 == 0)
    assert len(log.segments) > 4
    aborted = log.reader.aborted_transactions(0, log.end_offset)
    assert len(aborted) == 8
    high_watermark = log.high_watermark
    if clean:
        log.close()
    again = reopen(
        log,
        Checkpoints(clean=clean, recovery_point=log.recovery_point if clean else 0, high_watermark=high_watermark),
    )
    assert again.reader.aborted_transactions(0, again.end_offset) == aborted
    assert again.last_stable_offset == 0
    assert again.ongoing_transaction(3) == 0
    three.log = again
    three.end(committed=True)
    assert again.last_stable_offset == again.end_offset
    assert committed_values(again) == [b"kept open", *(b"%d" % number * 20 for number in range(0, 12, 3))]


def test_truncation_reopens_a_transaction_whose_marker_goes(make_log: MakeLog) -> None:
    log = make_log()
    one = Writer(log, 1)
    one.write(b"a")
    marker = one.end(committed=False)
    log.truncation.truncate_to(marker, NOW_MS)
    assert log.reader.aborted_transactions(0, 10) == []
    assert log.ongoing_transaction(1) == 0
    assert log.last_stable_offset == 0


STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["write", "write", "commit", "abort", "plain", "high watermark"])),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_stable_and_aborted_against_a_plain_model(steps: list[tuple[int, str]]) -> None:
    state, offset, high_watermark = ProducerState(), 0, 0
    opened: dict[int, int] = {}
    finished: list[tuple[int, int]] = []
    aborted: list[tuple[int, int, int]] = []
    for producer, step in steps:
        if step == "write":
            state.append(producer, 0, BatchMetadata(0, 0, offset, offset, 0), True, 0)
            opened.setdefault(producer, offset)
            offset += 1
        elif step in ("commit", "abort"):
            found = state.append_marker(producer, 0, 0, step == "commit", offset, 0, 0)
            first = opened.pop(producer, None)
            if first is not None:
                finished.append((first, offset))
                if step == "abort":
                    aborted.append((producer, first, offset))
            assert (found is not None) == (first is not None and step == "abort")
            if found is not None:
                assert tuple(found)[:3] == aborted[-1]
                assert found.last_stable_offset == min(opened.values(), default=offset + 1)
            offset += 1
        elif step == "plain":
            offset += 1
        else:
            high_watermark = offset
            state.high_watermark_moved(high_watermark)
            finished = [(first, marker) for first, marker in finished if marker >= high_watermark]
        unstable = [*opened.values(), *(first for first, _ in finished)]
        assert state.first_unstable() == min(unstable, default=None)


def test_the_last_stable_offset_is_never_before_the_start_of_the_log(make_log: MakeLog) -> None:
    # DeleteRecords past the beginning of an open transaction: ListOffsets(latest, read_committed) answered an offset
    # below the log's start, where every fetch is OFFSET_OUT_OF_RANGE
    log = make_log()
    one = Writer(log, 1)
    one.write(b"a", b"b", b"c")
    log.trim.delete_records(2, NOW_MS)
    assert (log.log_start_offset, log.last_stable_offset) == (2, 2)
