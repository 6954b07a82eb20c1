"""Idempotent producers: duplicates, order, epochs, wrapping, and what a restart remembers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from streamactors.broker.errors import InvalidProducerEpoch, OutOfOrderSequence
from streamactors.broker.log.partition.log_append import AppendResult
from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.producers.producer_snapshot import (
    decode_snapshot,
    encode_snapshot,
    load_snapshot,
    snapshot_offsets,
)
from streamactors.broker.log.producers.producer_state import ProducerEntry
from streamactors.broker.log.segments.segment_files import snapshot_path
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.header import MAX_SEQUENCE
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.quick_disk import QuickDisk

MakeLog = Callable[..., PartitionLog]


def send(log: PartitionLog, sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0) -> AppendResult:
    records = [NewRecord(None, b"%d" % (sequence + index), NOW_MS) for index in range(count)]
    batch = build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return log.append_as_leader(memoryview(batch), 0, NOW_MS)


def test_each_of_the_last_five_batches_is_a_duplicate_with_its_original_offset(make_log: MakeLog) -> None:
    log = make_log()
    for sequence in range(0, 16, 2):
        assert not send(log, sequence, 2).duplicate
    for sequence in range(6, 16, 2):
        again = send(log, sequence, 2)
        assert again.duplicate
        assert (again.base_offset, again.last_offset) == (sequence, sequence + 1)
    assert log.end_offset == 16
    with pytest.raises(OutOfOrderSequence, match="got 4, expected 16"):
        send(log, 4, 2)


def test_a_batch_that_only_overlaps_is_no_duplicate(make_log: MakeLog) -> None:
    log = make_log()
    send(log, 0, 3)
    with pytest.raises(OutOfOrderSequence):
        send(log, 0, 2)
    with pytest.raises(OutOfOrderSequence):
        send(log, 2, 2)


def test_a_gap_is_out_of_order_and_writes_nothing(make_log: MakeLog) -> None:
    log = make_log()
    send(log, 0)
    with pytest.raises(OutOfOrderSequence, match="producer 7: got 2, expected 1"):
        send(log, 2)
    assert log.end_offset == 1
    assert send(log, 1).base_offset == 1


def test_an_unknown_producer_may_begin_anywhere(make_log: MakeLog) -> None:
    log = make_log()
    assert send(log, 1234).base_offset == 0
    assert send(log, 1235).base_offset == 1


def test_sequences_wrap(make_log: MakeLog) -> None:
    log = make_log()
    send(log, MAX_SEQUENCE - 1, 2)
    assert send(log, 0).base_offset == 2
    log = make_log(topic="across")
    send(log, MAX_SEQUENCE, 3)
    with pytest.raises(OutOfOrderSequence, match="got 0, expected 2"):
        send(log, 0)
    assert send(log, 2).base_offset == 3


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(make_log: MakeLog) -> None:
    log = make_log()
    send(log, 0, 5)
    with pytest.raises(OutOfOrderSequence, match="new epoch 1 of producer 7: got 5"):
        send(log, 5, epoch=1)
    assert send(log, 0, epoch=1).base_offset == 5
    with pytest.raises(InvalidProducerEpoch, match="epoch 0 of producer 7 is older than 1"):
        send(log, 5)
    assert not send(log, 1, epoch=1).duplicate


def test_producers_do_not_disturb_each_other(make_log: MakeLog) -> None:
    log = make_log()
    for sequence in range(3):
        for producer in (1, 2, 3):
            send(log, sequence, producer=producer)
    assert send(log, 2, producer=2).duplicate
    assert [entry.last_sequence for entry in log.producers()] == [2, 2, 2]


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_remembers_the_producers(make_log: MakeLog, reopen: Callable[..., PartitionLog], clean: bool) -> None:
    log = make_log(segment_bytes=300)
    for sequence in range(9):
        send(log, sequence)
    assert len(log.segments) > 2
    if clean:
        log.close()
    again = reopen(log, Checkpoints(clean=clean, recovery_point=log.recovery_point if clean else 0))
    assert again.end_offset == 9
    # five requests may be in flight when a broker goes, and a client sends all of them again: after a segment was closed
    # behind the third of them the first was OUT_OF_ORDER_SEQUENCE_NUMBER, for snapshots had the last batch only
    assert [send(again, sequence).base_offset for sequence in range(4, 9)] == [4, 5, 6, 7, 8]
    assert again.end_offset == 9
    with pytest.raises(OutOfOrderSequence):
        send(again, 10)
    assert send(again, 9).base_offset == 9


def test_a_damaged_snapshot_is_replaced_by_reading_the_log(
    make_log: MakeLog, reopen: Callable[..., PartitionLog]
) -> None:
    log = make_log(segment_bytes=300)
    for sequence in range(9):
        send(log, sequence)
    log.close()
    for path in log.directory.glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    again = reopen(log, Checkpoints(clean=True, recovery_point=9))
    assert send(again, 8).duplicate
    assert send(again, 9).base_offset == 9


@pytest.mark.parametrize("how", ["delete-records", "delete-records within a segment", "retention"])
def test_a_kill_soon_after_records_were_deleted_makes_no_producer_unknown(
    make_log: MakeLog, reopen: Callable[..., PartitionLog], how: str
) -> None:
    # no checkpoint has been written since: that the records are gone was no accident, which the leader epochs tell
    log = make_log(segment_bytes=700)
    for sequence in range(12):
        send(log, sequence, epoch=5)
    log.advance_high_watermark(12)
    if how == "retention":
        log.update_config(dataclasses.replace(log.config, retention_bytes=0))
        log.trim.apply_retention(NOW_MS)
    else:
        log.trim.delete_records(12, NOW_MS)
    if how == "delete-records within a segment":
        send(log, 0, producer=8)
        send(log, 1, producer=8)
        log.advance_high_watermark(14)
        log.trim.delete_records(13, NOW_MS)
    [first] = log.segments
    assert first.base_offset == 12
    log = reopen(log)
    assert send(log, 11, epoch=5).duplicate
    with pytest.raises(InvalidProducerEpoch):
        send(log, 0, epoch=4)


def test_closing_and_rolling_leave_a_snapshot_of_the_producers(make_log: MakeLog) -> None:
    log = make_log()
    send(log, 0)
    log.roll(NOW_MS)
    send(log, 1)
    log.close()
    for offset in (1, 2):
        (entry,) = decode_snapshot((log.directory / f"{offset:020d}.snapshot").read_bytes())
        assert (entry.producer_id, entry.last_sequence, entry.last_offset) == (7, offset - 1, offset - 1)


def test_files_that_only_look_like_snapshots_are_left_alone(
    make_log: MakeLog, reopen: Callable[..., PartitionLog]
) -> None:
    log = make_log()
    send(log, 0)
    log.close()
    strangers = [log.directory / f"{name}.snapshot" for name in ("1", "²", "0" * 19 + "²", "notes")]
    for path in strangers:
        path.write_bytes(b"")
    again = reopen(log, Checkpoints(clean=True, recovery_point=1))
    assert send(again, 1).base_offset == 1
    assert all(path.exists() for path in strangers)


def test_truncation_takes_producer_state_back(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=300)
    for sequence in range(9):
        send(log, sequence)
    log.truncation.truncate_to(5, NOW_MS)
    with pytest.raises(OutOfOrderSequence, match="got 6, expected 5"):
        send(log, 6)
    assert send(log, 4).duplicate
    assert send(log, 5).base_offset == 5
    assert all(offset <= log.end_offset for offset in snapshot_offsets(log.disk, log.directory))


def test_silent_producers_are_forgotten_by_the_brokers_clock_not_by_their_timestamps(make_log: MakeLog) -> None:
    log = make_log()
    old = [NewRecord(None, b"from 2013", 1_370_000_000_000)]
    log.append_as_leader(memoryview(build_batch(old, producer_id=9, producer_epoch=0, base_sequence=0)), 0, NOW_MS)
    assert log.expire_producers(NOW_MS + 86_399_999, 86_400_000) == 0
    assert log.expire_producers(NOW_MS + 86_400_000, 86_400_000) == 1
    assert send(log, 77, producer=9).base_offset == 1


def test_a_snapshot_restores_the_producer_state(make_log: MakeLog) -> None:
    log = make_log()
    send(log, MAX_SEQUENCE - 1, 4, producer=2, epoch=3)
    send(log, 5, producer=1)
    send(log, 2, producer=2, epoch=3)
    send(log, 3, 2, producer=2, epoch=3)
    send(log, 0, 4, producer=3)
    entries = log.producers()
    again = decode_snapshot(encode_snapshot(entries))
    assert [(e.producer_id, e.producer_epoch, e.last_sequence, e.batches, e.last_timestamp) for e in again] == [
        (e.producer_id, e.producer_epoch, e.last_sequence, e.batches, e.last_timestamp) for e in entries
    ]
    assert [len(e.batches) for e in again] == [3, 1, 1]


def test_a_snapshot_of_apache_kafka_has_one_batch_of_each_producer(make_log: MakeLog) -> None:
    log = make_log()
    for sequence in range(3):
        send(log, sequence)
    [entry] = log.producers()
    for batch in list(entry.batches)[:-1]:
        entry.batches.remove(batch)
    [again] = decode_snapshot(encode_snapshot([entry]))
    assert [(batch.first_sequence, batch.first_offset) for batch in again.batches] == [(2, 2)]


def test_a_bad_batch_leaves_no_trace_in_the_producers_state(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy=("compact",))
    batch = build_batch([NewRecord(None, b"no key", NOW_MS)], producer_id=7, producer_epoch=0, base_sequence=0)
    with pytest.raises(Exception, match="key"):
        log.append_as_leader(memoryview(batch), 0, NOW_MS)
    assert log.producers() == []


def test_the_snapshot_that_is_loaded_is_the_latest_between_start_and_end(tmp_path: Path) -> None:
    disk = QuickDisk()
    for offset in (3, 5, 7, 9):
        entry = ProducerEntry(offset, 0)
        disk.write(snapshot_path(tmp_path, offset), encode_snapshot([entry]))

    def loaded(at_least: int, at_most: int) -> tuple[int, list[int]]:
        offset, entries = load_snapshot(disk, tmp_path, at_least=at_least, at_most=at_most)
        return offset, [entry.producer_id for entry in entries]

    assert loaded(0, 9) == (9, [9])
    assert loaded(0, 8) == (7, [7])
    assert loaded(5, 5) == (5, [5])
    assert loaded(8, 8) == (8, [])
    assert loaded(0, 2) == (0, [])
    snapshot_path(tmp_path, 7).write_bytes(b"damaged")
    assert loaded(0, 8) == (5, [5])
    assert snapshot_offsets(disk, tmp_path) == [3, 5, 9]


def test_a_snapshot_beyond_the_log_end_is_ignored(make_log: MakeLog, reopen: Callable[..., PartitionLog]) -> None:
    # A truncation whose removal of snapshots did not reach the disk: the later sequences must not count.
    log = make_log()
    for sequence in range(6):
        send(log, sequence)
    log.close()
    late = snapshot_path(log.directory, 6).read_bytes()
    log = reopen(log, Checkpoints(clean=True, recovery_point=6))
    log.truncation.truncate_to(4, NOW_MS)
    log.close()
    snapshot_path(log.directory, 6).write_bytes(late)
    log = reopen(log, Checkpoints(clean=True, recovery_point=4))
    assert send(log, 4).base_offset == 4


def test_the_checksum_of_a_snapshot_covers_what_follows_it() -> None:
    # version 1, the CRC-32C of four zero bytes (its published check value), and no entries: the format of Apache Kafka
    assert encode_snapshot([]) == bytes.fromhex("0001 48674bc7 00000000")
