"""`streamactors run --reload`: the graph in a process that is started again when a source file changes.

Owner: the command. The process gets each signal of the command once, and drains as without --reload. If it fails, or cannot even be
imported, the command waits for the next change. If the command is killed, the process hears the end of a pipe and drains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import streamactors
from streamactors.cli.graphs.exit_codes import INTERRUPTED
from streamactors.cli.graphs.sources_on_disk import Sources, folders_of

SETTLE_S: Final = 0.1
"""After a change the next look: an editor or a checkout changes several files."""
GRACE_S: Final = 5.0
"""How long a process may take to end beyond its drain."""
MOST_NAMED: Final = 3


class Asked(Protocol):
    """The first signal to end."""

    number: int

    def is_set(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class Reloading:
    """Runs the graph, again after each change, until a signal. `arguments`: those of `streamactors run` without --reload."""

    def __init__(self, graph: str, arguments: Sequence[str], drain_s: float, say: Callable[[str], None]) -> None:
        self._graph = graph
        self._arguments = arguments
        self._drain_s = drain_s
        self._say = say
        self._sources = Sources(folders_of(graph))
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def run(self, asked: Asked) -> int:
        """Return the exit code."""
        try:
            while True:
                self._start()
                changed = self._wait_for_change(asked)
                if changed:
                    more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
                    self._say(f"{', '.join(changed[:MOST_NAMED])}{more} changed; starting {self._graph} again")
                    self._end(signal.SIGTERM)
                if asked.is_set():
                    return self._end(asked.number)
        finally:
            self._forget()

    def _start(self) -> None:
        reader, self._pipe = os.pipe()
        root = str(Path(streamactors.__file__).parents[1])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streamactors.cli.graphs.reloaded", str(reader), *self._arguments],
                pass_fds=[reader],
                start_new_session=True,  # Ctrl-C is for the command, which passes it on
                # bytecode is compared by seconds: two changes of a file within one second would be taken for one
                env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            )
        finally:
            os.close(reader)

    def _wait_for_change(self, asked: Asked) -> list[str]:
        """Return the changed files; none when a signal has come."""
        told = False
        while not asked.wait(self._sources.pause_s):
            code = None if self._process is None else self._process.poll()
            if code is not None and not told:
                self._say(f"{self._graph} has ended with code {code}; it starts again when a source file changes")
                told = True
            changed = self._sources.look()
            if changed:
                while not asked.wait(SETTLE_S) and (more := self._sources.look()):
                    changed = sorted({*changed, *more})
                return [] if asked.is_set() else changed
        return []

    def _end(self, number: int) -> int:
        """Send a signal to the process and wait for its end; return its exit code, or what the signal means if it had ended before."""
        process = self._process
        if process is None or process.poll() is not None:
            self._forget()
            return INTERRUPTED if number == signal.SIGINT else 0
        with suppress(ProcessLookupError):
            process.send_signal(number)
        give_up = time.monotonic() + self._drain_s + GRACE_S
        while process.poll() is None and time.monotonic() < give_up:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        self._forget()
        code = process.returncode
        return 128 - code if code < 0 else code

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
