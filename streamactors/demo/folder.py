"""The demo's folder: its files, the lock of the running process, and the steps that are done.

Owner: the demo's process, by a lock that goes with the process however it ends. Steps that are done are remembered, so that a
restart continues at the one that was interrupted."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from streamactors.demo.data import DemoError

MARKER: Final = ".streamactors-demo"
WAIT_SECONDS: Final = 60.0
_CONTENT: Final = ("broker", "checkpoints", "parquet", "pictures", "tables", "samples", "tmp", "steps.json", "run.json")


class Folder:
    """Made by `--into DIR`; nothing of the demo lies anywhere else."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.broker = self.path / "broker"
        self.checkpoints = self.path / "checkpoints"
        self.parquet = self.path / "parquet"
        self.pictures = self.path / "pictures"
        self.tables = self.path / "tables"
        self.samples = self.path / "samples"
        self.temporary = self.path / "tmp"
        self._steps = self.path / "steps.json"

    def prepare(self) -> None:
        """Make the folder, or take one that a demo made. Raises DemoError for a folder with other things in it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not (self.path / MARKER).exists():
                if any(self.path.iterdir()):
                    raise DemoError(f"{self.path} holds other things; give an empty folder: --into DIR")
                (self.path / MARKER).write_text("made by streamactors demo\n")
        except OSError as error:
            raise DemoError(f"cannot work in {self.path}: {error.strerror}; give another folder: --into DIR") from None

    @contextmanager
    def locked(self, waiting: Callable[[str], object]) -> Iterator[None]:
        """Lock the folder; wait up to a minute for another process that has locked it. Then raises DemoError."""
        with open(self.path / MARKER, "a", encoding="utf-8") as lock:
            until = time.monotonic() + WAIT_SECONDS
            told = False
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise DemoError(f"another demo works in {self.path}; give another folder: --into DIR") from None
                    if not told:
                        waiting(f"another demo works in {self.path}: waiting for it")
                        told = True
                    time.sleep(0.1)
            yield

    def begin(self) -> bool:
        """Prepare the folder for a run; return whether the run continues an interrupted one."""
        if self.steps_done().get("report") is not None:  # the last run has finished
            for name in _CONTENT:
                path = self.path / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        going_on = self._steps.exists()
        shutil.rmtree(self.temporary, ignore_errors=True)
        for path in (self.checkpoints, self.parquet, self.pictures, self.tables, self.samples, self.temporary):
            path.mkdir(exist_ok=True)
        if not going_on:
            self._write(self._steps, {})
        return going_on

    def steps_done(self) -> dict[str, dict[str, Any]]:
        """Return the steps that are done and what they reported."""
        try:
            done: dict[str, dict[str, Any]] = json.loads(self._steps.read_text())
        except FileNotFoundError:
            return {}
        return done

    def step_done(self, name: str, report: Mapping[str, Any]) -> None:
        """Record that a step is done."""
        self._write(self._steps, {**self.steps_done(), name: dict(report)})

    def write_run(self, told: Mapping[str, Any]) -> None:
        """Tell others (`make demo-crash`) what runs and how far it is."""
        self._write(self.path / "run.json", told)

    def read_run(self) -> dict[str, Any]:
        """Return the last state that `write_run` wrote; empty before the first."""
        try:
            told: dict[str, Any] = json.loads((self.path / "run.json").read_text())
        except FileNotFoundError:
            return {}
        return told

    @staticmethod
    def _write(path: Path, content: Mapping[str, Any]) -> None:
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(content, indent=1))
        os.replace(beside, path)
