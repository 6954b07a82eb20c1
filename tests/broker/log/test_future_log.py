"""A log that moves to another data folder at any time of any history is the same log afterwards; and a crash in the middle leaves one of the two."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from streamactors.broker.errors import StorageError
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk, LogFile
from streamactors.broker.log.folders.folder_names import future_name, parse_future
from streamactors.broker.log.folders.future_log import REPLACING, FutureLog
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition.log_read import LogSlice
from streamactors.broker.log.partition.partition_log import PartitionLog
from tests.broker.failing_folder import FailingDisk
from tests.broker.log.appending import append as append_values
from tests.broker.log.conftest import NOW_MS, MakeLog
from tests.broker.log.data_folder import append, crash
from tests.broker.log.manual_pool import ManualPool
from tests.broker.log.quick_disk import QuickDisk
from tests.broker.log.test_state_machine import PROFILE, CompactedLogMachine, LogMachine


class Moving(LogMachine):
    """Random histories of a log and its copy. At any time the copy begins, continues, is dropped, or replaces the log."""

    future: FutureLog | None = None

    @precondition(lambda self: self.future is None)
    @rule()
    def begin_a_copy(self) -> None:
        self.target = Path(tempfile.mkdtemp())
        self.future = FutureLog(QuickDisk(), self.log, self.target, self.pool, NOW_MS)

    @precondition(lambda self: self.future is not None)
    @rule(most=st.integers(1, 3000))
    def copy(self, most: int) -> None:
        assert self.future is not None
        self.future.copy(most, NOW_MS)

    @precondition(lambda self: self.future is not None)
    @rule()
    def drop_the_copy(self) -> None:
        assert self.future is not None
        self.future.discard()
        self.future = None
        assert not list(self.target.iterdir())
        self.target.rmdir()

    @precondition(lambda self: self.future is not None)
    @rule()
    def take_the_place(self) -> None:
        assert self.future is not None
        before = self.log
        epochs, generation = before.epochs.entries, before.generation
        self.log = self.future.replace(self.folder / "gone", NOW_MS)
        self.future = None
        assert (self.log.epochs.entries, self.log.generation) == (epochs, generation)
        assert self.log.recovery_point == self.end
        assert before.deleted
        assert [each.name for each in self.target.iterdir()] == ["t-0"]
        shutil.rmtree(self.folder)
        self.folder = self.target

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        if self.future is not None:
            self.drop_the_copy()
        super().reopen(clean)

    def teardown(self) -> None:
        if self.future is not None:
            self.drop_the_copy()
        super().teardown()


class MovingCompacted(Moving, CompactedLogMachine):
    pass


TestMoving = Moving.TestCase
TestMoving.settings = PROFILE
TestMovingCompacted = MovingCompacted.TestCase
TestMovingCompacted.settings = PROFILE


def test_the_name_of_a_copy_says_what_it_is_of() -> None:
    assert parse_future(future_name("a-b.c", 12)) == ("a-b.c", 12)
    assert parse_future("a-0") is None


class TwoFolders:
    """Two data folders with one log of 20 records in the first."""

    def __init__(self, root: Path) -> None:
        self.disk = FailingDisk()
        self.paths = (root / "a", root / "b")
        self.open()
        self.logs.folders.preferred["orders", 0] = self.paths[0]
        append(self.logs.create("orders", 0, None, LogConfig()), 20)

    def open(self) -> None:
        first, second = self.paths
        self.logs = LogManager(
            first, others=[second], default_config=LogConfig(), clock_ms=lambda: NOW_MS, disk=self.disk
        )
        self.logs.open()

    def begin(self) -> FutureLog:
        log = self.logs.get("orders", 0)
        assert log is not None
        return self.logs.begin_future(log, self.logs.folders.all[1])

    def found(self) -> tuple[Path, int]:
        """Where the log is, and its end."""
        log = self.logs.get("orders", 0)
        assert log is not None
        return log.directory.parent, log.end_offset


@pytest.fixture
def two(tmp_path: Path) -> TwoFolders:
    return TwoFolders(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.is_dir())


def test_a_log_that_has_moved_is_in_the_other_folder_after_a_restart(two: TwoFolders) -> None:
    two.logs.replace(two.begin())
    assert two.found() == (two.paths[1], 20)
    two.logs.close()
    two.open()
    assert two.found() == (two.paths[1], 20)
    assert (names(two.paths[0]), names(two.paths[1])) == ([], ["orders-0"])
    two.logs.close()


@pytest.mark.parametrize("at", ["copied", "named", "deleted"])
def test_a_crash_in_the_middle_leaves_one_of_the_two(two: TwoFolders, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    future = two.begin()
    renames = 0

    class Crash(BaseException):
        pass

    def rename(old: Path, new: Path) -> None:
        nonlocal renames
        if old.parent in two.paths:
            renames += 1
            if (at, renames) in {("copied", 1), ("named", 2)}:
                raise Crash
        FailingDisk.rename(two.disk, old, new)

    def remove(path: Path) -> None:
        if at == "deleted" and path.name == REPLACING:
            raise Crash
        FailingDisk.remove(two.disk, path)

    monkeypatch.setattr(two.disk, "rename", rename)
    monkeypatch.setattr(two.disk, "remove", remove)
    with pytest.raises(Crash):
        two.logs.replace(future)
    crash(two.logs)
    monkeypatch.undo()
    for _ in range(2):
        two.open()
        assert two.found() == (two.paths[0 if at == "copied" else 1], 20)
        two.logs.close()
    assert two.logs.moving == {}


def test_an_interrupted_move_is_remembered(two: TwoFolders) -> None:
    two.begin().copy(1, NOW_MS)
    crash(two.logs)
    two.open()
    assert two.found() == (two.paths[0], 20)
    assert {key: folder.path for key, folder in two.logs.moving.items()} == {("orders", 0): two.paths[1]}
    two.logs.close()


def test_a_replacement_that_fails_leaves_the_log_as_it_was(two: TwoFolders) -> None:
    future = two.begin()
    future.copy(1 << 20, NOW_MS)
    two.disk.fail(two.paths[1])
    with pytest.raises(StorageError):
        two.logs.replace(future)
    assert two.found() == (two.paths[0], 20)
    log = two.logs.get("orders", 0)
    assert log is not None
    append(log, 5)
    two.logs.close()
    two.disk.broken.clear()
    two.open()
    assert two.found() == (two.paths[0], 25)
    two.logs.close()


def test_a_log_does_not_go_to_a_folder_that_has_failed(two: TwoFolders) -> None:
    future = two.begin()
    future.copy(1 << 20, NOW_MS)
    two.logs.failed(two.logs.folders.all[1], OSError(errno.EIO, "Input/output error"))
    with pytest.raises(StorageError, match=r"cannot move to .*b: the data folder has failed: Input/output error"):
        two.logs.replace(future)
    assert two.found() == (two.paths[0], 20)
    future.discard()
    two.logs.close()


def test_a_source_that_cannot_be_read_in_the_last_step_is_what_has_failed(two: TwoFolders) -> None:
    # The error counted for the target: its partitions went offline, and the failed source went on.
    future = two.begin()
    source, target = two.logs.folders.all
    two.disk.fail(source.path)
    with pytest.raises(StorageError, match=r"cannot read .*a/orders-0: Input/output error"):
        two.logs.replace(future)
    assert source.failure is not None
    assert target.failure is None
    future.discard()
    assert names(two.paths[1]) == []
    two.logs.close()


@pytest.mark.expects_log("its partitions may refuse records")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_folder_that_gets_full_in_the_last_step_can_be_moved_to_later(
    two: TwoFolders, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The copy had its new name, could not be synced, and stayed: the next move could not rename its copy, and its target counted as failed.
    target = two.logs.folders.all[1]

    def sync_directory(path: Path) -> None:
        if path == target.path and (path / "orders-0").exists():
            raise OSError(number, "no room")
        FailingDisk.sync_directory(two.disk, path)

    monkeypatch.setattr(two.disk, "sync_directory", sync_directory)
    future = two.begin()
    with pytest.raises(StorageError, match="no room"):
        two.logs.replace(future)
    future.discard()
    assert names(target.path) == []
    monkeypatch.undo()
    assert two.found() == (two.paths[0], 20)
    two.logs.replace(two.begin())
    assert (two.found(), target.failure) == ((two.paths[1], 20), None)
    two.logs.close()


def test_a_copy_takes_the_place_of_one_that_was_left(two: TwoFolders) -> None:
    left = two.paths[1] / "orders-0"
    left.mkdir()
    (left / "00000000000000000000.log").write_bytes(b"left")
    two.logs.replace(two.begin())
    assert two.found() == (two.paths[1], 20)
    two.logs.close()
    two.open()
    assert two.found() == (two.paths[1], 20)
    two.logs.close()


@pytest.mark.expects_log("its partitions may refuse records")
def test_a_copy_that_could_not_be_begun_is_no_move(two: TwoFolders) -> None:
    # What was left of it began the move at the next start, although the answer was an error.
    two.disk.without_room.add(two.paths[1])
    with pytest.raises(StorageError, match="No space left"):
        two.begin()
    assert names(two.paths[1]) == []
    log = two.logs.get("orders", 0)
    assert log is not None
    assert not log.is_copied
    two.logs.close()


def test_retention_during_a_step_does_not_end_the_move(two: TwoFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    log = two.logs.get("orders", 0)
    assert log is not None
    log.roll(NOW_MS)
    append(log, 5)
    future = two.begin()
    read = PartitionLog.read

    def late(log: PartitionLog, *args: int) -> LogSlice:
        log.trim.delete_records(22, NOW_MS)
        return read(log, *args)

    monkeypatch.setattr(PartitionLog, "read", late)
    while future.copy(1 << 20, NOW_MS):
        pass
    monkeypatch.undo()
    append(log, 2)
    log.trim.delete_records(26, NOW_MS)
    assert future.bytes_left() > 0
    two.logs.replace(future)
    moved = two.logs.get("orders", 0)
    assert moved is not None
    assert (moved.log_start_offset, moved.end_offset) == (26, 27)
    two.logs.close()


class _SlowFile(LogFile):
    __slots__ = ("disk",)
    disk: _SlowDisk

    def sync(self) -> None:
        meanwhile, self.disk.meanwhile = self.disk.meanwhile, lambda: None
        meanwhile()


class _SlowDisk(Disk):
    """`meanwhile` happens during the next sync of a file."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] = lambda: None

    def file(self, path: Path) -> LogFile:
        made = _SlowFile(path, self.open_files)
        made.disk = self
        return made


@pytest.mark.parametrize("replaces", [True, False], ids=["replaced", "dropped"])
def test_a_flush_that_is_under_way_while_the_copy_goes_is_no_error(
    make_log: MakeLog, pool: ManualPool, tmp_path: Path, caplog: pytest.LogCaptureFixture, replaces: bool
) -> None:
    # A move of a folder logged "cannot flush to disk: No such file or directory (…-future)", although nothing was lost.
    current = make_log(segment_bytes=500)
    for _ in range(5):
        append_values(current, b"v" * 300)
    pool.run()
    (tmp_path / "other").mkdir()
    disk = _SlowDisk()
    future = FutureLog(disk, current, tmp_path / "other", pool, NOW_MS)
    while future.copy(1 << 20, NOW_MS):
        pass
    gone: list[object] = []

    def go() -> None:
        if replaces:
            future.replace(tmp_path / "gone", NOW_MS).abandon()
        else:
            future.discard()
        gone.append(future)

    disk.meanwhile = go
    pool.run()
    assert gone
    assert caplog.messages == []


def test_a_log_that_went_on_is_newer_than_a_copy_that_was_given_up(two: TwoFolders) -> None:
    two.logs.close()
    shutil.copytree(two.paths[0] / "orders-0", two.paths[1] / "orders-0")
    (two.paths[1] / "orders-0" / REPLACING).touch()
    first = LogManager(two.paths[0], default_config=LogConfig(), clock_ms=lambda: NOW_MS)
    first.open()
    log = first.get("orders", 0)
    assert log is not None
    append(log, 1)
    first.close()
    two.open()
    assert two.found() == (two.paths[0], 21)
    two.logs.close()


def test_the_old_log_is_deleted_later_if_its_disk_fails_in_the_last_moment(two: TwoFolders) -> None:
    future = two.begin()
    future.copy(1 << 20, NOW_MS)
    original = two.disk.rename

    def rename(old: Path, new: Path) -> None:
        if new.name.endswith("-delete"):
            two.disk.fail(two.paths[0])
        original(old, new)

    two.disk.rename = rename  # type: ignore[method-assign]
    two.logs.replace(future)
    moved = two.logs.get("orders", 0)
    assert moved is not None
    append(moved, 3)
    crash(two.logs)
    two.disk.broken.clear()
    two.open()
    assert two.found() == (two.paths[1], 23)
    two.logs.close()
