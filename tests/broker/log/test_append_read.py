"""Appending and reading: offsets, bounds, slices, the end of committed records, offsets by time and by epoch."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from streamactors.broker.errors import (
    InvalidRequest,
    OffsetOutOfRange,
    PolicyViolation,
)
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.partition.log_read import ListedOffset
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.record import NewRecord
from tests.broker.log.appending import append, values
from tests.broker.log.conftest import NOW_MS, MakeLog
from tests.broker.log.manual_pool import ManualPool


def test_offsets_count_up_over_batches_and_segments(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=300)
    assert [append(log, b"a", b"b"), append(log, b"c" * 200), append(log, b"d")] == [0, 2, 3]
    assert log.end_offset == 4
    assert len(log.segments) > 1
    assert sorted(path.name for path in log.directory.glob("*.log"))[0] == "00000000000000000000.log"


def test_a_read_inside_a_batch_begins_at_the_batch(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    assert values(log, 1) == [b"a", b"b", b"c", b"d"]
    assert values(log, 3) == [b"d"]


def test_the_first_batch_is_complete_even_above_the_limit_unless_min_one_is_false(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"x" * 500)
    append(log, b"y" * 500)
    assert values(log, 0, max_bytes=1) == [b"x" * 500]
    with log.read(0, 1, 2, min_one=False) as piece:
        assert (piece.length, piece.read()) == (0, b"")


def test_a_read_ends_at_whole_batches_within_the_size(make_log: MakeLog) -> None:
    log = make_log()
    for _ in range(50):
        append(log, b"v" * 100)
    size = log.size_bytes // 50
    for limit in range(size, 10 * size, 37):
        with log.read(7, limit, 50) as piece:
            assert 0 < piece.length <= limit
            assert piece.length % size == 0


def test_nothing_at_or_beyond_the_bound_is_read(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=400)
    for number in range(10):
        append(log, b"%d" % number * 50)
    for up_to in range(11):
        seen: list[bytes | None] = []
        offset = 0
        while offset < up_to:
            with log.read(offset, 1 << 20, up_to) as piece:
                batches = list(iter_batches(piece.read()))
            assert batches
            assert piece.end_offset == min(up_to, batches[-1].next_offset)
            seen += [record.value for batch in batches for record in batch.records()]
            offset = batches[-1].next_offset
        assert len(seen) == up_to
    with log.read(10, 1 << 20, 10) as piece:
        assert piece.length == 0


@pytest.mark.parametrize("offset", [-1, 4, 2**62])
def test_reading_outside_the_log_is_out_of_range(make_log: MakeLog, offset: int) -> None:
    log = make_log()
    append(log, b"a", b"b", b"c")
    with pytest.raises(OffsetOutOfRange, match=f"offset {offset} is outside the log, which has offsets 0 to 3"):
        log.read(offset, 100, 3)


def test_a_held_slice_outlives_the_segment_that_it_is_of(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200, file_delete_delay_ms=0)
    append(log, b"first" * 20)
    append(log, b"second" * 20)
    file = log.segments[0].log
    piece = log.read(0, 1 << 20, 2)
    log.trim.delete_records(1, NOW_MS)
    assert log.remove_condemned(NOW_MS) == 1
    assert not list(log.directory.glob("*.deleted"))
    assert os.pread(piece.fd, piece.length, piece.position) == piece.read()
    assert b"first" in piece.read()
    assert file.is_open
    piece.release()
    assert not file.is_open
    piece.release()


def test_idle_logs_hold_no_descriptor_and_come_back_when_used(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=250)
    for _ in range(4):
        append(log, b"v" * 150)
    with log.read(0, 1000, 4):
        assert log.close_idle() == 1
    assert log.close_idle() == 0
    assert not any(segment.log.is_open for segment in log.segments)
    assert values(log, 1) == [b"v" * 150]
    assert append(log, b"w") == 4


def test_a_read_that_finds_no_descriptor_holds_nothing(make_log: MakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    # The read held the file, and could not open it: nobody let go, and the file could never be closed again. A segment that was
    # deleted meanwhile kept its descriptor and its place on the disk.
    log = make_log()
    append(log, b"a")
    with log.read(0, 1000, 1):
        pass
    append(log, b"b")
    assert log.close_idle() == 0

    def none_left(path: Path, flags: int, mode: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    with monkeypatch.context() as patch, pytest.raises(OSError, match="Too many open files"):
        patch.setattr(os, "open", none_left)
        log.read(1, 1000, 2)
    assert values(log, 1) == [b"b"]
    assert log.close_idle() == 0


def test_the_high_watermark_only_grows_and_never_passes_the_end(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a", b"b")
    assert not log.advance_high_watermark(1)
    assert not log.advance_high_watermark(99)
    assert log.high_watermark == 2
    log.append_as_leader(memoryview(build_batch([NewRecord(b"k", b"c", NOW_MS)])), 0, NOW_MS)
    assert log.high_watermark == 2
    assert log.advance_high_watermark(99)
    assert log.high_watermark == 3


def test_a_tailing_reader_gets_every_record_once_over_rolls_and_truncations(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=500, index_interval_bytes=0)
    seen: list[bytes | None] = []
    offset = 0
    for number in range(60):
        append(log, b"%d" % number * 20)
        if number % 11 == 10:
            log.truncation.truncate_to(log.end_offset - 1, NOW_MS)
            append(log, b"again %d" % number)
        if number % 3 == 0:
            while offset < log.high_watermark:
                with log.read(offset, 400, log.high_watermark) as piece:
                    for batch in iter_batches(piece.read()):
                        assert batch.base_offset == offset
                        offset = batch.next_offset
                        seen += [record.value for record in batch.records()]
    expected = [b"again %d" % n if n % 11 == 10 else b"%d" % n * 20 for n in range(58)]
    assert seen == expected


def test_a_reader_below_the_end_goes_on_where_it_was(make_log: MakeLog) -> None:
    log = make_log(index_interval_bytes=0)
    for number in range(300):
        append(log, b"%d" % number)
    seen: list[bytes | None] = []
    offset = 0
    for up_to in (*range(1, 300), 300, 300):
        with log.read(offset, 1 << 20, up_to) as piece:
            for batch in iter_batches(piece.read()):
                offset = batch.next_offset
                seen += [record.value for record in batch.records()]
        assert offset == up_to
    assert seen == [b"%d" % number for number in range(300)]
    assert len(log.segment_list.boundaries) <= 64


def test_more_logs_than_descriptors_work_on(tmp_path: Path) -> None:
    disk, pool = Disk(max_open=4), ManualPool()
    logs = [
        PartitionLog.create(disk, tmp_path / f"t-{n}", "t", n, None, LogConfig(), pool=pool, now_ms=NOW_MS)
        for n in range(20)
    ]
    held = []
    for turn in range(5):
        for number, log in enumerate(logs):
            assert append(log, b"%d/%d" % (number, turn)) == turn
            if number % 7 == 0:
                held.append((log.read(turn, 100, turn + 1), b"%d/%d" % (number, turn)))
        assert len(disk.open_files) <= 4 + 3, "those that are held, and no more"
    for number, log in enumerate(logs):
        assert values(log, 0) == [b"%d/%d" % (number, turn) for turn in range(5)]
    for piece, value in held:
        assert value in os.pread(piece.fd, piece.length, piece.position)
        piece.release()
    for log in logs:
        log.abandon()
    assert len(disk.open_files) == 0


def test_offsets_are_listed_by_time(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=400, index_interval_bytes=0)
    for step in range(20):
        records = [NewRecord(None, b"v" * 30, NOW_MS - 1000 + 10 * step + part) for part in (0, 7, 3)]
        codec = Compression.LZ4 if step % 2 else Compression.NONE
        log.append_as_leader(memoryview(build_batch(records, compression=codec)), 2, NOW_MS)
    log.advance_high_watermark(60)
    assert len(log.segments) > 3
    times = [NOW_MS - 1000 + 10 * step + part for step in range(20) for part in (0, 7, 3)]
    for wanted in range(NOW_MS - 1005, NOW_MS - 1000 + 200):
        model = next(((offset, time) for offset, time in enumerate(times) if time >= wanted), None)
        listed = log.reader.list_offset(wanted, 60)
        assert listed == (ListedOffset(*model, 2) if model else ListedOffset(-1, -1, -1))
    assert log.reader.list_offset(times[30], 30) == ListedOffset(-1, -1, -1)


def test_special_timestamps(make_log: MakeLog) -> None:
    log = make_log()
    empty = ListedOffset(-1, -1, -1)
    assert [log.reader.list_offset(special, 0) for special in (-1, -2, -3, -4, -5)] == [
        ListedOffset(0, -1, -1),
        ListedOffset(0, -1, -1),
        empty,
        ListedOffset(0, -1, -1),
        empty,
    ]
    append(log, b"a", b"b", timestamp=NOW_MS - 5, epoch=1)
    append(log, b"c", timestamp=NOW_MS, epoch=2)
    append(log, b"d", timestamp=NOW_MS - 9, epoch=3)
    assert log.reader.list_offset(-1, 4) == ListedOffset(4, -1, 3)
    assert log.reader.list_offset(-2, 4) == ListedOffset(0, -1, 1)
    assert log.reader.list_offset(-3, 4) == ListedOffset(2, NOW_MS, 2)
    assert log.reader.list_offset(-3, 2) == ListedOffset(0, NOW_MS - 5, 1)
    log.trim.delete_records(2, NOW_MS)
    assert log.reader.list_offset(-2, 4) == ListedOffset(2, -1, 2)
    assert log.reader.list_offset(0, 4) == ListedOffset(2, NOW_MS, 2)
    with pytest.raises(InvalidRequest, match="timestamp -9"):
        log.reader.list_offset(-9, 4)


def test_epochs_end_where_the_next_one_begins(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a", epoch=2)
    append(log, b"b", b"c", epoch=5)
    assert log.epoch_end_offset(1) == (1, 0)
    assert log.epoch_end_offset(2) == (2, 1)
    assert log.epoch_end_offset(4) == (2, 1)
    assert log.epoch_end_offset(5) == (5, 3)
    assert log.epoch_end_offset(6) == (-1, -1)
    assert log.epoch_end_offset(-1) == (-1, -1)


def test_delete_records_has_bounds_and_needs_the_policy(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a", b"b", b"c")
    assert log.trim.delete_records(2, NOW_MS) == 2
    assert log.trim.delete_records(1, NOW_MS) == 2
    assert log.trim.delete_records(-1, NOW_MS) == 3
    for beyond in (4, -2):
        with pytest.raises(OffsetOutOfRange, match=f"before offset {beyond}"):
            log.trim.delete_records(beyond, NOW_MS)
    with pytest.raises(PolicyViolation, match=r"cleanup\.policy is compact"):
        make_log(topic="compacted", cleanup_policy=("compact",)).trim.delete_records(0, NOW_MS)


def test_closing_writes_the_indexes(make_log: MakeLog) -> None:
    log = make_log(index_interval_bytes=200)
    for number in range(6):
        append(log, b"v" * 60, timestamp=NOW_MS + number)
    log.close()
    size = (log.directory / f"{0:020d}.log").stat().st_size // 6
    index = (log.directory / f"{0:020d}.index").read_bytes()
    times = (log.directory / f"{0:020d}.timeindex").read_bytes()
    entries = [(2 * number, 2 * number * size) for number in (1, 2)]
    assert index == b"".join(struct.pack(">II", *entry) for entry in entries)
    assert times == b"".join(struct.pack(">qI", NOW_MS + number, number) for number in (2, 4, 5))


def test_a_log_that_begins_anew_at_a_higher_offset_knows_no_epoch_of_before(make_log: MakeLog) -> None:
    # A follower whose leader has deleted more than it has: with its old epochs it would be sent to where logs parted.
    log = make_log()
    append(log, b"a", epoch=3)
    append(log, b"b", epoch=4)
    log.truncation.truncate_fully_and_start_at(100, NOW_MS)
    assert (log.log_start_offset, log.end_offset, log.high_watermark, log.recovery_point) == (100, 100, 100, 0)
    assert log.latest_epoch == -1
    assert log.epoch_end_offset(3) == (-1, -1)
    append(log, b"c", epoch=5)
    assert log.epochs.entries == ((5, 100),)
