"""Offsets by time, and headers that lie about their times."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from streamactors.broker.errors import InvalidTimestamp
from streamactors.broker.log.partition import log_read
from streamactors.broker.log.partition.log_read import MAX_TIMESTAMP, NOTHING_LISTED, ListedOffset
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.builder import assemble, build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.header import seal
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS

MakeLog = Callable[..., PartitionLog]
BASE_AT, MAX_AT = 27, 35
LAST_TIME = 2**63 - 1


def lying(*timestamps: int, **header: int) -> memoryview:
    """A batch whose header says other times than its records."""
    raw = build_batch([NewRecord(None, b"a", timestamp) for timestamp in timestamps])
    for name, value in header.items():
        at = {"base": BASE_AT, "greatest": MAX_AT}[name]
        raw[at : at + 8] = value.to_bytes(8, "big", signed=True)
    seal(raw)
    return memoryview(raw)


def test_a_greatest_timestamp_that_lies_in_the_future_is_corrected(make_log: MakeLog) -> None:
    # believed, it would keep the segment forever, and hide its records from who asks by time
    log = make_log()
    log.append_as_leader(lying(NOW_MS - 5, NOW_MS - 9, greatest=LAST_TIME), 0, NOW_MS)
    log.append_as_leader(lying(NOW_MS, greatest=-1), 0, NOW_MS)
    assert log.active.greatest == (NOW_MS, 2)
    for batch, greatest in zip(log.reader.replay(0, 3), (NOW_MS - 5, NOW_MS), strict=True):
        batch.ensure_valid()
        assert batch.max_timestamp == greatest
    assert log.reader.list_offset(MAX_TIMESTAMP, 3) == ListedOffset(2, NOW_MS, 0)
    assert log.reader.list_offset(NOW_MS - 7, 3) == ListedOffset(0, NOW_MS - 5, 0)


@pytest.mark.parametrize("base", [NOW_MS + 3_600_001, LAST_TIME])
def test_a_base_timestamp_in_the_future_is_refused_whatever_the_greatest_says(make_log: MakeLog, base: int) -> None:
    log = make_log()
    with pytest.raises(InvalidTimestamp) as caught:
        log.append_as_leader(lying(NOW_MS, base=base, greatest=NOW_MS), 0, NOW_MS)
    assert [error.batch_index for error in caught.value.record_errors] == [0]
    assert log.end_offset == 0


def test_a_record_beyond_all_times_is_not_listed(make_log: MakeLog) -> None:
    log = make_log()  # the header is right, so the record is not looked at when it is appended
    log.append_as_leader(lying(0, LAST_TIME, base=NOW_MS, greatest=NOW_MS), 0, NOW_MS)
    assert log.reader.list_offset(MAX_TIMESTAMP, 2) == ListedOffset(0, NOW_MS, 0)
    log.append_as_leader(lying(0, LAST_TIME, base=5, greatest=NOW_MS), 0, NOW_MS)
    assert log.reader.list_offset(NOW_MS, 4) == ListedOffset(0, NOW_MS, 0)
    log.trim.advance_log_start(2, NOW_MS)
    assert log.reader.list_offset(NOW_MS, 4) == NOTHING_LISTED


def at_times(*timestamps: int) -> memoryview:
    return memoryview(build_batch([NewRecord(None, b"a", timestamp) for timestamp in timestamps]))


def test_the_greatest_timestamp_is_that_of_the_records_from_the_log_start_on(make_log: MakeLog) -> None:
    log = make_log()
    log.append_as_leader(at_times(10, 30, 20, 15), 0, NOW_MS)
    log.append_as_leader(at_times(5, 25), 0, NOW_MS)
    found = []
    for start in range(7):
        log.trim.advance_log_start(start, NOW_MS)
        found.append(log.reader.list_offset(MAX_TIMESTAMP, 6))
    first, second, last = ListedOffset(1, 30, 0), ListedOffset(5, 25, 0), NOTHING_LISTED
    assert found == [first, first, second, second, second, second, last]


def test_the_greatest_timestamp_of_a_batch_that_begins_before_the_log_start(make_log: MakeLog) -> None:
    log = make_log()
    log.append_as_leader(at_times(50, 30, 40, 40), 0, NOW_MS)
    log.append_as_leader(at_times(5, 25), 0, NOW_MS)
    log.trim.advance_log_start(1, NOW_MS)
    assert log.reader.list_offset(MAX_TIMESTAMP, 6) == ListedOffset(2, 40, 0)


def test_the_greatest_timestamp_is_that_of_the_records_below_the_bound(make_log: MakeLog) -> None:
    log = make_log()
    for times in ((10, 30), (20, 40), (50,)):
        log.append_as_leader(at_times(*times), 0, NOW_MS)
    answers = [log.reader.list_offset(MAX_TIMESTAMP, bound) for bound in (5, 4, 2, 0)]
    assert answers == [ListedOffset(4, 50, 0), ListedOffset(3, 40, 0), ListedOffset(1, 30, 0), NOTHING_LISTED]


def test_a_segment_before_the_log_start_has_not_the_greatest_timestamp(make_log: MakeLog) -> None:
    log = make_log()
    for times in ((90, 80), (30, 20), (40, 30)):
        log.append_as_leader(at_times(*times), 0, NOW_MS)
        log.roll(NOW_MS)
    log.trim.advance_log_start(1, NOW_MS)
    assert log.reader.list_offset(MAX_TIMESTAMP, 6) == ListedOffset(1, 80, 0)
    log.trim.advance_log_start(3, NOW_MS)
    assert log.reader.list_offset(MAX_TIMESTAMP, 6) == ListedOffset(4, 40, 0)
    assert log.reader.list_offset(MAX_TIMESTAMP, 4) == ListedOffset(3, 20, 0)


def test_a_batch_that_compaction_has_emptied_has_not_the_greatest_timestamp(make_log: MakeLog) -> None:
    log = make_log()
    log.append_as_leader(at_times(10, 20), 0, NOW_MS)
    emptied = assemble(
        b"", base_offset=2, leader_epoch=0, attributes=0, last_offset_delta=0, base_timestamp=-1, max_timestamp=99,
        producer_id=7, producer_epoch=0, base_sequence=0, count=0,
    )  # fmt: skip
    log.append_as_follower(memoryview(emptied), NOW_MS)
    assert log.reader.list_offset(MAX_TIMESTAMP, 3) == ListedOffset(1, 20, 0)


def test_a_search_by_time_goes_on_in_later_segments(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200)
    for number in range(6):  # the header promises more than the records have, but for the last
        log.append_as_leader(lying(NOW_MS - 1000, base=NOW_MS - 1000, greatest=NOW_MS - number), 0, NOW_MS)
        log.append_as_leader(lying(NOW_MS - 999 + number), 0, NOW_MS)
    assert len(log.segments) > 4
    assert log.reader.list_offset(NOW_MS - 994, 12) == ListedOffset(11, NOW_MS - 994, 0)
    assert log.reader.list_offset(NOW_MS - 993, 12) == NOTHING_LISTED


def test_a_batch_whose_records_cannot_be_read_is_listed_by_its_header(make_log: MakeLog) -> None:
    log = make_log()
    raw = build_batch([NewRecord(None, b"a", NOW_MS)] * 2, compression=Compression.GZIP)
    raw[70] ^= 0xFF
    seal(raw)
    log.append_as_leader(lying(NOW_MS - 9), 0, NOW_MS)
    log.append_as_leader(memoryview(raw), 0, NOW_MS)
    log.append_as_leader(lying(NOW_MS + 9), 0, NOW_MS)
    assert log.reader.list_offset(NOW_MS - 3, 4) == ListedOffset(1, NOW_MS, 0)
    assert log.reader.list_offset(NOW_MS + 1, 4) == ListedOffset(3, NOW_MS + 9, 0)


def test_appends_and_reads_go_on_while_a_time_is_looked_for(make_log: MakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    # it reads and decompresses records: a batch of a megabyte can hold a million of them
    log = make_log()
    log.append_as_leader(lying(NOW_MS), 0, NOW_MS)
    reached, go_on = threading.Event(), threading.Event()
    read_batch = log_read.read_batch

    def slow(*where: object) -> object:
        reached.set()
        assert go_on.wait(30)
        return read_batch(*where)  # type: ignore[arg-type]

    monkeypatch.setattr(log_read, "read_batch", slow)
    found: list[ListedOffset] = []
    searcher = threading.Thread(target=lambda: found.append(log.reader.list_offset(NOW_MS, 1)))
    searcher.start()
    try:
        assert reached.wait(30)
        assert log.lock.acquire(timeout=30), "the search has the lock"
        log.lock.release()
        assert log.append_as_leader(lying(NOW_MS), 0, NOW_MS).base_offset == 1
        log.roll(NOW_MS)
        log.advance_high_watermark(2)
        assert log.trim.apply_retention(NOW_MS + 10 * log.config.retention_ms) == 1
    finally:
        go_on.set()
        searcher.join(30)
    assert found == [NOTHING_LISTED]  # it was held till then, but is before the log's start now
    assert not any(path.suffix == ".log" and log.close_idle() for path in log.directory.iterdir())


def test_a_search_for_the_greatest_timestamp_that_fails_holds_no_file_open(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each such search kept the segment's file open for good, so that it gave no descriptor back when others were short of them.
    log = make_log()
    log.append_as_leader(at_times(10, 30), 0, NOW_MS)

    def read_batch(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(log_read, "read_batch", read_batch)
    with pytest.raises(OSError, match="Input/output"):
        log.reader.list_offset(MAX_TIMESTAMP, 2)
    assert log.active.log.close_if_idle()
