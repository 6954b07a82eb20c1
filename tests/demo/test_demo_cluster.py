"""The demo on a standalone cluster that loses a worker: a minute, so `make test-all` runs it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from streamactors.demo.data import DemoError
from streamactors.demo.killing.cluster_demo import run_cluster_demo
from streamactors.demo.killing.standalone import HOST, Standalone


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "cluster-broker").mkdir()
    with pytest.raises(DemoError, match="holds other things; give an empty folder"):
        run_cluster_demo(tmp_path)
    assert (tmp_path / "cluster-broker").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_that_loses_a_worker_writes_what_one_process_writes(tmp_path):
    command = [sys.executable, "-m", "streamactors.cli.main", "demo", "--cluster", "--into", str(tmp_path)]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("kill -9 of a worker") == 1
    assert ran.stdout.count("the same both ways") == 2


def test_the_jvms_of_a_cluster_that_cannot_start_are_ended(tmp_path, monkeypatch):
    started = []

    class Process:
        def __init__(self, command: Any, **options: Any) -> None:
            started.append(self)
            self.command, self.ended = command, False

        def terminate(self) -> None:
            self.ended = True

        def wait(self, timeout: float | None = None) -> int:
            assert self.ended
            return 0

    def full(*arguments: Any) -> None:
        raise OSError("no port")

    monkeypatch.setattr("streamactors.demo.killing.standalone.java_home", lambda: None)
    monkeypatch.setattr("streamactors.demo.killing.standalone.subprocess.Popen", Process)
    monkeypatch.setattr("streamactors.demo.killing.standalone._wait_for_port", full)
    with pytest.raises(OSError, match="no port"), Standalone(tmp_path):
        pass
    assert [process.ended for process in started] == [True]
    assert f"--host {HOST}" in " ".join(started[0].command)
