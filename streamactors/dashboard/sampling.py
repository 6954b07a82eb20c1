"""The sampler: one thread that looks at the runs of a process while somebody looks at it, and makes one State a second.

Owner: the Dashboard. While a page is open it samples 20 times a second, else 4 times, so that the last ten minutes are there when somebody
opens the page. A sample that takes long is taken less often: the sampler uses at most about one percent of a core for samples."""

from __future__ import annotations

import logging
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamactors.dashboard.banners import banners
from streamactors.dashboard.history import History
from streamactors.dashboard.model import GraphState, ProcessState, State, encoded
from streamactors.dashboard.plain_text import plain
from streamactors.dashboard.reading.graphs import GraphReader
from streamactors.engine.island.run import Run, all_runs, runs_of
from streamactors.engine.stalls.watchdog import WATCHDOGS
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

_log = logging.getLogger("streamactors.dashboard")

EVERY_S: Final = 0.05
SELDOM_S: Final = 0.25
STATE_S: Final = 1.0
MOST_COST: Final = 0.01
"""The share of a core that samples may take."""

MOST_WHY: Final = 300
ASKED_S: Final = 10.0
FAILED_S: Final = 600.0
MOST_FAILED: Final = 10

Frame = tuple[int, bytes]
"""The moment of a state in ms since 1970, and the state as JSON."""


class Reader(Protocol):
    """Reads the part of the state that belongs to one subject. It may have a `problem`, a sentence that says why it cannot; and `asks_others`: then it reads only
    while somebody looks, since it costs others something."""

    def read(self, now_s: float, runs: Iterable[Run]) -> dict[str, Any]:
        """Return fields of a State. `now_s`: monotonic."""


class Sampler:
    """Makes frames and gives them to `listeners`, on its own thread: they must not block."""

    def __init__(self, system: ActorSystem | None, name: str = "", readers: Iterable[Reader] = ()) -> None:
        """`system` None: all systems of this process."""
        self.history = History()
        self.watched = False
        """True while a page is open; then samples are taken more often."""
        self.listeners: list[Callable[[Frame], object]] = []
        self._asked_s = float("-inf")
        self._system = system
        self._name = name or (system.name if system is not None else os.path.basename(sys.argv[0]) or "python")
        self._readers = tuple(readers)
        self._graphs: dict[Run, GraphReader] = {}
        self._count = 0
        self._last: Frame | None = None
        self._lock = threading.Lock()  # of the readers, which know no threads
        self._stop = threading.Event()
        self._problems: dict[str, str] = {}
        self._failing: set[str] = set()
        self._told: set[tuple[str, str]] = set()
        self._ended_by: dict[str, tuple[float, BaseException]] = {}  # graphs that have failed
        self._cpu = (time.monotonic(), time.process_time())
        self._started_ms = int(time.time() * 1000)
        self._thread = threading.Thread(target=self._work, name="dashboard: samples", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; wait for the sample that is being taken."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(2.0)
        for reader in self._readers:
            close = getattr(reader, "close", None)
            if close is not None:
                close()

    @property
    def last(self) -> Frame:
        """The newest frame; made now if there is none yet. Any thread."""
        self._asked_s = time.monotonic()
        return self._last or self._make()

    @property
    def _looked_at(self) -> bool:
        """Whether a page is open, or somebody has asked for a state a moment ago."""
        return self.watched or time.monotonic() - self._asked_s < ASKED_S

    @property
    def runs(self) -> list[Run]:
        """The runs that are shown. Any thread."""
        return list(self._graphs)

    def logics(self, graph: str, stage: int) -> list[Any]:
        """Return the running stage of an id in the states, as a list; empty if there is none any more. Any thread."""
        return [logic for reader in list(self._graphs.values()) if reader.id == graph for logic in reader.logics(stage)]

    def _work(self) -> None:
        due = time.monotonic() + STATE_S
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                with self._lock:
                    self._sample(began)
                self._sampled()
                took = time.monotonic() - began
                if began >= due:
                    self._make()
                    due = max(due + STATE_S, time.monotonic() + STATE_S / 2)
            except Exception as error:  # noqa: BLE001  # a run that ends while it is read must not end the page
                self._failed("the stages", error)
                took = time.monotonic() - began
                due = max(due, time.monotonic())
            pause = EVERY_S if self.watched else SELDOM_S
            self._stop.wait(max(pause, min(took / MOST_COST, STATE_S / 2)))

    def _sampled(self) -> None:
        self._failing.discard("the stages")
        self._problems.pop("the stages", None)

    def _sample(self, now_s: float) -> None:
        runs = runs_of(self._system) if self._system is not None else all_runs()
        known = {}
        for run in list(runs):
            reader = self._graphs.get(run)
            if reader is None:
                reader = GraphReader(run, self._count, now_s)
                self._count += 1
            known[run] = reader
            reader.sample(now_s)
        for run, reader in self._graphs.items():
            if run not in known:
                reader.over()
                if reader.name and reader.failure is not None:
                    self._ended_by[reader.name] = (now_s, reader.failure)
        self._graphs = known

    def _make(self) -> Frame:
        with self._lock:
            now_s = time.monotonic()
            if not self._graphs:
                self._sample(now_s)
            looked_at = self._looked_at
            graphs = [
                found
                for reader in self._graphs.values()
                if (found := self._graph(reader, now_s, looked_at)) is not None
            ]
            parts: dict[str, Any] = {}
            for each in self._readers:
                if getattr(each, "asks_others", False) and not looked_at:
                    continue
                parts.update(self._part(each, now_s))
            process = self._process(now_s)
            stalls = tuple(
                str(stall)
                for dog in list(WATCHDOGS)
                if self._system in (None, dog.system)
                for stall in list(dog.stalled.values())
            )
            at_ms = int(time.time() * 1000)
            state = replace(State(at_ms, process, processes=(process,), graphs=tuple(graphs), stalls=stalls), **parts)
            problems = tuple(self._problems.values())
            failed = tuple(self._failures(now_s))
            on_top = banners(state.graphs, state.consumers, state.broker, state.spark, stalls, problems, failed)
            self._last = frame = (at_ms, encoded(replace(state, banners=on_top)))
        self.history.add(*frame)
        for listener in list(self.listeners):
            listener(frame)
        return frame

    def _failures(self, now_s: float) -> Iterator[str]:
        """Yield a sentence for each graph that has failed in the last minutes and does not run again. Errors of users may tell what records contain: of
        those only the kind is said."""
        running = {reader.name for reader in self._graphs.values()}
        newest = sorted(self._ended_by.items(), key=lambda each: -each[1][0])[:MOST_FAILED]
        self._ended_by = {name: each for name, each in newest if name not in running and now_s - each[0] < FAILED_S}
        for name, (at_s, error) in self._ended_by.items():
            said = f"{type(error).__name__}: {error}" if isinstance(error, StreamActorsError) else type(error).__name__
            yield f"{name} has failed {now_s - at_s:.0f} s ago: {plain(said, MOST_WHY)}"

    def _part(self, reader: Reader, now_s: float) -> dict[str, Any]:
        """Return what a reader reads; nothing if it fails, which the page and the log say."""
        what = type(reader).__name__.removesuffix("Reader").lower()
        try:
            found = reader.read(now_s, self._graphs)
        except Exception as error:  # noqa: BLE001  # a page must not end with one of its parts
            self._failed(what, error)
            return {}
        self._failing.discard(what)
        problem = getattr(reader, "problem", None)
        if problem is None:
            self._problems.pop(what, None)
        else:
            self._problems[what] = problem
            if (what, "") not in self._told:
                self._told.add((what, ""))
                _log.warning("the page shows no newer %s: %s", what, plain(problem, MOST_WHY))
        return found

    def _failed(self, what: str, error: Exception) -> None:
        """Something could not be read. What ends while it is read fails once now and then; the second time in succession is a problem."""
        kind = plain(f"{type(error).__name__}: {error}", MOST_WHY)
        _log.debug("%s could not be read", what, exc_info=True)
        if what not in self._failing:
            self._failing.add(what)
            return
        self._problems[what] = f"the page cannot read {what} of the streams ({kind}); the log says more at level DEBUG"
        if (what, type(error).__name__) not in self._told:
            self._told.add((what, type(error).__name__))
            _log.warning(
                "the page cannot read %s of the streams, which run on: %s; please report this with the traceback, which "
                "the logger streamactors.dashboard writes at level DEBUG",
                what,
                kind,
            )

    @staticmethod
    def _graph(reader: GraphReader, now_s: float, looked_at: bool) -> GraphState | None:
        try:
            return reader.state(now_s, looked_at)
        except AttributeError:  # the run ends just now, and its connections fall apart
            _log.debug("the graph %s could not be read", reader.name, exc_info=True)
            return None

    def _process(self, now_s: float) -> ProcessState:
        from streamactors import __version__

        before_s, before_cpu = self._cpu
        cpu = time.process_time()
        self._cpu = (now_s, cpu)
        share = (cpu - before_cpu) / (now_s - before_s) if now_s > before_s else None
        return ProcessState(
            self._name,
            os.getpid(),
            socket.gethostname(),
            self._started_ms,
            platform.python_version(),
            __version__,
            None if share is None else round(share, 3),
            _rss_bytes(),
        )


def _rss_bytes() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
