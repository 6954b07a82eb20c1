"""The Python processes that tests start, with those that they start in turn: what they log, that none of them crashes,
and that each ends with the exit code that it should.

A process finds `child/sitecustomize.py` on its PYTHONPATH and writes into a folder of this pytest process. A crash is an abort, a
segmentation fault and the like, also one after the last line of the program, when the interpreter ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.watch.exit_codes import ExitCodes
from tests.watch.logs import Seen

CHILD = Path(__file__).parent / "child"
FOLDER = "STREAMACTORS_WATCHED_IN"
CRASHES = {-number for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)}


class ProcessWatch:
    """Reads what processes have written since the last look."""

    def __init__(self, folder: Path | None = None) -> None:
        self._temporary = None if folder is not None else tempfile.TemporaryDirectory(prefix="watched-")
        self.folder = folder if folder is not None else Path(self._temporary.name)  # type: ignore[union-attr]
        self._positions: dict[str, int] = {}
        self._crashed: list[str] = []
        self.exit_codes = ExitCodes()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """From now on every process that is started with this process's environment is watched."""
        patch.setenv(FOLDER, str(self.folder))
        inherited = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", os.pathsep.join([*([inherited] if inherited else []), str(CHILD)]))
        ended = subprocess.Popen._handle_exitstatus  # type: ignore[attr-defined]

        def noted(process: subprocess.Popen[Any], *arguments: Any, **named: Any) -> None:
            ended(process, *arguments, **named)
            if process.returncode in CRASHES:
                name = signal.Signals(-process.returncode).name
                self._crashed.append(f"{str(process.args)[:200]} was ended by {name}")

        patch.setattr(subprocess.Popen, "_handle_exitstatus", noted)
        self.exit_codes.install(patch)

    def take(self) -> tuple[list[Seen], list[str]]:
        """Return the records, and a sentence for each crash, since the last call."""
        seen: list[Seen] = []
        crashes, self._crashed = self._crashed, []
        with os.scandir(self.folder) as files:
            for file in files:
                size, position = file.stat().st_size, self._positions.get(file.name, 0)
                if size > position:
                    content = Path(file.path).read_bytes()[position:]
                    complete = content[: content.rfind(b"\n") + 1]
                    self._positions[file.name] = position + len(complete)
                    if file.name.endswith(".log"):
                        pid = file.name.partition(".")[0]
                        seen += [_seen(line, pid) for line in complete.decode(errors="replace").splitlines()]
                    elif complete:
                        crashes.append(
                            f"process {file.name.partition('.')[0]} crashed:\n{complete.decode(errors='replace')[:1500]}"
                        )
        return seen, crashes

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()


def _seen(line: str, pid: str) -> Seen:
    logger, level, template, message, at_s, arguments = json.loads(line)
    return Seen(logger, level, template, message, at_s, f"{' '.join(arguments)[:100] or 'python'}, process {pid}")
