"""What the stages of a worker process do, for the page of the parent. Runs in the worker process, named by `workers.LOOK`.

Owner: a thread that looks at the stages as the page's sampler does, from the first question on until nobody has asked for five seconds."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from streamactors.dashboard.reading.graphs import GraphReader
from streamactors.engine.island.run import Run, runs_of

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

_log = logging.getLogger("streamactors.dashboard")

EVERY_S: Final = 0.05
MOST_COST: Final = 0.01
STATE_S: Final = 1.0
UNASKED_S: Final = 5.0


class _Watch:
    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._asked_s = 0.0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._newest = b""

    def look(self) -> bytes:
        with self._lock:
            self._asked_s = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="page: samples", daemon=True)
                self._thread.start()
            return self._newest

    def _work(self) -> None:
        readers: dict[Run, GraphReader] = {}
        due_s = time.monotonic() + STATE_S
        while True:
            began_s = time.monotonic()
            with self._lock:
                if began_s - self._asked_s > UNASKED_S:
                    self._thread, self._newest = None, b""
                    return
            try:
                readers = {run: readers.get(run) or GraphReader(run, 0, began_s) for run in list(runs_of(self._system))}
                for reader in readers.values():
                    reader.sample(began_s)
                if began_s >= due_s and readers:
                    due_s = began_s + STATE_S
                    self._newest = _told(next(iter(readers.values())).look(began_s))
            except Exception:  # noqa: BLE001  # the run ends while it is looked at
                _log.debug("the stages of this process could not be read", exc_info=True)
                self._newest = b""
            time.sleep(max(EVERY_S, min((time.monotonic() - began_s) / MOST_COST, STATE_S / 2)))


def _told(found: Any) -> bytes:
    parts = {
        "pid": os.getpid(),
        "times": [dataclasses.asdict(each) for each in found.times],
        "stages": [dataclasses.asdict(each) for each in found.stages],
        "edges": [dataclasses.asdict(each) for each in found.edges],
    }
    return json.dumps(parts).encode()


_watches: dict[int, _Watch] = {}


def look(system: ActorSystem) -> bytes:
    """Return the newest look at the stages of this process as JSON; nothing before the first one."""
    watch = _watches.get(id(system))
    if watch is None:
        watch = _watches[id(system)] = _Watch(system)
    return watch.look()
