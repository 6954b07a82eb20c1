"""Two members of a group with state on disk, killed with -9 under load and started again: each count comes once, none is missing."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from streamactors.codec import loads
from streamactors.windows.state.disk.folder import ABOUT
from streamactors.windows.state.disk.inspection import Inspection
from tests.kafka._windows import produce

ROWS, PARTITIONS, KEYS = 4_000, 2, 60


class Member:
    """One member, as a process that can be killed and started again."""

    def __init__(self, command):
        self._command = command
        self.start()

    def start(self):
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self.told = threading.Semaphore(0)
        self._listener = threading.Thread(target=self._listen, args=(self._process, self.told), daemon=True)
        self._listener.start()

    @staticmethod
    def _listen(process, told):
        for _ in process.stdout:
            told.release()

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._listener.join()  # closing the pipe under a thread that reads it raised ValueError there
        self._process.stdout.close()


def killed_and_restarted(cluster, read_all, committed_all, tmp_path, seed, kills, standbys=0):
    source, target, group = (f"{name}-{seed}-{standbys}" for name in ("load", "counts", "counting"))
    dice = random.Random(seed)
    rows = [(i % PARTITIONS, f"k{dice.randrange(KEYS)}-{i % PARTITIONS}", 1_000 + i) for i in range(ROWS)]
    share = ROWS // (kills + 1)
    for topic in (source, target):  # the rows are of 1970, older than any retention
        cluster.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})
    command = [sys.executable, str(Path(__file__).with_name("_processor_app.py")), cluster.bootstrap_servers, group]
    members = [Member([*command, f"m{n}", str(tmp_path / f"m{n}"), source, target, str(standbys)]) for n in range(2)]
    try:
        for n in range(kills):
            produce(cluster, source, rows[n * share : (n + 1) * share], PARTITIONS)
            victim = dice.choice(members)
            victim.told.acquire(timeout=dice.random() * 4)  # at work, or a moment without it
            victim.kill()
            victim.start()
        produce(cluster, source, rows[kills * share :], PARTITIONS)
        committed_all(group, source, len(rows))
    finally:
        for member in members:
            member.kill()
    expected = Counter(key for _, key, _ in rows)
    found = defaultdict(list)
    for message in read_all(target, PARTITIONS):
        found[message.key().decode()].append(json.loads(message.value()))
    assert {key: sorted(counts) for key, counts in found.items()} == {
        key: list(range(1, count + 1)) for key, count in expected.items()
    }
    newest = {}
    for message in read_all(f"{group}-counts-changelog", PARTITIONS):
        if message.key().startswith(b"\x01") and message.value() is not None:
            key, value, _ = loads(message.value())
            newest[key] = value
    assert newest == dict(expected), "the changelog has the counts of all rows"
    # a member may be killed before it has a folder, or just after it has made one, without a state
    folders = sorted(about.parent for about in tmp_path.glob(f"m*/{group}/{ABOUT}"))
    assert folders
    for folder in folders:
        inspection = Inspection(folder)
        assert inspection.damaged() == []
        inspection.close()


@pytest.fixture
def committed_all(cluster, wait_for):
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.settings import ClientSettings

    def wait(group, topic, count):
        admin = Admin(ClientSettings(cluster.bootstrap_servers))
        keys = admin.partitions_of(topic)
        wait_for(lambda: sum(max(0, at) for at in admin.committed(group, keys).values()) == count, timeout=90)

    return wait


def test_two_members_killed_in_the_middle_count_each_row_once(cluster, read_all, committed_all, tmp_path):
    killed_and_restarted(cluster, read_all, committed_all, tmp_path, seed=1, kills=2)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 6))
def test_two_members_killed_ten_times_count_each_row_once(cluster, read_all, committed_all, tmp_path, seed):
    killed_and_restarted(cluster, read_all, committed_all, tmp_path, seed, kills=10)


@pytest.mark.slow
def test_two_members_with_standbys_killed_in_the_middle_count_each_row_once(cluster, read_all, committed_all, tmp_path):
    killed_and_restarted(cluster, read_all, committed_all, tmp_path, seed=1, kills=2, standbys=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 6))
def test_two_members_with_standbys_killed_ten_times_count_each_row_once(
    cluster, read_all, committed_all, tmp_path, seed
):
    killed_and_restarted(cluster, read_all, committed_all, tmp_path, seed, kills=10, standbys=1)
