"""A disk that fails: what a failed flush or append takes back, who is told, and when the partition goes offline."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from streamactors.broker.errors import ErrorCode, OutOfOrderSequence, StorageError
from streamactors.broker.log.disk import Disk, LogFile
from streamactors.broker.log.partition.partition_log import PartitionLog
from tests.broker.log.conftest import NOW_MS, MakeLog
from tests.broker.log.flushing import Answers, send
from tests.broker.log.forgetful_disk import ForgetfulDisk
from tests.broker.log.manual_pool import ManualPool

pytestmark = pytest.mark.expects_log("records are removed", "the partition is offline for writes")


def test_a_failed_flush_takes_back_that_batch_and_every_later_one(
    make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool
) -> None:
    # five in flight from an idempotent producer, the second fails: 45 for the later ones, and success after a retry
    log = make_log(disk, flush_messages=1)
    answers = Answers(log)
    answers.ask("0", send(log, 0))
    pool.run()
    disk.fail_next("sync")
    for sequence in range(1, 5):
        answers.ask(str(sequence), send(log, sequence))
    answers.ask("other producer", send(log, 0, producer=8))
    answers.ask("no producer", send(log, 0, producer=-1))
    answers.ask("no producer either", send(log, 0, producer=-1))
    pool.run()
    assert answers.seen == [
        ("0", ErrorCode.NONE),
        ("1", ErrorCode.KAFKA_STORAGE_ERROR),
        ("2", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ("3", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ("4", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ("other producer", ErrorCode.KAFKA_STORAGE_ERROR),
        ("no producer", ErrorCode.KAFKA_STORAGE_ERROR),
        ("no producer either", ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    assert (log.end_offset, log.hw_limit) == (1, 1)
    with pytest.raises(OutOfOrderSequence):
        send(log, 2)
    for sequence in range(1, 5):
        answers.ask("again", send(log, sequence))
    pool.run()
    assert answers.seen[8:] == [("again", ErrorCode.NONE)] * 4
    assert [r.value for batch in log.reader.replay(0, 5) for r in batch.records()] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_request_that_comes_after_its_append_was_taken_back_is_refused(
    make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool
) -> None:
    log = make_log(disk, flush_messages=1)
    answers = Answers(log)
    answers.ask("first", send(log, 0))
    between = send(log, 1)  # appended, and its request is still on the way
    disk.fail_next("sync")
    pool.run()
    send(log, 0)
    log.flush()
    assert log.recovery_point == 1
    answers.ask("between", between)
    assert answers.seen == [("first", ErrorCode.KAFKA_STORAGE_ERROR), ("between", ErrorCode.KAFKA_STORAGE_ERROR)]


def test_two_failures_in_a_row_take_the_partition_offline_and_reads_go_on(
    make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool, reopen: Callable[..., PartitionLog]
) -> None:
    log = make_log(disk, flush_messages=1)
    answers = Answers(log)
    answers.ask("kept", send(log, 0))
    pool.run()
    for _ in range(2):
        disk.fail_next("sync")
        answers.ask("lost", send(log, 1))
        pool.run()
    assert [code for _, code in answers.seen] == [ErrorCode.NONE] + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert log.offline is not None
    with pytest.raises(
        StorageError, match=r"orders-0: cannot flush to disk: Input/output error \(.*restart the broker"
    ):
        send(log, 1)
    assert [r.value for batch in log.reader.replay(0, 1) for r in batch.records()] == [b"0"]
    again = reopen(log, disk=disk)
    assert again.end_offset == 1
    assert send(again, 1).base_offset == 1


class DyingDisk(ForgetfulDisk):
    """From the first failure on its folders cannot be listed either."""

    dead = False

    def before(self, doing: str, path: Path) -> None:
        try:
            super().before(doing, path)
        except OSError:
            self.dead = True
            raise

    def names(self, path: Path) -> list[str]:
        if self.dead:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return super().names(path)


def test_waiting_requests_get_an_error_when_a_truncation_fails_half_way(
    make_log: MakeLog, tmp_path: Path, pool: ManualPool
) -> None:
    # what is known of the producer cannot be taken back: no retry may be measured by it
    disk = DyingDisk(tmp_path)
    log = make_log(disk, flush_messages=1)
    answers = Answers(log)
    answers.ask("0", send(log, 0))
    pool.run()
    disk.fail_next("sync")
    answers.ask("1", send(log, 1))
    pool.run()
    assert answers.seen == [("0", ErrorCode.NONE), ("1", ErrorCode.KAFKA_STORAGE_ERROR)]
    with pytest.raises(StorageError, match="cannot truncate"):
        send(log, 1)


def test_a_failure_that_may_have_hit_acknowledged_records_takes_the_partition_offline_at_once(
    make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool
) -> None:
    log = make_log(disk, flush_messages=3)
    answers = Answers(log)
    results = [send(log, sequence) for sequence in range(3)]
    log.advance_high_watermark(log.hw_limit)
    disk.fail_next("sync")
    answers.ask("third", results[2])
    pool.run()
    assert answers.seen == [("third", ErrorCode.KAFKA_STORAGE_ERROR)]
    assert log.offline is not None
    assert log.end_offset == log.high_watermark == 2, "what was acknowledged without a flush stays"


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO])
def test_a_disk_that_takes_no_append_makes_the_partition_offline_and_a_restart_recovers(
    make_log: MakeLog, disk: ForgetfulDisk, reopen: Callable[..., PartitionLog], number: int
) -> None:
    log = make_log(disk)
    send(log, 0)
    disk.fail_next("write", number=number)
    for _ in range(2):
        with pytest.raises(
            StorageError, match=r"orders-0: cannot append: .* the partition is offline for writes"
        ) as caught:
            send(log, 1)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.end_offset == 1
    with log.read(0, 1000, 1) as piece:
        assert piece.length
    assert send(reopen(log, disk=disk), 1).base_offset == 1


def test_a_disk_that_takes_half_a_batch_leaves_no_trace_of_it(make_log: MakeLog, tmp_path: Path) -> None:
    class HalfFile(LogFile):
        __slots__ = ()

        def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
            if position > 0 and self.path.name.endswith(".log"):
                super().write_at(memoryview(data)[: len(data) // 2], position)
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write_at(data, position)

    class FullDisk(Disk):
        def file(self, path: Path) -> LogFile:
            return HalfFile(path, self.open_files)

    log = make_log(FullDisk())
    send(log, 0)
    size = log.active.log.size()
    with pytest.raises(StorageError, match="No space left"):
        send(log, 1)
    assert log.active.log.size() == size


def test_a_failed_flush_makes_no_idle_producer_look_old(
    make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool
) -> None:
    # The producers were loaded again as last seen in 1970: the next expiry forgot those that were idle just then, and a
    # batch that one of them sent again was appended twice.
    log = make_log(disk, flush_messages=1)
    answers = Answers(log)
    answers.ask("idle", send(log, 0, producer=8))
    pool.run()
    disk.fail_next("sync")
    answers.ask("lost", send(log, 0))
    pool.run()
    assert answers.seen == [("idle", ErrorCode.NONE), ("lost", ErrorCode.KAFKA_STORAGE_ERROR)]
    assert log.expire_producers(NOW_MS + 1000, 86_400_000) == 0
    assert send(log, 0, producer=8).duplicate


def test_segments_removed_by_a_failed_flush_stay_open_for_held_slices(
    make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool
) -> None:
    log = make_log(disk, flush_messages=1, segment_bytes=100)
    answers = Answers(log)
    answers.ask("kept", send(log, 0))
    pool.run()
    disk.fail_next("sync")
    for sequence in (1, 2):
        answers.ask("lost", send(log, sequence))
    pool.run()
    assert log.end_offset == 1
    assert log.remove_condemned(NOW_MS + log.config.file_delete_delay_ms - 1) == 0
    assert log.remove_condemned(NOW_MS + log.config.file_delete_delay_ms) > 0
