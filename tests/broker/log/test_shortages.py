"""A log that finds no descriptor or no space for a moment: nothing has changed, and the same call succeeds later.

Before, the first such error took the partition offline until a restart."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamactors.broker.errors import ErrorCode, StorageShortage
from streamactors.broker.log.cleaning.cleaner import Cleaner
from streamactors.broker.log.config import LogConfig, ManagerConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.compacting import records as all_records
from tests.broker.log.manual_pool import NOW_MS, ManualPool
from tests.broker.log.short_disk import ShortDisk
from tests.broker.log.transacting import Writer

NUMBERS = [errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT]


def put(log: PartitionLog, *pairs: tuple[bytes, bytes], **options: Any) -> int:
    """Append a batch in the latest epoch; return its offset."""
    made = build_batch([NewRecord(key, value, NOW_MS) for key, value in pairs], **options)
    result = log.append_as_leader(memoryview(made), max(log.latest_epoch, 0), NOW_MS)
    log.advance_high_watermark(log.hw_limit)
    return result.base_offset


def followed(log: PartitionLog, base_offset: int, epoch: int, count: int = 2) -> None:
    """Append a batch of a leader."""
    made = build_batch(
        [NewRecord(b"k", b"%d" % each, NOW_MS) for each in range(count)], base_offset=base_offset, leader_epoch=epoch
    )
    log.append_as_follower(memoryview(made), NOW_MS)


def filled(log: PartitionLog) -> None:
    """Four segments with two epochs, a transaction that was aborted, and an idempotent producer."""
    aborted = Writer(log, 7)
    aborted.write(b"a" * 100)
    aborted.end(committed=False)
    for each in range(3):
        put(log, (b"k", b"v" * 100), (b"l", b"w" * 100), producer_id=8, producer_epoch=0, base_sequence=2 * each)
        log.roll(NOW_MS)
    followed(log, log.end_offset, 3)
    log.advance_high_watermark(log.end_offset)


def append(log: PartitionLog) -> object:
    return put(log, (b"new", b"x" * 300))


def follow(log: PartitionLog) -> object:
    return followed(log, log.end_offset, 5, count=9)


class Case(NamedTuple):
    """A call, and settings of the log."""

    call: Callable[[PartitionLog], object]
    settings: dict[str, Any] = {}


def truncated_to(offset: int) -> Callable[[PartitionLog], object]:
    return lambda log: log.truncation.truncate_to(offset, NOW_MS)


CASES = {
    "append to an open segment": Case(lambda log: put(log, (b"new", b"x"))),
    "append that rolls": Case(append),
    "append of another epoch": Case(
        lambda log: log.append_as_leader(memoryview(build_batch([NewRecord(b"n", b"x", NOW_MS)])), 9, NOW_MS)
    ),
    "follow": Case(follow),
    "roll": Case(lambda log: log.roll(NOW_MS)),
    "begin an epoch": Case(lambda log: log.assign_leader_epoch(8)),
    "truncate within the last segment": Case(truncated_to(9)),
    "truncate segments away": Case(truncated_to(4)),
    "truncate to the middle of a batch": Case(truncated_to(3)),
    "truncate everything": Case(lambda log: log.truncation.truncate_fully_and_start_at(50, NOW_MS)),
    "begin where the leader's batch begins": Case(lambda log: log.truncation.truncate_fully_and_start_at(0, NOW_MS)),
    "delete records": Case(lambda log: log.trim.delete_records(5, NOW_MS)),
    "retain by size": Case(lambda log: log.trim.apply_retention(NOW_MS), {"retention_bytes": 300}),
    "retain nothing": Case(lambda log: log.trim.apply_retention(NOW_MS + 10**12), {"retention_ms": 1}),
}


def state(log: PartitionLog) -> tuple[object, ...]:
    """Everything that a client or a replica sees of a log."""
    producers = sorted(
        (entry.producer_id, entry.producer_epoch, entry.last_sequence, entry.last_offset) for entry in log.producers()
    )
    return (
        log.log_start_offset,
        log.end_offset,
        log.high_watermark,
        log.last_stable_offset,
        log.epochs.entries,
        producers,
        all_records(log),
        log.reader.aborted_transactions(log.log_start_offset, log.end_offset),
    )


def trace(log: PartitionLog) -> tuple[object, ...]:
    """The same without records, and without an epoch that has none."""
    start, end, high_watermark, stable, _, producers, *_ = state(log)
    return (
        start,
        end,
        high_watermark,
        stable,
        producers,
        [each for each in log.epochs.entries if each[1] < log.end_offset],
    )


@pytest.fixture
def made(tmp_path: Path, pool: ManualPool) -> Callable[..., tuple[PartitionLog, ShortDisk]]:
    def make(name: str, **settings: Any) -> tuple[PartitionLog, ShortDisk]:
        disk = ShortDisk()
        config = LogConfig(segment_bytes=600, index_interval_bytes=50, cleanup_policy=("delete",), **settings)
        log = PartitionLog.create(disk, tmp_path / name, "orders", 0, None, config, pool=pool, now_ms=NOW_MS)
        filled(log)
        log.close_idle()
        return log, disk

    return make


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
@pytest.mark.parametrize("name", CASES)
def test_a_call_that_finds_none_can_be_repeated_and_ends_as_if_it_had_found_one(
    made: Callable[..., tuple[PartitionLog, ShortDisk]],
    reopen: Callable[..., PartitionLog],
    name: str,
    number: int,
) -> None:
    case = CASES[name]
    log, disk = made("expected", **case.settings)
    disk.fail(number, at=0)  # only counts
    case.call(log)
    steps, expected = disk.count, state(log)
    log.abandon()
    assert steps > 0 or number == errno.ENOSPC
    for step in range(1, steps + 1):
        log, disk = made(f"at-{step}", **case.settings)
        before = trace(log)
        log.close_idle()
        disk.fail(number, at=step)
        kind: type[Exception] = OSError if name.startswith("retain") else StorageShortage  # upkeep logs both
        with suppress(kind, StorageShortage):
            case.call(log)
            disk.fails_at = None  # the call did without
        if disk.fails_at is not None:
            disk.work()
            assert log.offline is None
            if not name.startswith("retain"):  # each segment that is gone is a step of its own
                assert trace(log) == before, f"call {step} of {name} has left a trace"
            case.call(log)
        disk.work()
        assert state(log) == expected, f"call {step} of {name}"
        put(log, (b"after", b"y" * 200))
        ended = state(log)[:6]
        again = reopen(log)  # as after a crash
        again.advance_high_watermark(again.end_offset)
        assert (again.end_offset, all_records(again)[-1][1]) == (ended[1], b"after"), f"call {step} of {name}"
        again.abandon()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_partition_takes_records_again_when_descriptors_or_space_are_there(
    made: Callable[..., tuple[PartitionLog, ShortDisk]], number: int
) -> None:
    log, disk = made("orders-0")
    disk.fail(number, lasting=True)
    for _ in range(3):
        with pytest.raises(StorageShortage, match=r"orders-0: cannot append: .*; the next call tries again"):
            append(log)
    disk.work()
    end = log.end_offset
    assert append(log) == end


@pytest.mark.expects_log("the partition is offline for writes")
def test_a_disk_error_takes_the_partition_offline_for_good(
    made: Callable[..., tuple[PartitionLog, ShortDisk]],
) -> None:
    log, disk = made("orders-0")
    disk.fail(errno.EIO)
    with pytest.raises(Exception, match="the partition is offline for writes"):
        append(log)
    disk.work()
    with pytest.raises(Exception, match="the partition is offline for writes"):
        append(log)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_a_compaction_that_finds_none_is_tried_again(tmp_path: Path, pool: ManualPool, number: int) -> None:
    def dirty(name: str) -> tuple[PartitionLog, ShortDisk]:
        disk = ShortDisk()
        config = LogConfig(segment_bytes=600, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
        log = PartitionLog.create(disk, tmp_path / name, "orders", 0, None, config, pool=pool, now_ms=NOW_MS)
        for each in range(6):
            put(log, (b"k", b"v%d" % each), (b"l%d" % each, b"w" * 200))
            log.roll(NOW_MS)
        log.close_idle()
        return log, disk

    log, disk = dirty("expected-0")
    disk.fail(number, at=0)
    assert Cleaner(lambda: [log], None).run_once(NOW_MS)
    steps, expected = disk.count, all_records(log)
    assert len(expected) == 7
    for step in range(1, steps + 1):
        log, disk = dirty(f"at-{step}-0")
        cleaner = Cleaner(lambda log=log: [log], None)  # type: ignore[misc]
        disk.fail(number, at=step)
        cleaner.run_once(NOW_MS)
        disk.work()
        while cleaner.run_once(NOW_MS):
            pass
        assert all_records(log) == expected, f"call {step}"
        assert log.offline is None
        assert not [each for each in log.directory.iterdir() if each.suffix in (".swap", ".cleaned")]
        log.abandon()


def test_a_flush_without_a_descriptor_keeps_the_records_and_the_next_one_covers_them(
    tmp_path: Path, pool: ManualPool
) -> None:
    disk = ShortDisk()
    config = LogConfig(flush_messages=1)
    log = PartitionLog.create(disk, tmp_path / "orders-0", "orders", 0, None, config, pool=pool, now_ms=NOW_MS)
    log.sole_replica = True
    seen: list[ErrorCode] = []

    def send(sequence: int) -> None:
        made = build_batch([NewRecord(b"k", b"v", NOW_MS)], producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.flusher.request(log.append_as_leader(memoryview(made), 0, NOW_MS), seen.append)

    send(0)
    send(1)
    disk.fail(errno.EMFILE, lasting=True)
    pool.run()
    assert seen == [ErrorCode.KAFKA_STORAGE_ERROR] * 2, "the records of neither are gone: no sequence is out of order"
    assert (log.end_offset, log.high_watermark) == (2, 0), "no consumer sees what is not on the disk"
    disk.work()
    send(0)  # as its producer does
    pool.run()
    assert seen[2:] == [ErrorCode.NONE]
    assert log.recovery_point == 2


def test_checkpoints_are_written_when_there_is_space_again(
    start: Callable[..., LogManager], caplog: pytest.LogCaptureFixture
) -> None:
    disk = ShortDisk()
    logs = start(disk=disk, config=ManagerConfig(replica_high_watermark_checkpoint_interval_ms=1_000))
    put(logs.create("orders", 0, None, LogConfig()), (b"k", b"v"))
    logs.tick(NOW_MS)
    disk.fail(errno.ENOSPC, lasting=True, only="checkpoint")
    for second in range(1, 4):
        logs.tick(NOW_MS + second * 1_000)
    assert len(caplog.records) == 1, "a shortage is said once"
    assert "No space left on device; its partitions may refuse records" in caplog.text
    (folder,) = logs.folders.all
    assert folder.shortage is not None
    disk.work()
    logs.tick(NOW_MS + 4_000)
    assert "orders 0 1" in (folder.path / "replication-offset-checkpoint").read_text()
    assert folder.probe()
    assert folder.shortage is None
    assert caplog.messages[-1] == f"{folder.path}: No space left on device is over; its partitions take records again"


@pytest.mark.expects_log("is over; its partitions take records again", "its partitions may refuse records")
def test_a_shortage_lasts_as_long_as_no_file_can_be_written(start: Callable[..., LogManager]) -> None:
    disk = ShortDisk()
    logs = start(disk=disk)
    heard: list[Path] = []
    logs.on_shortage = lambda folder: heard.append(folder.path)
    log = logs.create("orders", 0, None, LogConfig())
    disk.fail(errno.ENOSPC, lasting=True)
    for _ in range(2):
        with pytest.raises(StorageShortage):
            append(log)
    (folder,) = logs.folders.all
    assert heard == [folder.path]
    assert not folder.probe()
    assert folder.shortage is not None
    disk.work()
    assert folder.probe()
    assert not (folder.path / ".probe").exists()
    append(log)


def test_folders_of_deleted_logs_are_removed_when_there_is_a_descriptor(start: Callable[..., LogManager]) -> None:
    disk = ShortDisk()
    logs = start(disk=disk)
    log = logs.create("orders", 0, None, LogConfig(file_delete_delay_ms=0))
    logs.delete("orders", 0)
    disk.fail(errno.EMFILE, lasting=True)
    logs.remove_deleted(NOW_MS)
    disk.work()
    logs.remove_deleted(NOW_MS)
    assert [each.name for each in log.directory.parent.iterdir() if "orders" in each.name] == []


def test_a_log_that_cannot_be_renamed_leaves_nothing_to_a_later_one_of_its_name(
    start: Callable[..., LogManager],
) -> None:
    disk = ShortDisk()
    logs = start(disk=disk)
    old = logs.create("orders", 0, None, LogConfig())
    put(old, (b"old", b"v"))
    old.roll(NOW_MS)
    disk.fail(errno.ENOSPC)
    with pytest.raises(Exception, match="cannot delete"):
        logs.delete("orders", 0)
    disk.work()
    log = logs.create("orders", 0, None, LogConfig())
    assert put(log, (b"new", b"v")) == 0
    assert [each.name for each in log.directory.glob("*.log")] == ["00000000000000000000.log"]
    logs.remove_deleted(NOW_MS)
    assert log.directory.exists()


def test_an_index_that_could_not_be_read_is_read_by_the_next_call(
    made: Callable[..., tuple[PartitionLog, ShortDisk]],
) -> None:
    # The empty index in its place counted as loaded: no timestamp was found by it any more.
    log, disk = made("orders-0")
    expected = log.reader.list_offset(NOW_MS, log.end_offset)
    assert expected.offset >= 0
    log.close_idle()
    disk.fail(errno.EMFILE, only=".timeindex")
    with pytest.raises(OSError, match="Too many open files"):
        log.reader.list_offset(NOW_MS, log.end_offset)
    disk.work()
    assert log.reader.list_offset(NOW_MS, log.end_offset) == expected


def test_idle_log_files_give_their_descriptors_when_none_is_free(
    made: Callable[..., tuple[PartitionLog, ShortDisk]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    log, disk = made("orders-0")
    with log.read(0, 1000, log.end_offset):
        pass
    assert len(disk.open_files) == 1
    opened, refused = os.open, [0]

    def none_free(path: Path, flags: int, mode: int = 0o777) -> int:
        if len(disk.open_files):
            refused[0] += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", none_free)
    append(log)
    assert refused[0] > 0
