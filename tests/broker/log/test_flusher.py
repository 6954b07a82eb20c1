"""Group commit: who is answered when, who is waited for, and how many threads it takes."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk, LogFile
from streamactors.broker.log.flusher import Flushed, FlushPool
from streamactors.broker.log.partition.log_append import AppendResult
from streamactors.broker.log.partition.partition_log import PartitionLog
from tests.broker.log.conftest import NOW_MS, MakeLog
from tests.broker.log.flushing import Answers, send
from tests.broker.log.forgetful_disk import ForgetfulDisk
from tests.broker.log.manual_pool import ManualPool


def test_one_sync_answers_everything_that_was_appended_before_it(
    make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool
) -> None:
    log = make_log(disk, flush_messages=1)
    answers = Answers(log)
    for sequence in range(5):
        answers.ask(str(sequence), send(log, sequence))
    assert answers.seen == []
    assert log.hw_limit == 0
    assert not log.advance_high_watermark(log.hw_limit)
    before = disk.syncs
    pool.run()
    assert answers.seen == [(str(sequence), ErrorCode.NONE) for sequence in range(5)]
    assert disk.syncs - before <= 2  # the segment, and once the file of leader epochs
    assert log.hw_limit == log.recovery_point == 5


def test_no_answer_leaves_before_the_sync_that_covers_it(make_log: MakeLog, tmp_path: Path, pool: ManualPool) -> None:
    class Watching(ForgetfulDisk):
        def synced_file(self, file: LogFile) -> None:  # type: ignore[override]
            assert answers.seen == [], "answered before the sync was over"
            # appended while the sync runs: not covered by it, whatever the order of calls
            if file.path.name.endswith(".log") and late == []:
                late.append(send(log, 1))
                answers.ask("late", late[0])
            super().synced_file(file)  # type: ignore[arg-type]

    late: list[AppendResult] = []
    log = make_log(Watching(tmp_path), flush_messages=1)
    answers = Answers(log)
    answers.ask("early", send(log, 0))
    [job] = pool.jobs
    pool.jobs.clear()
    log.disk.on_late = None  # type: ignore[attr-defined]
    ticket = log._flush.begin()
    assert ticket.up_to == 1
    log._flush.carry_out(ticket)
    assert log.end_offset == 2
    log._flush.end(ticket)
    assert log.hw_limit == 1, "the late one is not on the disk"
    answers.seen.clear()
    del Watching.synced_file
    job()
    assert [name for name, _ in answers.seen] == ["early", "late"]


def test_after_a_flush_a_request_is_answered_at_once(make_log: MakeLog, pool: ManualPool) -> None:
    log = make_log(flush_messages=1)
    answers = Answers(log)
    result = send(log, 0)
    log.flush()
    answers.ask("done", result)
    assert answers.seen == [("done", ErrorCode.NONE)]
    assert not pool.jobs


def test_flush_messages_counts(make_log: MakeLog) -> None:
    log = make_log(flush_messages=3)
    required = [send(log, sequence).flush_required for sequence in range(7)]
    assert required == [False, False, True, False, False, True, False]
    log.flush()
    assert [send(log, sequence).flush_required for sequence in (7, 8, 9)] == [False, False, True]


def test_the_high_watermark_stops_before_a_flush_that_is_owed(make_log: MakeLog, pool: ManualPool) -> None:
    log = make_log(flush_messages=3)
    results = [send(log, sequence) for sequence in range(5)]
    assert log.hw_limit == 2
    answers = Answers(log)
    answers.ask("third", results[2])
    pool.run()
    assert log.hw_limit == 5


def test_a_duplicate_waits_for_the_flush_of_its_original(
    make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool
) -> None:
    log = make_log(disk, flush_messages=1)
    answers = Answers(log)
    answers.ask("original", send(log, 0))
    again = send(log, 0)
    assert again.duplicate
    answers.ask("duplicate", again)
    assert answers.seen == []
    pool.run()
    assert answers.seen == [("original", ErrorCode.NONE), ("duplicate", ErrorCode.NONE)]
    assert not send(log, 0).flush_required


def test_a_segment_that_is_closed_goes_to_the_disk_without_being_asked(
    make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool
) -> None:
    log = make_log(disk, segment_bytes=300)
    for sequence in range(9):
        send(log, sequence)
    assert log.recovery_point == 0
    pool.run()
    assert log.recovery_point == 9


def test_threads_come_when_needed_and_go_when_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamactors.broker.log.flusher.IDLE_SECONDS", 0.01)
    pool = FlushPool(lambda: NOW_MS, max_threads=3)
    assert pool.thread_count == 0
    gate, running = threading.Event(), threading.Semaphore(0)

    def job() -> None:
        running.release()
        gate.wait(10)

    for _ in range(5):
        pool.submit(job)
    for _ in range(3):
        assert running.acquire(timeout=10)
    assert pool.thread_count == 3
    gate.set()
    for _ in range(2):
        assert running.acquire(timeout=10)
    for thread in [thread for thread in threading.enumerate() if thread.name == "streamactors-flusher"]:
        thread.join(10)
    assert pool.thread_count == 0
    pool.close()


def test_many_writers_are_all_answered_in_order_and_nothing_is_lost(tmp_path: Path) -> None:
    delivered: list[int] = []
    pool = FlushPool(
        lambda: NOW_MS,
        deliver=lambda outcomes: [delivered.append(len(outcomes)) or done(code) for done, code in outcomes],
    )  # type: ignore[func-returns-value]
    log = PartitionLog.create(
        Disk(), tmp_path / "t-0", "t", 0, None, LogConfig(flush_messages=1), pool=pool, now_ms=NOW_MS
    )
    answered: dict[int, list[int]] = {producer: [] for producer in range(4)}
    everything = threading.Semaphore(0)

    def write(producer: int) -> None:
        for sequence in range(50):
            result = send(log, sequence, producer=producer)

            def done(code: ErrorCode, sequence: int = sequence, result: AppendResult = result) -> None:
                assert code == ErrorCode.NONE
                assert log.recovery_point >= result.next_offset
                answered[producer].append(sequence)
                everything.release()

            log.flusher.request(result, done)

    writers = [threading.Thread(target=write, args=(producer,)) for producer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for _ in range(200):
        assert everything.acquire(timeout=30)
    assert answered == {producer: list(range(50)) for producer in range(4)}
    assert log.hw_limit == log.end_offset == 200
    log.close()
    pool.close()
    assert pool.thread_count == 0


def test_a_deleted_log_answers_waiting_requests(make_log: MakeLog, pool: ManualPool) -> None:
    log = make_log(flush_messages=1)
    answers = Answers(log)
    answers.ask("waiting", send(log, 0))
    log.delete(log.directory.with_name("orders-0.gone-delete"))
    pool.run()
    assert [name for name, _ in answers.seen] == ["waiting"]


class ToldCondition(threading.Condition):
    """Says when somebody has begun to wait."""

    def __init__(self, lock: threading.RLock) -> None:
        super().__init__(lock)
        self.waited_for = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_for.set()
        return super().wait(timeout)


AS_LONG_AS_IT_TAKES = 1e12


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamactors.broker.log.flusher.LONGEST_GATHERING_SECONDS", 300.0)


@pytest.mark.usefixtures("patient")
def test_a_sync_waits_for_the_writers_that_were_just_answered(tmp_path: Path) -> None:
    # The first sync answers one writer while another waits. Were the second to begin at once, each of the two would
    # wait for the other's sync and then for its own, forever.
    delivered: list[int] = []
    threads: list[threading.Thread] = []

    class Late(ForgetfulDisk):
        def synced_file(self, file: LogFile) -> None:  # type: ignore[override]
            if file.path.name.endswith(".log") and not delivered:
                answers.ask("waits", send(log, 1))
            super().synced_file(file)  # type: ignore[arg-type]

    def deliver(outcomes: list[Flushed]) -> None:
        delivered.append(len(outcomes))
        if len(delivered) == 1:
            threads.append(threading.Thread(target=write_again))
            threads[0].start()

    def write_again() -> None:
        came_back.waited_for.wait(10)
        answers.ask("came back", send(log, 2))

    pool = ManualPool(deliver, AS_LONG_AS_IT_TAKES)
    log = PartitionLog.create(
        Late(tmp_path), tmp_path / "t-0", "t", 0, None, LogConfig(flush_messages=1), pool=pool, now_ms=NOW_MS
    )
    came_back = log.flusher._enough_came = ToldCondition(log.lock)
    answers = Answers(log)
    answers.ask("first", send(log, 0))
    pool.run()
    threads[0].join()
    assert delivered == [1, 2]
    log.abandon()


@pytest.mark.usefixtures("patient")
def test_a_single_writer_is_not_waited_for(make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool) -> None:
    pool.gathering = AS_LONG_AS_IT_TAKES
    log = make_log(disk, flush_messages=1)
    condition = log.flusher._enough_came = ToldCondition(log.lock)
    answers = Answers(log)
    for sequence in range(3):
        answers.ask(str(sequence), send(log, sequence))
        pool.run()
    assert len(answers.seen) == 3
    assert not condition.waited_for.is_set()


def test_a_writer_that_does_not_return_is_not_waited_for_long(
    make_log: MakeLog, disk: ForgetfulDisk, pool: ManualPool
) -> None:
    pool.gathering = AS_LONG_AS_IT_TAKES  # so that the limit is what ends it
    log = make_log(disk, flush_messages=1)
    answers = Answers(log)
    for name in ("a", "b"):
        answers.ask(name, send(log, log.end_offset))
    pool.run()
    answers.ask("c", send(log, 2))
    pool.run()
    assert [name for name, _ in answers.seen] == ["a", "b", "c"]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("away", "waited"), [(0.2, True), (0.8, False)], ids=["quick writers", "slow writers"])
def test_a_sync_waits_for_writers_only_where_they_are_quicker_than_the_disk(
    make_log: MakeLog, pool: ManualPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: float, waited: bool
) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("streamactors.broker.log.flusher.time", SimpleNamespace(monotonic=lambda: clock.now))

    class OneSecond(ForgetfulDisk):
        def synced_file(self, file: LogFile) -> None:  # type: ignore[override]
            clock.now += file.path.name.endswith(".log")
            super().synced_file(file)  # type: ignore[arg-type]

    class InNoTime(ToldCondition):
        def wait(self, timeout: float | None = None) -> bool:
            self.waited_for.set()
            clock.now += timeout or 0
            return False

    pool.gathering = 0.5
    log = make_log(OneSecond(tmp_path), flush_messages=1)
    condition = log.flusher._enough_came = InNoTime(log.lock)
    answers = Answers(log)
    for _ in range(4):
        answers.ask("one", send(log, log.end_offset))
        answers.ask("other", send(log, log.end_offset))
        pool.run()
        clock.now += away
    assert not condition.waited_for.is_set()
    answers.ask("one", send(log, log.end_offset))
    pool.run()
    assert condition.waited_for.is_set() == waited
    assert len(answers.seen) == 9
