"""The demo as a user runs it, and killed with -9 twice: minutes, so `make test-all` runs it."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from streamactors.demo.folder import Folder
from streamactors.demo.killing.crash import Moment
from streamactors.demo.steps import STEPS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]
ALLOWED = re.compile(
    r"Spark has not started after \d+ s|\d+ streams? (was|were) still running when the process ended|by-hour: \d+ dropped as late"
)
"""What a busy machine may say at Ctrl-C, and the logs of Spark's workers."""


def streamactors(*arguments, **options):
    command = [sys.executable, "-m", "streamactors.cli.main", *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)


def test_the_demo_adds_up_without_java_and_with_a_home_that_cannot_be_written(tmp_path):
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in ("sh", "bash", "env", "dirname", "uname", "cat", "sed", "grep", "rm", "mkdir", "chmod", "ps", "nice"):
        found = shutil.which(tool)
        if found:
            (bare / tool).symlink_to(found)
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYTHONPATH")}
    ran = streamactors("demo", "--into", str(tmp_path / "demo"), env={**kept, "PATH": str(bare), "HOME": str(home)})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "✗" not in ran.stdout
    assert "336,817 records in = 336,776 rows in Spark + 41 dead letters" in ran.stdout
    assert sorted(path.name for path in (tmp_path / "demo" / "pictures").iterdir()) == [
        "alerts.png",
        "delays.png",
        "pauses.png",
    ]
    with open(tmp_path / "demo" / "tables" / "hours.csv", newline="") as table:
        assert len(list(csv.DictReader(table))) > 19_000
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("seed", [7])
def test_killed_twice_it_ends_in_the_same_tables(tmp_path, seed):
    ran = streamactors("demo", "--crash", "--seed", str(seed), "--into", str(tmp_path / "demo"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("kill -9 in ") == 2
    assert ran.stdout.count("the same, row for row") == 4


@pytest.mark.parametrize("step", ["produce", "flights-to-spark", "hours", "hours-to-spark"])
def test_ctrl_c_leaves_no_process_and_the_next_run_goes_on(tmp_path, step):
    folder = Folder(tmp_path / "demo")
    command = [sys.executable, "-m", "streamactors.cli.main", "demo", "--into", str(folder.path)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        moment = Moment(step, 0.3)
        while not moment.has_come(folder.read_run(), list(STEPS)):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    told = [line for line in err.splitlines() if line and not ALLOWED.match(line)]
    assert (process.returncode, told) == (130, [])
    broker = folder.read_run()["broker"]
    with pytest.raises(ProcessLookupError):
        os.kill(broker, 0)
    until = time.monotonic() + 60
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < until:  # Spark's workers hear by their connections that the JVM has gone
            os.killpg(process.pid, 0)
            time.sleep(0.05)
    assert list(folder.steps_done()) == list(STEPS)[: list(STEPS).index(step)]
