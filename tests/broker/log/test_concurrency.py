"""One log, many threads: writers, readers, flushes, retention, compaction and closing of idle files at once."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from streamactors.broker.errors import ErrorCode, OffsetOutOfRange
from streamactors.broker.log.cleaning.cleaner import Cleaner
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.flusher import FlushPool
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS

WRITERS, BATCHES = 3, 150


class Storm:
    """Threads that work on one log until its writers are done."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.done = threading.Event()
        self.errors: list[BaseException] = []
        self.answered = threading.Semaphore(0)
        self.written: dict[int, bytes] = {}

    def guarded(self, work: object, *arguments: object) -> threading.Thread:
        def run() -> None:
            try:
                work(*arguments)  # type: ignore[operator]
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def write(self, writer: int) -> None:
        for number in range(BATCHES):
            value = b"%d/%d" % (writer, number)
            batch = build_batch(
                [NewRecord(b"key %d" % (number % 7), value, NOW_MS)],
                producer_id=writer,
                producer_epoch=0,
                base_sequence=number,
            )
            result = self.log.append_as_leader(memoryview(batch), 1, NOW_MS)
            self.written[result.base_offset] = value

            def done(code: ErrorCode) -> None:
                assert code == ErrorCode.NONE
                self.log.advance_high_watermark(self.log.hw_limit)
                self.answered.release()

            self.log.flusher.request(result, done)

    def read(self) -> None:
        rng = random.Random(threading.get_ident())
        while not self.done.is_set():
            start, up_to = self.log.log_start_offset, self.log.high_watermark
            offset = rng.randint(start, max(start, up_to))
            try:
                piece = self.log.read(offset, rng.randrange(1, 3000), up_to)
            except OffsetOutOfRange:
                continue  # retention was faster
            with piece:
                for batch in iter_batches(piece.read()):
                    batch.ensure_valid()
                    assert batch.base_offset < up_to
                    for record in batch.records():
                        assert self.written.get(record.offset, record.value) == record.value

    def again_and_again(self, work: object) -> None:
        while not self.done.is_set():
            work()  # type: ignore[operator]

    def play(self, *works: object) -> None:
        others = [self.guarded(self.read) for _ in range(2)]
        others += [self.guarded(self.again_and_again, work) for work in works]
        writers = [self.guarded(self.write, writer) for writer in range(WRITERS)]
        for writer in writers:
            writer.join()
        for _ in range(WRITERS * BATCHES):
            assert self.answered.acquire(timeout=60)
        self.done.set()
        for other in others:
            other.join()
        assert self.errors == []
        assert sorted(self.written) == list(range(WRITERS * BATCHES))


def make(folder: Path, pool: FlushPool, **settings: object) -> PartitionLog:
    config = LogConfig(flush_messages=1, segment_bytes=2_000, index_interval_bytes=200, **settings)  # type: ignore[arg-type]
    return PartitionLog.create(Disk(max_open=8), folder / "t-0", "t", 0, None, config, pool=pool, now_ms=NOW_MS)


def test_readers_and_retention_beside_writers(tmp_path: Path) -> None:
    pool = FlushPool(lambda: NOW_MS)
    log = make(tmp_path, pool, retention_bytes=10_000, retention_ms=-1, file_delete_delay_ms=0)

    def trim() -> None:
        log.trim.apply_retention(NOW_MS)
        log.remove_condemned(NOW_MS)
        log.close_idle()

    Storm(log).play(trim)
    trim()  # on a busy machine the writers may keep the lock of the log from that thread
    assert log.log_start_offset > 0
    assert log.offline is None
    log.close()
    pool.close()


def test_readers_and_compaction_beside_writers(tmp_path: Path) -> None:
    pool = FlushPool(lambda: NOW_MS)
    log = make(tmp_path, pool, cleanup_policy=("compact",), file_delete_delay_ms=0)
    cleaner = Cleaner(lambda: [log], None)

    def compact() -> None:
        cleaner.clean(log, NOW_MS)
        log.remove_condemned(NOW_MS)
        log.close_idle()

    storm = Storm(log)
    storm.play(compact)
    log.roll(NOW_MS)
    assert cleaner.clean(log, NOW_MS)
    latest: dict[bytes, bytes] = {}
    for offset in sorted(storm.written):
        latest[b"key %d" % (int(storm.written[offset].split(b"/")[1]) % 7)] = storm.written[offset]
    kept = {r.key: r.value for batch in log.reader.replay(0, log.end_offset) for r in batch.records()}
    assert kept == latest
    log.close()
    pool.close()
