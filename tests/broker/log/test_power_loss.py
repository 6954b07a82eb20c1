"""Power cuts: whatever was acknowledged after a sync is there, at its offset, once; whatever else is left is whole.

The disk forgets what was not synced (forgetful_disk). Cuts come after any step, with any part of the unsynced data left.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.forgetful_disk import ForgetfulDisk
from tests.broker.log.manual_pool import ManualPool

CONFIG = LogConfig(flush_messages=1, segment_bytes=700, index_interval_bytes=0)


class PoweredBroker:
    """A log manager on a disk that forgets, and what it has promised to its clients."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.disk = ForgetfulDisk(folder)
        self.rng = rng
        self.acknowledged: dict[int, bytes] = {}
        self.deleted_to = 0
        self.epoch = 1  # the metadata's, which a power cut does not take back
        self.sequence = 0
        self.next_number = 0
        self.start()

    def start(self) -> None:
        self.pool = ManualPool()
        self.logs = LogManager(
            self.disk.root / "data",
            default_config=CONFIG,
            clock_ms=lambda: NOW_MS,
            flush_pool=self.pool,
            disk=self.disk,
        )
        self.logs.open()
        self.log = self.logs.get("t", 0) or self.logs.create("t", 0, None, CONFIG)
        self.log.update_config(CONFIG)

    def append(self) -> None:
        """One batch of an idempotent producer that waits for no answer before the next."""
        value = b"%d" % self.next_number
        batch = build_batch(
            [NewRecord(None, value, NOW_MS)], producer_id=1, producer_epoch=0, base_sequence=self.sequence
        )
        result = self.log.append_as_leader(memoryview(batch), self.epoch, NOW_MS)
        self.next_number += 1
        self.sequence += 1

        def done(code: ErrorCode) -> None:
            if code == ErrorCode.NONE:
                self.acknowledged[result.base_offset] = value

        self.log.flusher.request(result, done)

    def flush(self) -> None:
        self.pool.run()

    def failed_flush(self) -> None:
        """A sync of the segment, of the small files or of a folder fails; what waited for it is taken back."""
        self.disk.fail_next("sync", self.rng.choice([".log", "leader-epoch-checkpoint", "t-0", "data"]))
        self.pool.run()
        self.disk.failures.clear()
        if self.log.offline is not None:
            self.shut_down()
        self.look_up_sequence()

    def look_up_sequence(self) -> None:
        entries = self.log.producers()
        self.sequence = (entries[0].last_sequence + 1) if entries else self.sequence

    def delete_records(self) -> None:
        """Of what was acknowledged nothing is wanted any more."""
        self.log.advance_high_watermark(self.log.hw_limit)
        self.deleted_to = self.log.trim.delete_records(-1, NOW_MS)
        self.acknowledged.clear()

    def new_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_leader_epoch(self.epoch)

    def checkpoint(self) -> None:
        self.logs.tick(NOW_MS)
        self.logs.tick(NOW_MS + 100_000)

    def shut_down(self) -> None:
        self.logs.close()
        self.start()
        self.check()

    def cut_power(self) -> None:
        self.logs._abandon()
        self.disk.cut_power(self.rng)
        self.start()
        self.check()

    def check(self) -> None:
        start, end = self.log.log_start_offset, self.log.end_offset
        there = {r.offset: r.value for batch in self.log.reader.replay(start, end) for r in batch.records()}
        for offset, value in self.acknowledged.items():
            assert there.get(offset) == value, f"acknowledged record {value!r} at offset {offset} is lost"
        assert sorted(there) == list(range(start, end)), "no holes"
        assert len(set(there.values())) == len(there), "nothing twice"
        known = [batch.first_offset for producer in self.log.producers() for batch in producer.batches]
        assert all(offset in there or offset < self.deleted_to for offset in known), "a retry would be lost"
        assert known or not there, "a retry would be written twice"
        self.deleted_to = min(self.deleted_to, end)  # the offsets may be given out again
        self.look_up_sequence()


STEPS = {
    "append": PoweredBroker.append,
    "flush": PoweredBroker.flush,
    "failed flush": PoweredBroker.failed_flush,
    "delete records": PoweredBroker.delete_records,
    "epoch": PoweredBroker.new_epoch,
    "checkpoint": PoweredBroker.checkpoint,
    "cut": PoweredBroker.cut_power,
    "shut down": PoweredBroker.shut_down,
}


def play(steps: list[str], seed: int) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        broker = PoweredBroker(folder, random.Random(seed))
        for step in steps:
            STEPS[step](broker)
        broker.cut_power()
        broker.append()
        broker.flush()
        assert broker.acknowledged
        broker.logs.close()
    finally:
        shutil.rmtree(folder)


MANY = st.lists(
    st.sampled_from(
        ["append"] * 6 + ["flush"] * 3 + ["failed flush", "delete records", "epoch", "checkpoint", "cut", "shut down"]
    ),
    max_size=40,
)


@pytest.mark.expects_log("damaged at offset", again=True)
@pytest.mark.expects_log("records are removed")
@given(MANY, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_acknowledged_records_survive_a_power_failure_at_any_moment(steps: list[str], seed: int) -> None:
    play(steps, seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.expects_log("damaged at offset", "cannot flush to disk", again=True)
@given(MANY, st.integers(0, 2**32))
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
def test_acknowledged_records_survive_a_power_failure_at_any_moment_for_long(steps: list[str], seed: int) -> None:
    play(steps, seed)


@pytest.mark.expects_log("records are removed")
@pytest.mark.parametrize("before", range(8, 12))  # about as many batches as fit into a segment
def test_the_next_flush_syncs_the_files_of_a_failed_one(before: int) -> None:
    for seed in range(16):
        play(["append"] * before + ["flush", "append", "failed flush", "append", "flush", "cut"], seed)


@pytest.mark.expects_log("damaged at offset", again=True)
def test_producer_state_is_removed_with_the_first_segment() -> None:
    # A folder's entries may be lost in any order: the second segment's can be there without the first's.
    for seed in range(64):
        play(["append"] * 11, seed)


@pytest.mark.expects_log("damaged at offset", again=True)
@pytest.mark.expects_log("records are removed")
@pytest.mark.parametrize(
    ("steps", "seeds"),
    [
        (["append", "flush", "shut down", "append", "delete records", "failed flush"], range(8)),
        (["cut", "append", "flush", "append", "checkpoint", "cut", "append", "cut", "delete records"], range(192, 200)),
    ],
    ids=["by a failed flush", "by a recovery"],
)
def test_records_truncated_before_a_new_segment_do_not_come_back(steps: list[str], seeds: range) -> None:
    # the old segment's length was not synced: its end is there again, beside the segment that begins where it was cut
    for seed in seeds:
        play(steps, seed)


def test_a_leader_epoch_is_on_the_disk_before_a_batch_of_it_is_acknowledged(tmp_path: Path) -> None:
    broker = PoweredBroker(tmp_path, random.Random(0))
    path = broker.log.directory / "leader-epoch-checkpoint"
    for _ in range(3):
        broker.new_epoch()
        broker.append()
        broker.flush()
        assert broker.disk.content_on_disk(path) == path.read_bytes()
    broker.logs.close()


def test_the_disk_of_these_tests_loses_unsynced_data(tmp_path: Path) -> None:
    disk = ForgetfulDisk(tmp_path)
    lost = 0
    for seed in range(20):
        (tmp_path / str(seed)).mkdir()
        file = disk.create(tmp_path / str(seed) / "f")
        file.write_at(b"kept", 0)
        file.sync()
        disk.sync_directory(tmp_path / str(seed))
        file.write_at(b" and not kept", 4)
        file.close()
        disk.cut_power(random.Random(seed))
        content = (tmp_path / str(seed) / "f").read_bytes()
        assert content.startswith(b"kept")
        lost += content != b"kept and not kept"
    assert 0 < lost < 20
