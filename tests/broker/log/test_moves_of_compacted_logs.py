"""A compacted log that moves to another data folder: a deleted key stays deleted, whatever is compacted before, during and after the move."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.folders.future_log import FutureLog
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition.partition_log import PartitionLog
from tests.broker.log.compacting import put, records
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.data_folder import crash
from tests.broker.log.manual_pool import ManualPool
from tests.broker.log.quick_disk import QuickDisk
from tests.broker.log.test_state_machine import PROFILE

KEYS = [b"a", b"b", b"c", b"d", b"e"]
RETENTION_MS = 1000
CONFIG = LogConfig(cleanup_policy=("compact",), delete_retention_ms=RETENTION_MS, segment_bytes=1000)


class Compacting:
    """Two data folders with one compacted log, and a clock."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self.root = root
        self.disk = disk or QuickDisk()
        self.now_ms = NOW_MS
        self.future: FutureLog | None = None
        self.open()
        self.create()

    def open(self) -> None:
        self.logs = LogManager(
            self.root / "a",
            others=[self.root / "b"],
            default_config=CONFIG,
            clock_ms=lambda: self.now_ms,
            disk=self.disk,
            flush_pool=ManualPool(),
        )
        self.logs.open()

    def create(self) -> None:
        self.logs.create("t", 0, None, CONFIG)

    @property
    def log(self) -> PartitionLog:
        log = self.logs.get("t", 0)
        assert log is not None
        return log

    def view(self) -> dict[bytes | None, bytes]:
        """The value of each key, as a reader from the start sees them."""
        seen: dict[bytes | None, bytes] = {}
        for _, key, value in records(self.log):
            seen.pop(key, None)
            if value is not None:
                seen[key] = value
        return seen

    def clean(self) -> bool:
        return self.logs.cleaner.clean(self.log, self.now_ms)

    def clean_everything(self) -> None:
        """Let the horizon of each tombstone pass, and compact the log."""
        for _ in range(3):
            self.now_ms += 2 * RETENTION_MS
            put(self.log, (b"z", b"z"))
            self.log.roll(self.now_ms)
            assert self.clean()

    def begin(self) -> FutureLog:
        source = self.log.directory.parent
        target = next(each for each in self.logs.folders.all if each.path != source)
        self.future = self.logs.begin_future(self.log, target)
        return self.future

    def replace(self) -> None:
        assert self.future is not None
        self.logs.replace(self.future)
        self.future = None

    def discard(self) -> None:
        if self.future is not None:
            self.future.discard()
            self.future = None

    def restart(self, clean: bool) -> None:
        if clean:
            self.discard()
            self.logs.close()
        else:
            if self.future is not None:
                self.future.log.abandon()
                self.future = None
            crash(self.logs)
        self.open()
        self.log.update_config(CONFIG)
        self.log.advance_high_watermark(self.log.end_offset)


def fill(log: PartitionLog) -> None:
    """Append eight records of one key to a closed segment."""
    for number in range(8):
        put(log, (b"k", b"%d" % number))
    log.roll(NOW_MS)


def delete_k(log: PartitionLog) -> None:
    """Append a record and its tombstone, and then more records than `fill` did, to closed segments."""
    put(log, (b"k", b"old"))
    put(log, (b"k", None))
    log.roll(NOW_MS)
    put(log, *[(b"x", b"x")] * 8)
    log.roll(NOW_MS)


@pytest.fixture
def moving(tmp_path: Path) -> Compacting:
    return Compacting(tmp_path)


def test_a_log_is_not_compacted_while_it_is_copied(moving: Compacting) -> None:
    # k=old and its tombstone were copied, the log was compacted, and the copy, which had both, counted as compacted: the tombstone went
    # after delete.retention.ms, and k=old was there again.
    put(moving.log, (b"k", b"old"))
    put(moving.log, (b"k", None))
    moving.log.roll(NOW_MS)
    future = moving.begin()
    future.copy(1 << 20, NOW_MS)
    assert not moving.clean()
    assert not moving.logs.cleaner.run_once(NOW_MS)
    moving.replace()
    assert moving.logs.cleaner.cleaned_to(moving.log) == 0
    moving.clean_everything()
    assert b"k" not in moving.view()
    moving.logs.close()


def test_a_tombstone_that_is_not_copied_yet_stays(moving: Compacting) -> None:
    # k=old was copied, the tombstone behind it was removed at its horizon before the copy came to it.
    put(moving.log, (b"k", b"old"))
    future = moving.begin()
    future.copy(1 << 20, NOW_MS)
    put(moving.log, (b"k", None))
    for _ in range(3):
        moving.now_ms += 2 * RETENTION_MS
        put(moving.log, (b"z", b"z"))
        moving.log.roll(moving.now_ms)
        moving.clean()
    moving.replace()
    assert b"k" not in moving.view()
    moving.logs.close()


def test_the_log_is_compacted_again_when_its_copy_is_dropped(moving: Compacting) -> None:
    put(moving.log, (b"k", b"old"))
    put(moving.log, (b"k", b"new"))
    moving.log.roll(NOW_MS)
    moving.begin()
    moving.discard()
    assert moving.clean()
    assert [value for _, _, value in records(moving.log)] == [b"new"]
    moving.logs.close()


def test_a_move_that_begins_during_a_pass_ends_the_pass(tmp_path: Path) -> None:
    class Beginning(QuickDisk):
        """Begins a copy right before the pass replaces its first segments."""

        begun = False

        def set_modified_ms(self, path: Path, when_ms: int) -> None:
            if not self.begun:
                self.begun = True
                moving.begin().copy(1 << 20, NOW_MS)
            super().set_modified_ms(path, when_ms)

    moving = Compacting(tmp_path, Beginning())
    put(moving.log, (b"k", b"old"))
    put(moving.log, (b"k", None))
    moving.log.roll(NOW_MS)
    before = records(moving.log)
    assert not moving.clean()
    assert records(moving.log) == before
    moving.replace()
    moving.clean_everything()
    assert b"k" not in moving.view()
    moving.logs.close()


@pytest.mark.parametrize("clean", [True, False])
def test_the_checkpoint_of_the_folder_that_was_left_does_not_count(moving: Compacting, clean: bool) -> None:
    # Folder b says "compacted up to 8" -> the log moves to a, is truncated and compacted there -> other records below 8 follow -> at
    # the next start the checkpoint of b counted.
    moving.begin()
    moving.replace()
    fill(moving.log)
    assert moving.clean()
    moving.begin()
    moving.replace()
    moving.log.truncation.truncate_to(0, NOW_MS)
    put(moving.log, (b"x", b"x"))
    moving.log.roll(NOW_MS)
    assert moving.clean()
    delete_k(moving.log)
    moving.restart(clean)
    moving.clean_everything()
    assert b"k" not in moving.view()
    moving.logs.close()


def test_a_truncation_is_remembered_over_a_move_and_a_restart(moving: Compacting) -> None:
    # The log moves to b and back to a, where the checkpoint from before a truncation in b still is.
    fill(moving.log)
    assert moving.clean()
    moving.begin()
    moving.replace()
    moving.log.truncation.truncate_to(0, NOW_MS)
    delete_k(moving.log)
    moving.begin()
    moving.replace()
    moving.restart(clean=False)
    moving.clean_everything()
    assert b"k" not in moving.view()
    moving.logs.close()


def test_a_log_of_the_same_name_is_not_compacted_yet(moving: Compacting) -> None:
    # The checkpoint still had the topic that was deleted, and counted at the next start for the new topic of its name.
    fill(moving.log)
    assert moving.clean()
    moving.logs.delete("t", 0)
    moving.create()
    delete_k(moving.log)
    moving.restart(clean=True)
    moving.clean_everything()
    assert b"k" not in moving.view()
    moving.logs.close()


class KeysOfAMovingLog(RuleBasedStateMachine):
    """Random histories of a compacted log, its compaction, its moves and restarts. Only appends and truncations change the value of a key."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.it = Compacting(self.root)
        self.model: dict[bytes | None, bytes] = {}

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=2), deleted=st.booleans())
    def append(self, keys: list[bytes], deleted: bool) -> None:
        value = None if deleted else b"%d" % self.it.log.end_offset
        put(self.it.log, *((key, value) for key in keys), timestamp=self.it.now_ms)
        for key in keys:
            self.model.pop(key, None)
            if value is not None:
                self.model[key] = value

    @rule(wait=st.sampled_from([0, RETENTION_MS // 2, 2 * RETENTION_MS]))
    def roll_and_compact(self, wait: int) -> None:
        self.it.now_ms += wait
        self.it.log.roll(self.it.now_ms)
        self.it.clean()

    @rule(most=st.sampled_from([1, 200, 1000]))
    def copy(self, most: int) -> None:
        (self.it.future or self.it.begin()).copy(most, self.it.now_ms)

    @precondition(lambda self: self.it.future is not None)
    @rule()
    def take_the_place(self) -> None:
        self.it.replace()

    @rule(event=st.sampled_from(["drop", "truncate", "create", "stop", "crash"]), share=st.floats(0, 1))
    def disturb(self, event: str, share: float) -> None:
        match event:
            case "drop":
                self.it.discard()
            case "truncate":
                self.it.log.truncation.truncate_to(int(share * self.it.log.end_offset), self.it.now_ms)
                self.model = self.it.view()
            case "create":
                self.it.discard()
                self.it.logs.delete("t", 0)
                self.it.create()
                self.model = {}
            case _:
                self.it.restart(clean=event == "stop")

    @invariant()
    def every_key_has_its_latest_value(self) -> None:
        if hasattr(self, "it"):
            assert self.it.view() == self.model

    def teardown(self) -> None:
        if hasattr(self, "it"):
            self.it.discard()
            self.it.clean_everything()
            seen = self.it.view()
            crash(self.it.logs)
            shutil.rmtree(self.root)
            assert seen == self.model | {b"z": b"z"}


TestKeysOfAMovingLog = KeysOfAMovingLog.TestCase
TestKeysOfAMovingLog.settings = PROFILE
