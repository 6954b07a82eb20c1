"""The transaction index of a segment after damage, truncation and a restart: aborted records are never delivered as committed."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.quick_disk import QuickDisk
from tests.broker.log.transacting import MakeLog, Writer, committed_values


def closed_with_aborted_transactions(log: PartitionLog) -> list[AbortedTransaction]:
    """Write committed and aborted transactions of one producer over several segments, close the log."""
    two, one = Writer(log, 2), Writer(log, 1)
    two.write(b"open in every segment")
    for number in range(8):
        one.write(b"%d" % number * 20)
        one.end(committed=number % 2 == 0)
    assert len(log.segments) > 3
    two.end(committed=False)
    aborted = log.reader.aborted_transactions(0, log.end_offset)
    log.close()
    return aborted


@pytest.mark.expects_log("is damaged")
@pytest.mark.parametrize("damage", ["cut off", "another version", "offsets before the segment"])
def test_a_damaged_transaction_index_is_made_again_from_the_batches(
    make_log: MakeLog, reopen: Callable[..., PartitionLog], damage: str
) -> None:
    # The load failed, nobody looked, and records of aborted transactions were delivered as committed.
    log = make_log(segment_bytes=400)
    aborted = closed_with_aborted_transactions(log)
    for path in log.directory.glob("*.txnindex"):
        data = path.read_bytes()
        if damage == "cut off":
            path.write_bytes(data[:-1])
        elif damage == "another version":
            path.write_bytes(b"\x00\x07" + data[2:])
        else:
            path.write_bytes(data[:18] + bytes(8) + data[26:] if not path.stem.endswith("0" * 20) else data[:-1])
    again = reopen(log, Checkpoints(clean=True, recovery_point=log.end_offset, high_watermark=log.end_offset))
    assert again.reader.aborted_transactions(0, again.end_offset) == aborted
    assert committed_values(again) == [b"%d" % number * 20 for number in (0, 2, 4, 6)]
    again.close()
    once_more = reopen(again, Checkpoints(clean=True, recovery_point=log.end_offset, high_watermark=log.end_offset))
    assert once_more.reader.aborted_transactions(0, once_more.end_offset) == aborted


class UnreadableDisk(QuickDisk):
    """Transaction indexes cannot be read while `errors` are left."""

    errors = 0

    def read(self, path: Path) -> bytes:
        if path.suffix == ".txnindex" and self.errors and path.exists():
            self.errors -= 1
            raise OSError(errno.EMFILE, "Too many open files", str(path))
        return super().read(path)


def test_a_transaction_index_that_cannot_be_read_fails_the_read_and_not_the_isolation(
    make_log: MakeLog, reopen: Callable[..., PartitionLog]
) -> None:
    # After one EMFILE the index counted as read and empty: what was aborted came as committed until the next restart.
    disk = UnreadableDisk()
    log = make_log(disk, segment_bytes=400)
    aborted = closed_with_aborted_transactions(log)
    again = reopen(log, Checkpoints(clean=True, recovery_point=log.end_offset, high_watermark=log.end_offset))
    disk.errors = 1
    with pytest.raises(OSError, match="Too many open files"):
        again.reader.aborted_transactions(0, again.end_offset)
    assert again.reader.aborted_transactions(0, again.end_offset) == aborted


@pytest.mark.parametrize("keep", [0, 1])
def test_a_transaction_that_was_cut_off_is_not_aborted_after_a_restart_either(
    make_log: MakeLog, reopen: Callable[..., PartitionLog], keep: int
) -> None:
    # An empty log was closed without writing its indexes: the old .txnindex hid the next transaction of the producer.
    log = make_log()
    one = Writer(log, 1)
    log.append_as_leader(memoryview(build_batch([NewRecord(None, b"plain", NOW_MS)])), 0, NOW_MS)
    one.write(b"aborted")
    one.end(committed=False)
    log.close()
    clean = Checkpoints(clean=True, recovery_point=3, high_watermark=3)
    log = reopen(log, clean)
    assert len(log.reader.aborted_transactions(0, 3)) == 1
    log.truncation.truncate_to(keep, NOW_MS)
    log.close()
    log = reopen(log, Checkpoints(clean=True, recovery_point=keep, high_watermark=keep))
    one = Writer(log, 1)
    one.write(b"first", b"second", b"third")
    one.end(committed=True)
    assert log.reader.aborted_transactions(0, log.end_offset) == []
    assert committed_values(log, keep) == [b"first", b"second", b"third"]


def test_a_transaction_index_without_entries_leaves_no_file(tmp_path: Path) -> None:
    disk, path = QuickDisk(), tmp_path / "7.txnindex"
    index = TransactionIndex(path)
    entries = [AbortedTransaction(1, 3, 9, 4), AbortedTransaction(2, 10, 12, 13)]
    for entry in entries:
        index.append(entry)
    index.save(disk)
    again = TransactionIndex(path)
    assert again.load(disk, 7)
    assert list(again) == entries
    again.truncate(12)
    again.save(disk)
    assert index.load(disk, 7)
    assert list(index) == entries[:1]
    again.truncate(9)
    again.save(disk)
    assert not path.exists(), "a stale file would hide later transactions"
    assert index.load(disk, 7)
    assert list(index) == []


@pytest.mark.parametrize(
    "entries",
    [
        [AbortedTransaction(1, 3, 6, 4)],  # its marker is before the segment
        [AbortedTransaction(1, 10, 9, 4)],  # it begins after its marker
        [AbortedTransaction(1, 3, 9, 4), AbortedTransaction(2, 3, 9, 4)],  # two markers at one offset
    ],
)
def test_a_transaction_index_that_makes_no_sense_is_refused(tmp_path: Path, entries: list[AbortedTransaction]) -> None:
    disk = QuickDisk()
    index = TransactionIndex(tmp_path / "7.txnindex")
    for entry in entries:
        index.append(entry)
    index.save(disk)
    assert not index.load(disk, 7)
    assert list(index) == []


def test_a_transaction_that_begins_at_the_end_of_a_range_does_not_touch_it(tmp_path: Path) -> None:
    index = TransactionIndex(tmp_path / "0.txnindex")
    before = AbortedTransaction(7, 2, 4, 3)
    behind = AbortedTransaction(8, 10, 12, 9)
    index.append(before)
    index.append(behind)
    for start, end, touched in ((0, 10, [before]), (4, 11, [before, behind]), (5, 10, []), (12, 13, [behind])):
        found: list[AbortedTransaction] = []
        assert not index.collect(start, end, found)
        assert found == touched
