"""Index files have no checksum: whatever is in them, reads are right."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.segments.offset_index import OffsetIndex
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.segments.time_index import TimeIndex
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.manual_pool import ManualPool
from tests.broker.log.quick_disk import QuickDisk

CONFIG = LogConfig(index_interval_bytes=200, segment_bytes=2_000)
RECORDS = 60
NAME = "orders-0"


def append(log: PartitionLog, number: int) -> int:
    raw = build_batch([NewRecord(b"k", b"v%d" % number, NOW_MS + number)])
    offset = log.append_as_leader(memoryview(raw), 0, NOW_MS).base_offset
    log.advance_high_watermark(log.end_offset)
    return offset


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a log that was closed in order."""
    folder = tmp_path_factory.mktemp("closed") / NAME
    log = PartitionLog.create(QuickDisk(), folder, "orders", 0, None, CONFIG, pool=ManualPool(), now_ms=NOW_MS)
    for number in range(RECORDS):
        append(log, number)
    log.close()
    assert len(log.segments) > 2
    return folder


@contextmanager
def reopened(closed: Path, name: str, content: bytes) -> Iterator[PartitionLog]:
    """Open a copy of the folder, with another content of one file."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(shutil.copytree(closed, Path(root) / NAME))
        (folder / name).write_bytes(content)
        clean = Checkpoints(clean=True, recovery_point=RECORDS, high_watermark=RECORDS)
        log = PartitionLog.open(
            QuickDisk(), folder, "orders", 0, CONFIG, clean, pool=ManualPool(), now_ms=NOW_MS
        )  # fmt: skip
        try:
            yield log
        finally:
            log.abandon()


def check_reads(log: PartitionLog, end: int) -> None:
    assert log.end_offset == end
    for offset in range(end):
        for max_bytes in (100, 500):
            with log.read(offset, max_bytes, end) as piece:
                batches = list(iter_batches(piece.read()))
            assert [batch.base_offset for batch in batches] == list(range(offset, offset + len(batches)))
            assert batches
            for batch in batches:
                batch.ensure_valid()


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_byte_that_changed_in_an_offset_index_changes_no_read(closed: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(closed.glob("*.index"))))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with reopened(closed, path.name, content) as log:
        check_reads(log, RECORDS)
        assert append(log, RECORDS) == RECORDS
        check_reads(log, RECORDS + 1)


def test_an_index_of_another_segment_is_found_out(closed: Path) -> None:
    first, second = sorted(closed.glob("*.index"))[:2]
    with reopened(closed, first.name, second.read_bytes()) as log:
        check_reads(log, RECORDS)


def test_a_damaged_batch_is_not_taken_for_a_damaged_index_twice(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # to make an index again costs a walk over the segment, and a consumer asks again and again
    path = min(closed.glob("*.log"))
    content = bytearray(path.read_bytes())
    begins = [batch.position for batch in iter_batches(bytes(content))]
    content[begins[-2] + 8 : begins[-2] + 12] = (7).to_bytes(4, "big")  # a length that no batch has
    walks: list[object] = []
    with reopened(closed, path.name, content) as log:
        segment = log.segments[0]
        rebuild = segment.rebuild_indexes
        monkeypatch.setattr(type(segment), "rebuild_indexes", lambda self: (walks.append(self), rebuild()))
        for _ in range(3):
            with pytest.raises(CorruptMessage):
                log.read(len(begins) - 1, 100, RECORDS)
            with log.read(0, 100, RECORDS) as piece:
                assert piece.length
    assert len(walks) == 1


def test_indexes_that_were_saved_are_used_and_not_made_again(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rebuilt: list[Segment] = []
    monkeypatch.setattr(Segment, "rebuild_indexes", rebuilt.append)
    name = min(closed.glob("*.log")).name
    with reopened(closed, name, (closed / name).read_bytes()) as log:
        check_reads(log, RECORDS)
        assert log.reader.list_offset(NOW_MS + 7, RECORDS).offset == 7
        assert all(len(segment.offsets) > 0 for segment in log.segments[:-1])
        assert len(log.segments[0].times) > 0
    assert rebuilt == []


def test_an_offset_index_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    disk, path = QuickDisk(), tmp_path / "7.index"
    index = OffsetIndex(path, 1000, 8 * 100)
    for number in range(1, 6):
        index.append(1000 + 10 * number, 100 * number)
    index.save(disk)
    again = OffsetIndex(path, 1000, 8 * 100)
    assert again.load(disk, 501)
    for offset in range(1000, 1060):
        assert again.lookup(offset) == index.lookup(offset)
    assert [again.last_within(limit) for limit in (99, 100, 550)] == [(0, 999), (100, 1010), (500, 1050)]
    assert again.last_position == index.last_position == 500
    assert OffsetIndex(path, 1000, 8 * 100).last_position == 0
    assert not again.load(disk, 500), "an entry at the segment's end has no batch"
    assert len(again) == 0
    path.write_bytes(path.read_bytes() + bytes(80))
    assert again.load(disk, 501), "zeros after the entries are room that was never used"
    assert len(again) == 5
    for wrong in (path.read_bytes()[:9], bytes(8) + path.read_bytes()[:8] + path.read_bytes()[:8]):
        path.write_bytes(wrong)
        assert not again.load(disk, 501)


def test_a_time_index_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    disk, path = QuickDisk(), tmp_path / "7.timeindex"
    index = TimeIndex(path, 1000, 12 * 100)
    for number in range(1, 6):
        index.append(NOW_MS + number, 1000 + 10 * number)
    index.save(disk)
    again = TimeIndex(path, 1000, 12 * 100)
    assert again.load(disk, 1051)
    for timestamp in range(NOW_MS, NOW_MS + 7):
        assert again.lookup(timestamp) == index.lookup(timestamp)
    assert again.last == (NOW_MS + 5, 1050)
    assert not again.load(disk, 1050), "an entry at the segment's end has no record"
    assert len(again) == 0
    path.write_bytes(path.read_bytes() + bytes(120))
    assert again.load(disk, 1051), "zeros after the entries are room that was never used"
    assert len(again) == 5
    path.write_bytes(path.read_bytes()[:12] * 2)
    assert not again.load(disk, 1051), "timestamps increase"
