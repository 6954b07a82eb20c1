"""A task's state on disk: what is visible, what survives, and which folders are refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.codec import dumps
from streamactors.errors import BuildError
from streamactors.state import State
from streamactors.windows.state.disk import folder as folder_module
from streamactors.windows.state.disk.errors import (
    ForeignState,
    StateDamaged,
    StateDiskFull,
    StateError,
    StateFolderInUse,
)
from streamactors.windows.state.disk.folder import StateFolder, file_name, tasks_of
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk, after
from streamactors.windows.state.store_log import Change

SMALL = 8 << 20
KEYS = st.binary(min_size=0, max_size=3)


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(SMALL)


@pytest.fixture
def opened(tmp_path: Path, memory: Memory) -> Iterator[Callable[[], TaskDisk]]:
    disks: list[TaskDisk] = []

    def open_again() -> TaskDisk:
        for disk in disks:
            disk.close()
        disks.append(TaskDisk(Rocks(tmp_path / "0", memory), ["words", "counts"]))
        return disks[-1]

    yield open_again
    for disk in disks:
        disk.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.lists(st.tuples(st.sampled_from(["words", "counts"]), KEYS, st.none() | KEYS))),
        st.tuples(st.just("commit"), st.integers(0, 1 << 40)),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("look"), st.tuples(KEYS, KEYS, st.booleans())),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_every_read_shows_the_taken_entries_and_a_restart_shows_the_committed_ones(
    steps: list[tuple[str, object]], tmp_path_factory: pytest.TempPathFactory, memory: Memory
) -> None:
    path = tmp_path_factory.mktemp("state")
    disk = TaskDisk(Rocks(path, memory), ["words", "counts"])
    cuts: list[dict[tuple[str, bytes], bytes | None]] = []
    stored: dict[tuple[str, bytes], bytes | None] = {}
    offset = 0
    for kind, what in steps:
        if kind == "take":
            disk.take([Change(*each) for each in what])  # type: ignore[attr-defined]
            cuts.append({(store, key): value for store, key, value in what})  # type: ignore[attr-defined]
        elif kind == "commit":
            offset = what  # type: ignore[assignment]
            disk.commit({"words": offset})
            stored |= cuts.pop(0) if cuts else {}
        elif kind == "reopen":
            disk.close()
            disk = TaskDisk(Rocks(path, memory), ["words", "counts"])
            cuts.clear()
        else:
            low, high, backwards = what  # type: ignore[misc]
            for committed in (True, False):
                shown = dict(stored)
                for cut in [] if committed else cuts:
                    shown |= cut
                expected = sorted(
                    ((key, value) for (store, key), value in shown.items() if store == "words" and value is not None),
                    reverse=backwards,
                )
                within = [entry for entry in expected if low <= entry[0] < high]
                assert list(disk.scan("words", low, high, backwards=backwards, committed=committed)) == within
                assert list(disk.scan("words", backwards=backwards, committed=committed)) == expected
                read = disk.committed if committed else disk.get
                assert read("words", low) == shown.get(("words", low))
        assert disk.offset("words") == offset
        assert disk.offset("counts") == 0
    disk.close()


def test_a_replay_writes_entries_with_their_offset_and_a_cleared_store_is_empty(
    opened: Callable[[], TaskDisk],
) -> None:
    disk = opened()
    disk.replay("words", [(b"a", b"1"), (b"b", b"2"), (b"a", None)], 3)
    disk.replay("counts", [(b"a", b"9")], 1)
    disk = opened()
    assert (list(disk.scan("words")), disk.offset("words")) == ([(b"b", b"2")], 3)
    disk.clear("words")
    assert (list(disk.scan("words")), disk.offset("words"), disk.offset("counts")) == ([], 0, 1)
    assert list(disk.scan("counts")) == [(b"a", b"9")]


def test_filters_stay_in_memory_when_the_cache_is_full_of_data(tmp_path: Path) -> None:
    # With the filters in the cache, a full cache made the search for a missing key six times slower: it read the filter again each time.
    rocks = Rocks(tmp_path, Memory(SMALL))
    count = 20_000
    rocks.write({b"key%06d" % number: bytes(100) for number in range(count)})
    rocks.flush()
    assert rocks.get(b"key999999") is None
    assert int(rocks._db.property_int_value("rocksdb.estimate-table-readers-mem")) >= count * 10 // 8
    rocks.close()


def test_the_key_behind_a_prefix() -> None:
    assert after(b"a\xff\xff") == b"b"
    assert after(b"\x01\x00\x01") == b"\x01\x00\x02"


WRITER = """
import sys
from pathlib import Path
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.store_log import Change
disk = TaskDisk(Rocks(Path(sys.argv[1]), Memory(8 << 20)), ["a", "b"])
cut = disk.offset("a")
while True:
    cut += 1
    keys = [b"%d" % (cut * 7919 % 1000 + n) for n in range(200)]
    disk.take([Change(store, key, b"%d" % cut * 50) for store in "ab" for key in keys])
    disk.commit({"a": cut, "b": cut})
    print(cut, flush=True)
"""


def test_a_killed_process_leaves_whole_batches_and_loses_no_commit(tmp_path: Path, memory: Memory) -> None:
    told = 0
    for cuts in (3, 40, 11):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(cuts):
            told = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        disk = TaskDisk(Rocks(tmp_path, memory), ["a", "b"])
        newest = disk.offset("a")
        assert newest >= told  # each commit that the process has told of is there
        assert disk.offset("b") == newest
        assert list(disk.scan("a")) == list(disk.scan("b"))
        written = {b"%d" % (newest * 7919 % 1000 + n) for n in range(200)}
        assert {key for key, value in disk.scan("a") if value == b"%d" % newest * 50} == written
        disk.close()


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def folder_of(path: Path, application: str = "app", **options: object) -> StateFolder:
    return StateFolder(State.on_disk(path, cache=SMALL, **options), application)  # type: ignore[arg-type]


def test_a_folder_keeps_its_tasks_apart_and_opens_each_once(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "my/app")
    first, second = folder.open(["s"], 0), folder.open(["s"], 1)
    first.replay("s", [(b"k", b"0")], 1)
    assert folder.open(["s"], 0) is first
    assert second.get("s", b"k") is None
    assert [(stage, number) for stage, number, _ in tasks_of(folder.path)] == [("s", 0), ("s", 1)]
    folder.close_task(["s"], 0)
    assert folder.open(["s"], 0).get("s", b"k") == b"0"
    folder.close()
    folder.close()


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "LOCK_WAIT_S", 0.0)
    folder = folder_of(tmp_path)
    with pytest.raises(StateFolderInUse, match=r"another run of this process; give each instance a folder of its own"):
        folder_of(tmp_path)
    other = folder_of(tmp_path, "other")
    other.close()
    folder.close()
    folder_of(tmp_path).close()


def test_a_database_whose_folder_was_removed_keeps_neither_the_others_nor_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "LOCK_WAIT_S", 0.0)
    folder = folder_of(tmp_path)
    for partition in (0, 1):
        disk = folder.open(["words"], partition)
        disk.take([Change("words", b"a", b"1")])
        disk.commit({"words": 1})
    shutil.rmtree(tmp_path / "app" / "words" / "0")
    with pytest.raises(StateError, match=r"words/0: the folder was removed while its run was using it"):
        folder.close()
    again = folder_of(tmp_path)
    assert again.open(["words"], 0).get("words", b"a") is None
    assert again.open(["words"], 1).get("words", b"a") == b"1"
    again.close()


def test_a_folder_of_another_application_or_format_is_refused(tmp_path: Path) -> None:
    folder_of(tmp_path).close()
    about = tmp_path / "app" / "state.json"
    about.write_text('{"format": 1, "application": "payments"}')
    with pytest.raises(ForeignState, match="belongs to 'payments', this run is 'app'"):
        folder_of(tmp_path)
    about.write_text('{"format": 2, "application": "app"}')
    with pytest.raises(ForeignState, match="has format 2, this version reads 1"):
        folder_of(tmp_path)
    about.write_text("{")
    with pytest.raises(StateDamaged, match="remove the folder"):
        folder_of(tmp_path)
    about.write_text('{"format": 1, "application": "app"}')
    folder_of(tmp_path).close()  # a refusal leaves no lock behind


def test_a_database_of_a_newer_format_is_refused(tmp_path: Path, memory: Memory) -> None:
    rocks = Rocks(tmp_path, memory)
    rocks.write({b"\x00about": dumps([9, {}])})
    with pytest.raises(ForeignState, match="has format 9, this version reads 1"):
        TaskDisk(rocks, ["s"])
    rocks.write({b"\x00about": b"\xc1"})
    with pytest.raises(StateDamaged, match="its first entry is"):
        TaskDisk(rocks, ["s"])
    rocks.close()


def test_a_damaged_database_is_named_with_the_command_that_repairs_it(tmp_path: Path, memory: Memory) -> None:
    path = tmp_path / "app" / "s" / "0"
    Rocks(path, memory).close()
    next(path.glob("MANIFEST*")).write_bytes(b"damaged")
    with pytest.raises(StateDamaged, match=rf"streamactors state repair {tmp_path / 'app'}"):
        Rocks(path, memory)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="Not a directory; give a folder that this user may write"):
        folder_of(tmp_path / "file")


def test_a_quota_that_is_exceeded_is_told_with_the_ways_out(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, quota="1MB")
    disk = folder.open(["s"], 0)
    with pytest.raises(StateDiskFull, match=r"its quota is 1 MB; raise State.on_disk\(quota=…\)"):
        for n in range(100):
            disk.take([Change("s", b"%d-%d" % (n, i), os.urandom(1_000)) for i in range(100)])
            disk.commit()
            disk.rocks.flush()
    folder.close()


def test_a_full_disk_is_told_as_such(tmp_path: Path, memory: Memory) -> None:
    rocks = Rocks(tmp_path, memory)
    error = rocks._meaning(Exception("IO error: No space left on device: While appending to file: 000008.log"))
    assert type(error) is StateDiskFull
    assert "the disk is full" in str(error)
    rocks.close()


def test_without_rocksdict_the_error_gives_the_pip_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("streamactors.state.find_spec", lambda name: None)
    with pytest.raises(BuildError, match=r"pip install 'streamactors\[state\]'"):
        State.on_disk(tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cache": "lots"}, "cache is 'lots', which is not a size"),
        ({"cache": "1MB"}, "it must be at least 8MB"),
        ({"quota": "5XB"}, "quota is '5XB'"),
        ({"standbys": -1}, "standbys is -1"),
        ({"advertise": "here"}, "advertise is 'here'"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, options: dict[str, object], says: str) -> None:
    with pytest.raises(BuildError, match=says):
        State.on_disk(tmp_path, **options)  # type: ignore[arg-type]


def test_sizes_and_file_names() -> None:
    assert State.on_disk("x", cache="1GB", quota="2g").quota_bytes == 2 << 30
    assert [file_name(name) for name in ("a-b.c", "a/b", "..", "é")] == ["a-b.c", "a%2fb", "%2e%2e", "%c3%a9"]
