"""`streamactors run --reload`: the graph begins again when a source file changes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamactors.cli.graphs.sources_on_disk import Sources, folders_of
from tests.cli.ran import Run
from tests.cli.terminal import COMMAND

STREAM = """
from streamactors import Sink, Source
from helper import word
graph = Source.tick("0s", "100ms", word).to(Sink.foreach(lambda each: print(each, flush=True)))
"""


class Running:
    """A command whose output goes to a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def text(self) -> str:
        return self._log.read_text()

    def until(self, seen: str, timeout_s: float = 90.0) -> None:
        give_up = time.monotonic() + timeout_s
        while seen not in self.text:
            assert time.monotonic() < give_up, self.text
            time.sleep(0.05)


@contextmanager
def reloading(folder: Path, *, word: str) -> Iterator[Running]:
    (folder / "reloaded_stream.py").write_text(STREAM)
    (folder / "helper.py").write_text(f"word = '{word}'\n")
    with open(folder / "log", "wb") as log:
        command = [*COMMAND, "run", "reloaded_stream:graph", "--reload", "--drain-timeout", "20s"]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield Running(process, folder / "log")
    finally:
        process.kill()
        process.wait()


def test_a_changed_file_starts_the_graph_again_and_a_mistake_in_it_ends_nothing(tmp_path: Path) -> None:
    with reloading(tmp_path, word="one") as running:
        running.until("one\n")
        (tmp_path / "helper.py").write_text("word = (\n")
        running.until("helper.py changed; starting reloaded_stream:graph again")
        running.until("reloaded_stream:graph is drained")
        running.until("SyntaxError: '(' was never closed (helper.py, line 1)")
        running.until("has ended with code 1; it starts again when a source file changes")
        assert running.process.poll() is None
        (tmp_path / "helper.py").write_text("word = 'two'\n")
        running.until("two\n")
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 130
        assert running.text.count("SIGINT: draining") == 1
        assert running.text.endswith("reloaded_stream:graph is drained\n")
        assert "Traceback" not in running.text


@pytest.mark.slow
@pytest.mark.expects_exit_code(-signal.SIGKILL)
def test_the_graph_is_drained_if_the_command_is_killed(tmp_path: Path) -> None:
    with reloading(tmp_path, word="one") as running:
        running.until("one\n")
        running.process.kill()
        running.until("reloaded_stream:graph is drained")


@pytest.mark.slow
def test_sigterm_ends_it_as_without_reload(tmp_path: Path) -> None:
    with reloading(tmp_path, word="one") as running:
        running.until("one\n")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0
        assert running.text.endswith("reloaded_stream:graph is drained\n")


def test_files_of_the_program_are_seen_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("pkg", ".hidden", "__pycache__", "venv", "node_modules"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").touch()
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    sources = Sources([tmp_path])
    assert sources.look() == []
    for folder in (".hidden", "__pycache__", "venv", "node_modules"):
        (tmp_path / folder / "a.py").write_text("changed")
    (tmp_path / "notes.txt").touch()
    assert sources.look() == []
    (tmp_path / "pkg" / "a.py").write_text("x = 1")
    (tmp_path / "new.py").touch()
    assert sources.look() == ["new.py", "pkg/a.py"]
    before = (tmp_path / "pkg" / "a.py").stat()
    (tmp_path / "pkg" / "a.py").write_text("x = 2")  # the size is the same
    os.utime(tmp_path / "pkg" / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    (tmp_path / "new.py").unlink()
    assert sources.look() == ["new.py", "pkg/a.py"]
    assert sources.look() == []
    assert sources.pause_s >= 0.3


def test_the_folders_are_those_from_which_the_graph_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert folders_of("pkg.streams:graph") == [tmp_path]
    assert folders_of("examples/a.py:graph") == [tmp_path]
    assert folders_of("/elsewhere/a.py:graph") == [Path("/elsewhere")]


def test_a_dry_run_is_not_reloaded(streamactors: Run) -> None:
    ran = streamactors("run", "m:graph", "--reload", "--dry-run")
    assert (ran.code, "--dry-run ends by itself; leave out --reload" in ran.err) == (2, True)
