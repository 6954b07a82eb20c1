"""Crashes: the log cut at every byte, every bit of a header flipped, files lost, replacements half done."""

from __future__ import annotations

import shutil
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from streamactors.broker.log.partition.leader_epochs import FILE_NAME as EPOCHS
from streamactors.broker.log.partition.leader_epochs import EpochStart, LeaderEpochs
from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.segments.segment_files import DELETED_SUFFIX
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.header import HEADER_SIZE
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.filling import MakeLog, fill
from tests.broker.log.manual_pool import ManualPool
from tests.broker.log.quick_disk import QuickDisk
from tests.own_process import own_process

pytestmark = pytest.mark.expects_log("damaged at offset", again=True)


def numbers(log: PartitionLog) -> list[int]:
    """The numbers whose batches are there."""
    batches = list(log.reader.replay(log.log_start_offset, log.end_offset))
    for batch in batches:
        batch.ensure_valid()
        assert len(list(batch.records())) == 2
    return [batch.base_offset // 2 for batch in batches]


def check_it_works_on(log: PartitionLog, count: int) -> None:
    """The log has the first `count` batches, its producer may go on, and everything derived is right."""
    assert numbers(log) == list(range(count))
    assert log.end_offset == 2 * count
    state = log.producers()
    assert [entry.last_sequence for entry in state] == ([2 * count - 1] if count else [])
    for number in range(count):
        listed = log.reader.list_offset(NOW_MS + number, log.end_offset)
        assert listed.offset == 2 * number
    assert log.reader.list_offset(NOW_MS + count, log.end_offset).offset == -1
    batch = build_batch([NewRecord(b"k", b"more", NOW_MS)], producer_id=5, producer_epoch=0, base_sequence=2 * count)
    assert log.append_as_leader(memoryview(batch), 1, NOW_MS).base_offset == 2 * count


def cut(path: Path, size: int) -> None:
    with open(path, "r+b") as file:
        file.truncate(size)


class Damage:
    """Opens copies of a folder as after a crash."""

    def __init__(self, original: PartitionLog) -> None:
        original.abandon()
        self.original = original
        self.config = original.config
        self.folder = original.directory.with_name("damaged-0")

    def reopened(self, change: Callable[[Path], None], checkpoints: Checkpoints | None = None) -> PartitionLog:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.original.directory, self.folder)
        change(self.folder)
        return PartitionLog.open(
            QuickDisk(),
            self.folder,
            "damaged",
            0,
            self.config,
            checkpoints or Checkpoints(),
            pool=ManualPool(),
            now_ms=NOW_MS,
        )


def last_segment(folder: Path) -> Path:
    return sorted(folder.glob("*.log"))[-1]


def batch_ends(log: PartitionLog) -> list[int]:
    """Where the batches of the last segment end."""
    ends, position = [0], 0
    for batch in log.reader.replay(log.active.base_offset, log.end_offset):
        position += batch.size
        ends.append(position)
    return ends


def test_cut_the_last_segment_at_every_byte(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=900, index_interval_bytes=0)
    fill(log, 11)
    before, ends = log.active.base_offset // 2, batch_ends(log)
    assert before > 0
    assert len(ends) > 3
    damage = Damage(log)
    for size in range(ends[-1] + 1):
        again = damage.reopened(lambda folder, size=size: cut(last_segment(folder), size))  # type: ignore[misc]
        whole = sum(end <= size for end in ends[1:])
        check_it_works_on(again, before + whole)
        again.abandon()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_flip_every_bit_of_a_header(make_log: MakeLog, which: int) -> None:
    log = make_log(segment_bytes=900, index_interval_bytes=0)
    fill(log, 11)
    before, ends = log.active.base_offset // 2, batch_ends(log)
    assert len(ends) > 3
    damage = Damage(log)
    at = [0, len(ends) // 2, len(ends) - 2][which]  # the first, a middle and the last batch of the segment
    for bit in range(8 * HEADER_SIZE):

        def flip(folder: Path, bit: int = bit) -> None:
            path = last_segment(folder)
            data = bytearray(path.read_bytes())
            data[ends[at] + bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)

        again = damage.reopened(flip)
        assert numbers(again) == list(range(before + at)), f"bit {bit} of the header"
        assert again.end_offset == 2 * (before + at)
        again.abandon()


def test_damage_in_an_earlier_segment_ends_the_log_there(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=600)
    fill(log, 30)
    assert len(log.segments) > 4
    second = log.segments[1].base_offset
    damage = Damage(log)

    def flip(folder: Path) -> None:
        path = folder / f"{second:020d}.log"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    again = damage.reopened(flip)
    count = again.end_offset // 2
    assert second // 2 <= count < damage.original.segments[2].base_offset // 2
    check_it_works_on(again, count)
    assert sorted(path.name for path in damage.folder.glob("*.log")) == [f"{0:020d}.log", f"{second:020d}.log"]
    again.abandon()


def test_below_the_recovery_point_nothing_is_walked(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=600)
    fill(log, 30)
    point = log.segments[2].base_offset
    damage = Damage(log)

    def spoil_the_first_records(folder: Path) -> None:
        path = folder / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[70] ^= 1
        path.write_bytes(data)

    again = damage.reopened(spoil_the_first_records, Checkpoints(recovery_point=point))
    assert again.end_offset == 60
    again.abandon()
    again = damage.reopened(spoil_the_first_records, Checkpoints(recovery_point=0))
    assert again.end_offset == 0
    again.abandon()


def test_lost_or_spoilt_indexes_are_made_again(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=600, index_interval_bytes=0)
    fill(log, 30)
    log.close()
    damage = Damage(log)
    clean = Checkpoints(clean=True, recovery_point=60)

    def remove(folder: Path) -> None:
        for pattern in ("*.index", "*.timeindex", "*.snapshot"):
            for path in folder.glob(pattern):
                path.unlink()

    def garble(folder: Path) -> None:
        for path in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
            path.write_bytes(path.read_bytes()[::-1])

    def shorten(folder: Path) -> None:
        for path in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
            path.write_bytes(path.read_bytes()[:-3])

    for change in (remove, garble, shorten):
        for checkpoints in (clean, Checkpoints()):
            again = damage.reopened(change, checkpoints)
            check_it_works_on(again, 30)
            again.abandon()


def test_an_index_with_the_zeros_of_a_file_that_was_never_trimmed_is_read(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=600, index_interval_bytes=0)
    fill(log, 30)
    log.close()

    def pad(folder: Path) -> None:
        for path in folder.glob("*.index"):
            path.write_bytes(path.read_bytes() + bytes(800))
        for path in folder.glob("*.timeindex"):
            path.write_bytes(path.read_bytes() + bytes(1200))

    again = Damage(log).reopened(pad, Checkpoints(clean=True, recovery_point=60))
    check_it_works_on(again, 30)
    again.abandon()


@own_process
def test_a_size_that_only_a_damaged_header_has_is_not_read_into_memory(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 3)
    ends = batch_ends(log)

    def claim_200_mb(folder: Path) -> None:
        path = last_segment(folder)
        with open(path, "r+b") as file:
            file.seek(ends[1] + 8)
            file.write((200 << 20).to_bytes(4, "big"))
            file.truncate(256 << 20)

    damage = Damage(log)
    tracemalloc.start()
    again = damage.reopened(claim_200_mb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 << 20
    check_it_works_on(again, 1)
    again.abandon()


def test_the_end_that_clean_shutdown_promises_is_checked(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 5)
    log.close()

    def append_garbage(folder: Path) -> None:
        path = last_segment(folder)
        path.write_bytes(path.read_bytes() + b"garbage")

    again = Damage(log).reopened(append_garbage, Checkpoints(clean=True, recovery_point=10))
    check_it_works_on(again, 5)
    again.abandon()


def test_epochs_that_are_lost_are_learnt_from_the_batches(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 2, epoch=3)
    log.append_as_leader(memoryview(build_batch([NewRecord(None, b"", 1)] * 2)), 7, NOW_MS)
    again = Damage(log).reopened(lambda folder: (folder / "leader-epoch-checkpoint").unlink())
    assert again.epochs.entries == ((3, 0), (7, 4))
    assert again.end_offset == 6
    again.abandon()


@pytest.mark.parametrize("recovery_point", [0, 5])
@pytest.mark.parametrize(
    ("on_disk", "recovered"),
    [
        ([(3, 0), (7, 4), (9, 6)], ((3, 0), (7, 4), (9, 6))),
        ([(3, 0)], ((3, 0), (7, 4), (9, 6))),  # Apache Kafka writes the file later than the batches
        (
            [(3, 0), (5, 2), (7, 4), (9, 6)],
            ((3, 0), (5, 2), (7, 4), (9, 6)),
        ),  # compaction removed the batches of an epoch
        (
            [(3, 0), (7, 4), (9, 6), (11, 8)],
            ((3, 0), (7, 4), (9, 6)),
        ),  # the batches of the last epoch never reached the disk
    ],
    ids=["all", "only the first", "one without batches", "one after the end"],
)
def test_a_folder_of_apache_kafka_keeps_the_records_of_all_leader_epochs(
    make_log: MakeLog, on_disk: list[tuple[int, int]], recovered: object, recovery_point: int
) -> None:
    """The first batch of the segment was compared with the last epoch of the file, so a crash emptied a segment with two epochs."""
    log = make_log(segment_bytes=250)
    fill(log, 2, epoch=3)
    for epoch in (7, 9):
        log.append_as_leader(memoryview(build_batch([NewRecord(None, b"", 1)] * 2)), epoch, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    epochs = LeaderEpochs([EpochStart(*each) for each in on_disk]).encode()

    def write_epochs(folder: Path) -> None:
        (folder / EPOCHS).write_bytes(epochs)

    again = Damage(log).reopened(write_epochs, Checkpoints(strict=False, recovery_point=recovery_point))
    assert numbers(again) == list(range(4))
    assert again.epochs.entries == recovered
    assert LeaderEpochs.decode((again.directory / EPOCHS).read_bytes()).entries == recovered
    again.abandon()


def test_a_batch_of_an_older_leader_epoch_than_the_one_before_ends_a_log_of_apache_kafka(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 2, epoch=3)
    ends = batch_ends(log)
    log.append_as_leader(memoryview(build_batch([NewRecord(None, b"", 1)] * 2)), 7, NOW_MS)

    def spoil(folder: Path) -> None:
        data = bytearray(last_segment(folder).read_bytes())
        struct.pack_into(">i", data, ends[-1] + 12, 2)  # its leader epoch
        last_segment(folder).write_bytes(data)

    again = Damage(log).reopened(spoil, Checkpoints(strict=False))
    assert numbers(again) == [0, 1]
    assert again.epochs.entries == ((3, 0),)
    again.abandon()


def test_epochs_of_records_that_were_cut_off_are_forgotten(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 2, epoch=3)
    ends = batch_ends(log)
    log.append_as_leader(memoryview(build_batch([NewRecord(None, b"", 1)])), 7, NOW_MS)
    again = Damage(log).reopened(lambda folder: cut(last_segment(folder), ends[-1]))
    assert again.epochs.entries == ((3, 0),)
    again.abandon()


@pytest.mark.expects_log("before its start")
def test_a_log_that_ends_before_its_start_begins_anew(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 3)
    again = Damage(log).reopened(lambda folder: None, Checkpoints(log_start_offset=100))
    assert (again.log_start_offset, again.end_offset) == (100, 100)
    assert again.append_as_leader(memoryview(build_batch([NewRecord(None, b"", 1)])), 1, NOW_MS).base_offset == 100
    again.abandon()


def test_leftovers_of_deletions_are_removed(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 3)

    def leave(folder: Path) -> None:
        for name in (".log.deleted", ".index.deleted", ".log.cleaned", ".timeindex.cleaned"):
            (folder / f"{0:020d}{name}").write_bytes(b"x")
        (folder / f"{99:020d}.index").write_bytes(b"12345678")
        (folder / "leader-epoch-checkpoint.tmp").write_bytes(b"0\n")

    again = Damage(log).reopened(leave)
    check_it_works_on(again, 3)
    assert not [path.name for path in again.directory.iterdir() if path.suffix in (DELETED_SUFFIX, ".cleaned", ".tmp")]
    assert not (again.directory / f"{99:020d}.index").exists()
    again.abandon()


@pytest.mark.parametrize("size", [(1 << 20) - 100, (1 << 20) + 1, 3 << 20, (16 << 20) + 1])
def test_large_batches_survive_a_crash_and_damage_in_them_is_found(
    make_log: MakeLog, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    # Batches are read in pieces of 1 MiB, and above 16 MiB only their headers are in memory.
    log = make_log(max_message_bytes=20 << 20, segment_bytes=64 << 20)
    for value in (b"before", b"x" * size, b"after"):
        batch = build_batch([NewRecord(b"k", value, NOW_MS)])
        log.append_as_leader(memoryview(batch), 0, NOW_MS)
    damage = Damage(log)
    again = damage.reopened(lambda folder: None)
    assert (again.end_offset, caplog.text) == (3, "")
    assert [len(record.value or b"") for batch in again.reader.replay(0, 3) for record in batch.records()] == [
        6,
        size,
        5,
    ]
    again.abandon()

    def flip_the_last_byte_of_the_large_batch(folder: Path) -> None:
        path = last_segment(folder)
        after = len(build_batch([NewRecord(b"k", b"after", NOW_MS)]))
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size - after - 1)
            file.write(b"!")

    again = damage.reopened(flip_the_last_byte_of_the_large_batch)
    assert again.end_offset == 1
    assert "CRC of the batch at offset 1" in caplog.text
    again.abandon()
