"""Work on the data folder from time to time: checkpoints, retention, deletion, flushing by age, producers that are forgotten."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from streamactors.broker.errors import StorageError
from streamactors.broker.log.checkpoint_text import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from streamactors.broker.log.config import LogConfig, ManagerConfig
from streamactors.broker.log.folders.data_folder import CLEAN_SHUTDOWN
from streamactors.broker.log.manager import LogManager
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.failing_folder import FailingDisk
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.data_folder import append, crash
from tests.broker.log.manual_pool import ManualPool

TOPIC_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def test_deleting_frees_the_name_at_once_and_the_files_after_the_delay(start: Callable[..., LogManager]) -> None:
    logs = start()
    log = logs.create("t", 0, TOPIC_ID, LogConfig(file_delete_delay_ms=20_000))
    append(log)
    piece = log.read(0, 1000, 1)
    logs.delete("t", 0)
    logs.delete("t", 0)
    assert logs.get("t", 0) is None
    with pytest.raises(StorageError, match="t-0: the log was deleted"):
        append(log)
    assert piece.read()
    piece.release()
    fresh = logs.create("t", 0, uuid.uuid4(), LogConfig())
    assert fresh.end_offset == 0
    [left] = [name for name in os.listdir(logs.folder) if name.endswith("-delete")]
    assert left.startswith("t-0.")
    logs.tick(NOW_MS)
    logs.tick(NOW_MS + 19_999)
    assert (logs.folder / left).exists()
    logs.tick(NOW_MS + 40_000)
    assert not (logs.folder / left).exists()


class TwoFolders:
    """Two data folders on a disk that can fail: logs of topic `a` are in the first, of topic `b` in the second."""

    def __init__(self, root: Path, start: Callable[..., LogManager]) -> None:
        self.disk = FailingDisk()
        self.paths = (root / "a", root / "b")
        self.logs = start(self.paths[0], others=[self.paths[1]], disk=self.disk)
        for path in self.paths:
            for partition in range(2):
                self.logs.folders.preferred[path.name, partition] = path
                append(self.logs.create(path.name, partition, None, LogConfig()), 3)

    def deleted(self) -> list[str]:
        """The topics with folders of deleted logs."""
        return [each.parent.name for path in self.paths for each in path.iterdir() if each.name.endswith("-delete")]


@pytest.fixture
def two(tmp_path: Path, start: Callable[..., LogManager]) -> TwoFolders:
    return TwoFolders(tmp_path, start)


@pytest.mark.expects_log("was not closed cleanly")
def test_a_folder_that_cannot_be_removed_does_not_hold_up_the_others(
    two: TwoFolders, caplog: pytest.LogCaptureFixture
) -> None:
    for topic, partition in (("b", 0), ("a", 0), ("b", 1), ("a", 1)):
        two.logs.delete(topic, partition)
    two.disk.fail(two.paths[1])
    two.logs.tick(NOW_MS)
    two.logs.tick(NOW_MS + 120_000)
    assert two.deleted() == ["b", "b"]
    assert [each.getMessage() for each in caplog.records if "cannot remove" in each.getMessage()]


def test_a_folder_that_was_removed_by_another_hand_is_no_error(
    two: TwoFolders, caplog: pytest.LogCaptureFixture
) -> None:
    two.logs.delete("a", 0)
    [gone] = [each for each in two.paths[0].iterdir() if each.name.endswith("-delete")]
    shutil.rmtree(gone)
    two.logs.tick(NOW_MS)
    two.logs.tick(NOW_MS + 120_000)
    assert not [each for each in caplog.records if each.name.startswith("streamactors.broker")]


def test_a_deleted_log_of_a_failed_folder_does_not_spoil_the_shutdown(two: TwoFolders) -> None:
    # The removal raised, and neither checkpoints nor marks were written in the good folder: the next start recovered every log, and the
    # epoch of the broker was lost.
    two.logs.delete("b", 0)
    two.disk.fail(two.paths[1])
    two.logs.failed(two.logs.folders.all[1], OSError(errno.EIO, "Input/output error"))
    two.logs.take_offline(two.logs.folders.all[1])
    two.logs.close()
    assert [(each / CLEAN_SHUTDOWN).exists() for each in two.paths] == [True, False]
    assert "a 0 3" in (two.paths[0] / RECOVERY_POINTS).read_text()


@pytest.mark.expects_log("cannot close the log", "cannot write", "was not closed cleanly")
@pytest.mark.parametrize("what", ["", "b-0", f"{RECOVERY_POINTS}.tmp"])
def test_a_data_folder_that_fails_at_the_stop_does_not_spoil_the_others(two: TwoFolders, what: str) -> None:
    two.disk.fail(two.paths[1] / what)
    two.logs.close()
    assert [(each / CLEAN_SHUTDOWN).exists() for each in two.paths] == [True, False]
    assert "a 0 3" in (two.paths[0] / RECOVERY_POINTS).read_text()


@pytest.mark.expects_log("cannot remove old segments", "cannot write")
def test_a_segment_that_cannot_be_removed_does_not_hold_up_others(two: TwoFolders) -> None:
    for name in ("b", "a"):
        log = two.logs.get(name, 0)
        assert log is not None
        log.roll(NOW_MS)
        log.trim.delete_records(3, NOW_MS)
    two.logs.delete("a", 1)
    two.disk.fail(two.paths[1])
    two.logs.tick(NOW_MS)
    two.logs.tick(NOW_MS + 120_000)
    assert not list((two.paths[0] / "a-0").glob("*.deleted"))
    assert two.deleted() == []


def test_an_unfinished_deletion_is_finished_after_a_restart(start: Callable[..., LogManager]) -> None:
    logs = start()
    name = "t" * 249
    logs.create(name, 0, TOPIC_ID, LogConfig())
    logs.delete(name, 0)
    assert max(map(len, os.listdir(logs.folder))) <= 255
    crash(logs)
    again = start()
    assert again.logs() == []
    assert not [each for each in os.listdir(logs.folder) if each.endswith("-delete")]


def test_ticks_write_checkpoints_in_their_time(start: Callable[..., LogManager]) -> None:
    logs = start()
    log = logs.create("t", 0, TOPIC_ID, LogConfig())
    append(log, 4)
    assert logs.tick(NOW_MS) == 5_000
    assert not (logs.folder / HIGH_WATERMARKS).exists()
    logs.tick(NOW_MS + 5_000)
    assert (logs.folder / HIGH_WATERMARKS).read_text() == "0\n1\nt 0 4\n"
    assert not (logs.folder / RECOVERY_POINTS).exists()
    log.flush()
    log.trim.delete_records(3, NOW_MS)
    logs.tick(NOW_MS + 60_000)
    assert (logs.folder / RECOVERY_POINTS).read_text() == "0\n1\nt 0 4\n"
    assert (logs.folder / LOG_STARTS).read_text() == "0\n1\nt 0 3\n"


def test_a_clock_that_goes_back_does_not_stop_the_work(start: Callable[..., LogManager]) -> None:
    logs = start()
    append(logs.create("t", 0, TOPIC_ID, LogConfig()), 4)
    logs.tick(NOW_MS)
    assert logs.tick(NOW_MS - 86_400_000) <= 5_000
    assert (logs.folder / HIGH_WATERMARKS).exists()


def test_idle_ticks_write_nothing(start: Callable[..., LogManager]) -> None:
    logs = start()
    append(logs.create("t", 0, TOPIC_ID, LogConfig()), 4)
    logs.tick(NOW_MS)
    logs.tick(NOW_MS + 100_000)
    before = {path: path.stat().st_mtime_ns for path in logs.folder.rglob("*")}
    logs.tick(NOW_MS + 200_000)
    assert {path: path.stat().st_mtime_ns for path in logs.folder.rglob("*")} == before


def test_ticks_retain_delete_and_let_go(start: Callable[..., LogManager]) -> None:
    logs = start(config=ManagerConfig(log_retention_check_interval_ms=1000))
    log = logs.create("t", 0, TOPIC_ID, LogConfig(retention_ms=1000, segment_bytes=300, file_delete_delay_ms=5000))
    append(log, 10)
    logs.tick(NOW_MS)
    logs.tick(NOW_MS + 1001)
    assert log.log_start_offset == 10
    assert list(log.directory.glob("*.deleted"))
    assert not any(segment.log.is_open for segment in log.segments)
    logs.tick(NOW_MS + 20_000)
    assert not list(log.directory.glob("*.deleted"))


@pytest.mark.expects_log("the partition is offline for writes", "was not closed cleanly")
@pytest.mark.parametrize("trouble", ["an index that cannot be read", "an index that is gone, and a damaged batch"])
def test_a_log_in_trouble_does_not_hold_up_the_retention_of_others(
    start: Callable[..., LogManager], caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    # Its error ended the work: the logs behind it were never retained. After the damaged batch producers were never forgotten, and what was
    # deleted was never removed.
    disk = FailingDisk()
    logs = start(disk=disk, config=ManagerConfig(log_retention_check_interval_ms=1000))
    first, second = (logs.create(name, 0, None, LogConfig(retention_ms=1000, segment_bytes=300)) for name in ("a", "b"))
    for log in (first, second):
        append(log, 10)
    logs.delete(logs.create("gone", 0, None, LogConfig(file_delete_delay_ms=0)).topic, 0)
    base = first.directory / "00000000000000000000"
    if trouble == "an index that cannot be read":
        disk.fail(base.with_suffix(".timeindex"))
    else:
        base.with_suffix(".timeindex").unlink()
        with base.with_suffix(".log").open("r+b") as file:
            file.write(bytes(12))
    logs.tick(NOW_MS)
    logs.tick(NOW_MS + 20_000)
    assert (first.log_start_offset, second.log_start_offset) == (0, 10)
    assert not list(logs.folder.glob("*-delete"))
    assert [each.getMessage() for each in caplog.records if "a-0: cannot remove old records" in each.getMessage()]


def test_nothing_is_deleted_by_the_defaults_before_the_topics_settings_are_known(
    start: Callable[..., LogManager],
) -> None:
    logs = start()
    append(logs.create("t", 0, TOPIC_ID, LogConfig(retention_ms=-1)), 3)
    logs.close()
    again = start(config=ManagerConfig(log_retention_check_interval_ms=1000))
    log = again.get("t", 0)
    assert log is not None
    week_ms = 8 * 86_400_000
    again.tick(NOW_MS + week_ms)
    again.tick(NOW_MS + 2 * week_ms)
    assert log.log_start_offset == 0
    log.update_config(LogConfig())
    again.tick(NOW_MS + 3 * week_ms)
    assert log.log_start_offset == 3


def test_flush_ms_bounds_the_age_of_unflushed_records(start: Callable[..., LogManager]) -> None:
    pool = ManualPool()
    logs = start(flush_pool=pool)
    log = logs.create("t", 0, TOPIC_ID, LogConfig(flush_ms=1000))
    idle = logs.create("idle", 0, TOPIC_ID, LogConfig(flush_ms=1000))
    append(log)
    assert logs.tick(NOW_MS) <= 500
    pool.run()
    assert log.recovery_point == 0
    logs.tick(NOW_MS + 500)
    pool.run()
    assert (log.recovery_point, idle.recovery_point) == (1, 0)
    logs.tick(NOW_MS + 1000)
    assert pool.run() == 0


def test_flush_ms_of_zero_flushes_at_every_look_and_lets_the_thread_rest(start: Callable[..., LogManager]) -> None:
    # The log thread woke every millisecond for flush.ms=0.
    pool = ManualPool()
    logs = start(flush_pool=pool)
    log = logs.create("t", 0, TOPIC_ID, LogConfig(flush_ms=0))
    append(log)
    assert logs.tick(NOW_MS) == 10
    pool.run()
    assert log.recovery_point == 1


def test_a_negative_flush_ms_means_never(start: Callable[..., LogManager]) -> None:
    # log.flush.scheduler.interval.ms=-1 made every log flush on each look, once a millisecond.
    pool = ManualPool()
    logs = start(flush_pool=pool, config=ManagerConfig(replica_high_watermark_checkpoint_interval_ms=-1))
    log = logs.create("t", 0, TOPIC_ID, LogConfig(flush_ms=-1))
    append(log)
    assert logs.tick(NOW_MS) == 10_000
    assert pool.run() == 0
    assert log.recovery_point == 0


def test_flush_ms_holds_when_the_clock_goes_back(start: Callable[..., LogManager]) -> None:
    pool = ManualPool()
    logs = start(flush_pool=pool)
    log = logs.create("t", 0, TOPIC_ID, LogConfig(flush_ms=1000))
    append(log)
    logs.tick(NOW_MS)
    logs.tick(NOW_MS - 3_600_000)
    logs.tick(NOW_MS - 3_600_000 + 500)
    pool.run()
    assert log.recovery_point == 1


def test_producers_are_forgotten_in_time(start: Callable[..., LogManager]) -> None:
    logs = start()
    log = logs.create("t", 0, TOPIC_ID, LogConfig())
    batch = build_batch([NewRecord(None, b"", NOW_MS)], producer_id=1, producer_epoch=0, base_sequence=0)
    log.append_as_leader(memoryview(batch), 0, NOW_MS)
    logs.tick(NOW_MS)
    logs.tick(NOW_MS + 86_000_000)
    assert len(log.producers()) == 1
    logs.tick(NOW_MS + 87_400_000)
    assert log.producers() == []


def test_the_cleaners_points_survive(start: Callable[..., LogManager]) -> None:
    logs = start()
    config = LogConfig(cleanup_policy=("compact",))
    log = logs.create("t", 0, TOPIC_ID, config)
    append(log, 3)
    log.roll(NOW_MS)
    assert logs.cleaner.run_once(NOW_MS)
    assert (logs.folder / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    logs.close()
    again = start()
    back = again.get("t", 0)
    assert back is not None
    back.update_config(config)
    assert again.cleaner.cleaned_to(back) == 3
    again.delete("t", 0)
    again.create("t", 0, TOPIC_ID, config)
    assert again.cleaner.cleaned_to(again.get("t", 0)) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(("interval_ms", "written"), [(-1, False), (0, True)])
def test_a_negative_interval_means_never_and_zero_is_no_busy_loop(
    start: Callable[..., LogManager], interval_ms: int, written: bool
) -> None:
    # replica.high.watermark.checkpoint.interval.ms=-1 was due again at once: the disk's thread spun.
    logs = start(config=ManagerConfig(replica_high_watermark_checkpoint_interval_ms=interval_ms))
    append(logs.create("t", 0, TOPIC_ID, LogConfig()))
    assert logs.tick(NOW_MS) >= 100
    assert logs.tick(NOW_MS + 1000) >= 100
    assert (logs.folder / HIGH_WATERMARKS).exists() == written
