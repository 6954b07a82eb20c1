"""Metrics of the stages of a system's graphs: elements, failures, restarts, what waits, who takes the time, and which streams are stalled.

Owner: a scrape at a time. A scrape reads counts that the engine keeps per chunk anyway. Stages end and others of the same name begin, such as those of
substreams, so the collector adds up what it has seen: a count never falls. What a stage has done between the last scrape and its end is lost. A graph keeps the
name that it had at its first scrape."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.registry import Collector

from streamactors.engine.boundary import BoundaryInLogic, BoundaryOutLogic
from streamactors.engine.island.run import Run, runs_of
from streamactors.engine.snapshot import FEWEST_TICKS
from streamactors.engine.stalls.diagnosis import Cause
from streamactors.engine.stalls.watchdog import WATCHDOGS
from streamactors.log_limit import log_limited
from streamactors.metric_family import counter, gauge

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from streamactors.actors.system import ActorSystem

_log = logging.getLogger("streamactors.metrics")

_STAGE: Final = ("graph", "stage")

RUNNING: Final = gauge("streamactors_graph_runs", ("graph",), "Runs of the graph now", "it is 0 and should not be")
ELEMENTS: Final = counter(
    "streamactors_stage_elements_total", _STAGE, "Elements that the stage has taken; those that a source has emitted"
)
FAILURES: Final = counter(
    "streamactors_stage_failures_total", _STAGE, "Elements that the supervision of the stage has dropped", "it grows"
)
RESTARTS: Final = counter(
    "streamactors_stage_restarts_total",
    _STAGE,
    "How often RestartSource, RestartFlow or RestartSink has restarted its inner part",
    "it keeps growing",
)
READY: Final = gauge("streamactors_stage_ready_elements", _STAGE, "Elements that wait before the stage")
BUSY: Final = gauge(
    "streamactors_stage_busy_ratio", _STAGE, "Share of the stage in the working time of its graph, from 0 to 1"
)
STALLED: Final = gauge(
    "streamactors_stalled_streams", ("cause",), "Streams that make no progress now", "it is above 0 for five minutes"
)
FAMILIES: Final = (RUNNING, ELEMENTS, FAILURES, RESTARTS, READY, BUSY, STALLED)

MOST_STAGES: Final = 2_000
"""Further stages have no series, which the log says: Prometheus keeps a series long after its stage."""
MOST_NAME: Final = 200

Place = tuple[str, str]


class _Seen:
    """A stage at the last scrape."""

    __slots__ = ("counts", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.counts = (0, 0, 0)


class GraphsCollector(Collector):
    """Reads the runs of a system."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._lock = threading.Lock()
        self._seen: dict[Any, _Seen] = {}
        self._named: dict[Run, tuple[str, Counter[str]]] = {}
        self._totals: dict[Place, list[int]] = {}

    def collect(self) -> Iterator[Metric]:
        """The families of all runs."""
        with self._lock:
            return iter(self._collect())

    def _collect(self) -> list[Metric]:
        runs = list(runs_of(self._system))
        seen, self._seen = self._seen, {}
        named, self._named = self._named, {}
        names: Counter[str] = Counter()
        ready: Counter[Place] = Counter()
        ticks: Counter[Place] = Counter()
        busy: dict[Place, float] = {}
        for run in runs:
            logics = [
                logic
                for interpreter in run.interpreters()
                for logic in list(interpreter.logics)
                if not isinstance(logic, (BoundaryInLogic, BoundaryOutLogic))
            ]
            self._named[run] = graph, used = named.get(run) or (graph_name(logics), Counter())
            names[graph] += 1
            worked = sum(logic.busy_ticks for logic in logics)
            for logic in logics:
                known = seen.get(logic) or self._new(logic, graph, used)
                if known is None:
                    continue
                self._seen[logic] = known
                self._add(known, logic)
                if not logic.stopped:
                    ready[known.place] += sum(connection.ready for connection in list(logic.inlets))
                    ticks[known.place] += logic.busy_ticks
                    busy[known.place] = ticks[known.place] / worked if worked >= FEWEST_TICKS else 0.0
        totals = self._totals.items()
        stalled = {
            run: stall for dog in WATCHDOGS if dog.system is self._system for run, stall in dog.stalled.items()
        }  # each stream once, however many watchdogs look at it
        return [
            RUNNING.metric(((graph,), runs) for graph, runs in names.items()),
            ELEMENTS.metric((place, counts[0]) for place, counts in totals),
            FAILURES.metric((place, counts[1]) for place, counts in totals),
            RESTARTS.metric((place, counts[2]) for place, counts in totals if counts[2] >= 0),
            READY.metric(ready.items()),
            BUSY.metric(busy.items()),
            STALLED.metric(
                ((cause.name.lower(),), sum(stall.cause is cause for stall in stalled.values())) for cause in Cause
            ),
        ]

    def _new(self, logic: Any, graph: str, used: Counter[str]) -> _Seen | None:
        """Give a stage its name: stages of one name in one run are numbered, those inside another stage are not, because they come and go."""
        name = short(logic.name)
        if logic.inside_of:
            name = short(f"{logic.inside_of} / {name}")
        else:
            used[name] += 1
            if used[name] > 1:
                name = f"{name} {used[name]}"
        place = (graph, name)
        if place not in self._totals:
            if len(self._totals) >= MOST_STAGES:
                log_limited(
                    _log, logging.WARNING, "most", "%d stages have metrics; further ones have none", MOST_STAGES
                )
                return None
            self._totals[place] = [0, 0, 0 if hasattr(logic, "restarted") else -1]
        return _Seen(place)

    def _add(self, known: _Seen, logic: Any) -> None:
        now = (_elements(logic), logic.failures, getattr(logic, "restarted", 0))
        totals = self._totals[known.place]
        for number, (before, after) in enumerate(zip(known.counts, now, strict=True)):
            if after > before:
                totals[number] += after - before
        known.counts = now

    def describe(self) -> list[Metric]:
        """Return nothing: registering reads no run."""
        return []


def graph_name(logics: list[Any]) -> str:
    """Return the name that the graph was given, else those of its first sources."""
    named = next((logic.attributes.graph for logic in logics if logic.attributes.graph), None)
    sources = [logic.name for logic in logics if not logic.inlets] or [logic.name for logic in logics[:1]]
    return short(named or ", ".join(sources[:3]))


def short(text: str) -> str:
    """Return a text of at most 200 characters."""
    return text if len(text) <= MOST_NAME else f"{text[: MOST_NAME - 1]}…"


def _elements(logic: Any) -> int:
    ports = logic.inlets or logic.outlets
    return sum(c.elements - c.ready for c in ports) if logic.inlets else sum(c.elements for c in ports)
