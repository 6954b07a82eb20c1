"""A log against a plain list: any order of appends, rolls, reads, truncations, retention, compaction and reopenings.

The model is a list of (offset, key, value) and three numbers. Invariants after every step: the log's end, its start, and
what a reader sees from every offset on.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamactors.broker.log.cleaning.cleaner import Cleaner
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.manual_pool import ManualPool
from tests.broker.log.quick_disk import QuickDisk

KEYS = [b"a", b"b", b"c", b"a key that is longer than sixteen bytes"]


class Kept(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None
    timestamp: int


class LogMachine(RuleBasedStateMachine):
    policy: tuple[str, ...] = ("delete",)

    @initialize(segment_bytes=st.integers(700, 1300), interval=st.integers(0, 400))
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.pool = ManualPool()
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            cleanup_policy=self.policy,
            delete_retention_ms=2**40,
            segment_index_bytes=1000,
        )
        self.log = PartitionLog.create(
            QuickDisk(), self.folder / "t-0", "t", 0, None, self.config, pool=self.pool, now_ms=NOW_MS
        )
        self.cleaner = Cleaner(lambda: [self.log], None)
        self.model: list[Kept] = []
        self.batch_starts: list[int] = []  # every offset at which a batch begins
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.clock = NOW_MS

    # ---- what is done to it ----

    @rule(
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=5),
        size=st.none() | st.integers(0, 60),
        codec=st.sampled_from(Compression),
        step=st.integers(-50, 100),
    )
    def append(self, keys: list[bytes], size: int | None, codec: Compression, step: int) -> None:
        self.clock += step
        value = None if size is None else b"%d:" % self.end + b"v" * size
        records = [NewRecord(key, value, self.clock + index % 2) for index, key in enumerate(keys)]
        raw = build_batch(records, compression=codec)
        result = self.log.append_as_leader(memoryview(raw), self.epoch, NOW_MS)
        assert (result.base_offset, result.last_offset) == (self.end, self.end + len(keys) - 1)
        self.batch_starts.append(self.end)
        self.model += [Kept(self.end + i, r.key or b"", r.value, r.timestamp) for i, r in enumerate(records)]
        self.end += len(keys)
        self.log.advance_high_watermark(self.log.hw_limit)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def new_leader_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_leader_epoch(self.epoch)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        # where a batch begins, as a follower truncates; between batches compaction may have left nothing
        offsets = [offset for offset in self.batch_starts if self.start <= offset] + [self.end]
        offset = offsets[int(share * (len(offsets) - 1))]
        self.end = self.log.truncation.truncate_to(offset, NOW_MS)
        assert self.end == offset
        self.model = [kept for kept in self.model if kept.offset < offset]
        if self.policy == ("compact",) and not self.model:
            self.follow_the_start()  # compaction had left nothing before the end
        self.batch_starts = [start for start in self.batch_starts if start < offset]

    @precondition(lambda self: self.policy == ("delete",))
    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        offset = self.start + int(share * (self.end - self.start))
        self.start = self.log.trim.delete_records(offset, NOW_MS)
        assert self.start == offset

    @precondition(lambda self: self.policy == ("delete",))
    @rule(share=st.floats(0, 1))
    def retain_bytes(self, share: float) -> None:
        limit = int(share * self.log.size_bytes)
        self.log.update_config(dataclasses.replace(self.config, retention_bytes=limit, retention_ms=-1))
        self.log.trim.apply_retention(NOW_MS)
        assert self.log.size_bytes <= limit + self.log.segments[0].size
        self.follow_the_start()

    @precondition(lambda self: self.policy == ("delete",))
    @rule(age=st.integers(0, 200))
    def retain_time(self, age: int) -> None:
        self.log.update_config(dataclasses.replace(self.config, retention_bytes=-1, retention_ms=age))
        self.log.trim.apply_retention(self.clock)
        self.follow_the_start()
        first = self.log.segments[0]
        end = self.log.next_base_offset(first)
        left = [kept.timestamp for kept in self.model if first.base_offset <= kept.offset < end]
        assert not left or max(left) >= self.clock - age, "the oldest segment that is left is young enough"

    def follow_the_start(self) -> None:
        """Retention drops whole segments, always from the start."""
        assert self.start <= self.log.log_start_offset <= self.end
        self.start = self.log.log_start_offset

    @precondition(lambda self: self.policy == ("compact",))
    @rule()
    def compact(self) -> None:
        before = self.log.end_offset
        end = self.log.active.base_offset
        done = self.cleaner.clean(self.log, NOW_MS)
        assert self.log.end_offset == before
        if done:
            latest = {kept.key: kept.offset for kept in self.model if kept.offset < end}
            self.model = [k for k in self.model if k.offset >= end or latest[k.key] == k.offset]

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        checkpoints = Checkpoints(
            clean=clean,
            log_start_offset=self.start,
            recovery_point=self.log.recovery_point if clean else 0,
            high_watermark=self.log.high_watermark,
        )
        if clean:
            self.log.close()
            assert self.log.closed_in_order
        else:
            self.log.abandon()
        self.log = PartitionLog.open(
            QuickDisk(), self.folder / "t-0", "t", 0, self.config, checkpoints, pool=self.pool, now_ms=NOW_MS
        )
        self.log.update_config(self.config)
        self.log.advance_high_watermark(self.log.hw_limit)
        if self.log.latest_epoch >= 0:
            assert self.log.latest_epoch <= self.epoch

    @rule()
    def close_idle(self) -> None:
        self.log.close_idle()

    @rule()
    def flush(self) -> None:
        self.pool.run()
        self.log.flush()
        assert self.log.recovery_point == self.end

    # ---- what must hold ----

    @rule(share=st.floats(0, 1), max_bytes=st.integers(1, 2000), bound=st.floats(0, 1))
    def fetch(self, share: float, max_bytes: int, bound: float) -> None:
        offset = self.start + int(share * (self.end - self.start))
        up_to = offset + int(bound * (self.end - offset))
        starts = [start for start in self.batch_starts if start <= up_to]
        up_to = self.end if up_to == self.end else max(starts, default=self.start)
        with self.log.read(offset, max_bytes, up_to) as piece:
            data = piece.read()
            batches = list(iter_batches(data))
            assert sum(batch.size for batch in batches) == len(data) == piece.length, "only whole batches"
            assert len(data) <= max_bytes or len(batches) == 1
            expected = [kept for kept in self.model if offset <= kept.offset < up_to]
            got = [record for batch in batches for record in batch.records() if record.offset >= offset]
            assert [(r.offset, r.key, r.value) for r in got] == [k[:3] for k in expected[: len(got)]]
            assert all(batch.next_offset <= min(piece.end_offset, up_to) for batch in batches[:-1])
            if expected and max_bytes >= 2000:
                assert batches, "there is something to read"

    @rule(age=st.integers(-10, 500))
    def list_by_time(self, age: int) -> None:
        wanted = self.clock - age
        expected = next((k for k in self.model if k.timestamp >= wanted and k.offset >= self.start), None)
        listed = self.log.reader.list_offset(wanted, self.end)
        if expected is None:
            assert listed.offset == -1
        else:
            assert (listed.offset, listed.timestamp_ms) == (expected.offset, expected.timestamp)

    @invariant()
    def ends_are_right(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.end_offset) == (self.start, self.end)
            assert self.log.high_watermark == self.end
            assert self.log.recovery_point <= self.end

    @invariant()
    def a_reader_sees_every_record_once_and_in_order(self) -> None:
        if hasattr(self, "log"):
            seen = []
            for batch in self.log.reader.replay(self.start, self.end):
                batch.ensure_valid()
                seen += [(r.offset, r.key, r.value) for r in batch.records() if r.offset >= self.start]
            assert seen == [k[:3] for k in self.model if k.offset >= self.start]

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
            self.pool.close()
            shutil.rmtree(self.folder)


class CompactedLogMachine(LogMachine):
    policy = ("compact",)


PROFILE = settings(max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(PROFILE, max_examples=1500, stateful_step_count=60)

TestLog = LogMachine.TestCase
TestLog.settings = PROFILE
TestCompactedLog = CompactedLogMachine.TestCase
TestCompactedLog.settings = PROFILE


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestLogForLong(LogMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = LONG


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestCompactedLogForLong(CompactedLogMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = LONG
