"""Retention: what goes by age, by size and by the log's start, and what never does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamactors.broker.errors import StorageError
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS

MakeLog = Callable[..., PartitionLog]


def append(log: PartitionLog, timestamp: int, *, visible: bool = True) -> None:
    log.append_as_leader(memoryview(build_batch([NewRecord(b"k", b"v" * 100, timestamp)])), 0, timestamp)
    if visible:
        log.advance_high_watermark(log.hw_limit)


def one_per_segment(make_log: MakeLog, count: int, **settings: object) -> PartitionLog:
    log = make_log(segment_bytes=200, **settings)
    for number in range(count):
        append(log, NOW_MS + 1000 * number)
    assert len(log.segments) == count
    return log


def test_segments_go_when_their_newest_record_is_too_old(make_log: MakeLog) -> None:
    log = one_per_segment(make_log, 5, retention_ms=10_000)
    assert log.trim.apply_retention(NOW_MS + 11_000) == 1
    assert log.log_start_offset == 1
    assert log.trim.apply_retention(NOW_MS + 13_000) == 2
    assert (log.log_start_offset, log.end_offset) == (3, 5)


def test_the_active_segment_is_closed_and_goes_too(make_log: MakeLog) -> None:
    log = one_per_segment(make_log, 3, retention_ms=10_000)
    assert log.trim.apply_retention(NOW_MS + 100_000) == 3
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (3, 3, 0)
    append(log, NOW_MS + 100_000)
    assert log.end_offset == 4
    assert log.trim.apply_retention(NOW_MS + 100_000) == 0


def test_an_old_segment_behind_a_young_one_waits(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200, retention_ms=10_000)
    append(log, NOW_MS + 50_000)
    append(log, NOW_MS)
    assert log.trim.apply_retention(NOW_MS + 20_000) == 0


def test_a_segment_without_timestamps_goes_by_its_files_age(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200, retention_ms=10_000)
    append(log, -1)
    written_ms = log.disk.modified_ms(log.active.log.path)
    assert log.trim.apply_retention(written_ms + 10_000) == 0
    assert log.trim.apply_retention(written_ms + 10_001) == 1


def test_the_oldest_go_while_the_log_is_too_large(make_log: MakeLog) -> None:
    log = one_per_segment(make_log, 5, retention_ms=-1)
    size = log.segments[0].size
    for limit, left in ((5 * size, 5), (4 * size + 1, 5), (4 * size, 4), (2 * size, 2)):
        log.update_config(make_log(topic=f"x{limit}", segment_bytes=200, retention_ms=-1, retention_bytes=limit).config)
        log.trim.apply_retention(NOW_MS)
        assert len(log.segments) == left


def test_retention_never_passes_the_high_watermark(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200, retention_ms=10, retention_bytes=0)
    for number in range(4):
        append(log, NOW_MS + number, visible=number < 2)
    assert log.high_watermark == 2
    log.trim.apply_retention(NOW_MS + 1_000_000)
    assert log.log_start_offset == 2
    assert log.end_offset == 4


@pytest.mark.parametrize("policy", [(), ("compact",)])
def test_without_the_delete_policy_only_segments_before_the_log_start_are_removed(
    make_log: MakeLog, policy: tuple[str, ...]
) -> None:
    log = one_per_segment(make_log, 4, cleanup_policy=policy, retention_ms=1, retention_bytes=0)
    assert log.trim.apply_retention(NOW_MS + 1_000_000) == 0
    log.log_start_offset = 2
    assert log.trim.apply_retention(NOW_MS + 1_000_000) == 2


def test_negative_retention_limits_mean_no_limit(make_log: MakeLog) -> None:
    log = one_per_segment(make_log, 4, retention_ms=-1, retention_bytes=-1)
    assert log.trim.apply_retention(NOW_MS + 10**12) == 0


def test_files_are_renamed_at_once_and_removed_after_the_delay(make_log: MakeLog) -> None:
    log = one_per_segment(make_log, 3, retention_ms=10_000, file_delete_delay_ms=500)
    log.trim.apply_retention(NOW_MS + 11_000)
    names = {path.name for path in log.directory.iterdir()}
    assert f"{0:020d}.log.deleted" in names
    assert f"{0:020d}.log" not in names
    log.remove_condemned(NOW_MS + 11_499)
    assert list(log.directory.glob("*.deleted"))
    log.remove_condemned(NOW_MS + 11_500)
    assert not list(log.directory.glob("*.deleted"))


def test_epochs_and_snapshots_of_removed_segments_are_removed(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200, retention_ms=10_000)
    for number in range(4):
        batch = build_batch([NewRecord(b"k", b"v" * 100, NOW_MS + 1000 * number)])
        log.append_as_leader(memoryview(batch), number, NOW_MS)
    log.advance_high_watermark(4)
    log.trim.apply_retention(NOW_MS + 12_000)
    assert log.log_start_offset == 2
    assert log.epochs.entries == ((2, 2), (3, 3))
    assert sorted(int(path.stem) for path in log.directory.glob("*.snapshot")) == [2, 3]
    assert log.epoch_end_offset(1) == (1, 2)


def test_nothing_is_deleted_from_a_partition_whose_disk_failed(make_log: MakeLog) -> None:
    log = one_per_segment(make_log, 4, retention_ms=10_000, retention_bytes=1)
    log.offline = StorageError("the disk is gone")
    assert log.trim.apply_retention(NOW_MS + 10**9) == 0
    log.offline = None
    assert log.trim.apply_retention(NOW_MS + 10**9) == 4
