"""The power of members with state on disk fails under load: what was not synced is lost, and the results are the model's, each once.

RocksDB writes by itself, so the disk forgets below the C library (tests/faults/sabotage/forgetful_disk.c)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from streamactors.windows.state.disk.folder import LOCK, StateFolder, tasks_of
from streamactors.windows.state.disk.rocks import Memory, Rocks
from tests.faults.chaos import ROOT
from tests.faults.sabotage.forgetful_files import SHADOW, DurableCopies
from tests.kafka.test_joins_crash import killed_and_restarted

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the disk that forgets is compiled: it needs cc")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    target = tmp_path_factory.mktemp("forgetful") / "forgetful_disk.so"
    source = ROOT / "tests" / "faults" / "sabotage" / "forgetful_disk.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(target), str(source), "-ldl"], check=True)
    return target


class Power:
    """The power supply of one process, and the disk that holds `folder`. `lost`: the bytes that each cut took away."""

    def __init__(self, library, folder):
        self._library, self._folder = library, folder
        self._shadow = folder.with_name(f"{folder.name}.shadow")
        self.lost = []
        folder.mkdir()

    def on(self):
        """The process starts on what is there; return its environment."""
        shutil.rmtree(self._shadow, ignore_errors=True)
        self._shadow.mkdir()
        DurableCopies(self._shadow).take_over(self._folder)
        return {"LD_PRELOAD": str(self._library), "FORGETFUL_ROOT": str(self._folder), SHADOW: str(self._shadow)}

    def cut(self):
        """The process is dead: leave what was synced."""
        before = _bytes_below(self._folder)
        fresh = self._folder.with_name(f"{self._folder.name}.fresh")
        DurableCopies(self._shadow).restore(self._folder.stat().st_ino, fresh)
        shutil.rmtree(self._folder)
        fresh.rename(self._folder)
        self.lost.append(before - _bytes_below(self._folder))


def _bytes_below(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


WRITER = """
import os, sys
from streamactors.state import State
from streamactors.windows.state.disk.folder import StateFolder
folder = StateFolder(State.on_disk(sys.argv[1], cache="16MB"), "app")
disk = folder.open(["counts"], 0)
for number in range(20_000):
    if number == 10_000:
        disk.rocks.flush()
    disk.rocks.write({b"k%d" % number: b"x" * 200})
os.kill(os.getpid(), 9)
"""


@pytest.mark.expects_exit_code(-9)
def test_a_state_folder_opens_after_a_power_cut_with_a_prefix_of_its_batches(library, tmp_path):
    # state.json was written and renamed without fsync: after the cut it was there without content, and the folder was refused as damaged.
    import os
    import sys

    from streamactors.windows import State

    power = Power(library, tmp_path / "state")
    subprocess.run(
        [sys.executable, "-c", WRITER, str(tmp_path / "state")], env={**os.environ, **power.on()}, check=False
    )
    power.cut()
    StateFolder(State.on_disk(tmp_path / "state", cache="16MB"), "app").close()
    [(_, _, path)] = tasks_of(tmp_path / "state" / "app")
    rocks = Rocks(path, Memory(16 << 20))
    kept = {int(key[1:]) for key, _ in rocks.scan(b"k", b"l")}
    rocks.close()
    assert kept == set(range(len(kept)))
    assert 10_000 <= len(kept) < 20_000  # what was flushed is there; the disk forgets what came at last
    assert (tmp_path / "state" / "app" / LOCK).exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("seed", "standbys"), [(31, 0), (32, 1)])
def test_two_members_without_power_ten_times_join_each_row_once(
    cluster, read_all, wait_for, tmp_path, library, seed, standbys
):
    supplies = []

    def power(folder):
        supplies.append(Power(library, folder))
        return supplies[-1]

    killed_and_restarted(cluster, read_all, wait_for, tmp_path, seed, 10, 500, standbys, power)
    assert sum(map(len, (each.lost for each in supplies))) == 12
    assert any(lost > 0 for each in supplies for lost in each.lost)
