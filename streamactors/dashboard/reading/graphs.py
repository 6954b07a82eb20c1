"""Reads the runs of a process: what each stage does, twenty times a second, and one GraphState a second.

Owner: the sampler, one thread. It reads fields that the engine keeps anyway, while the stages work; a run that nobody looks at pays nothing.
The two halves of an asynchronous boundary are one edge."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from streamactors.dashboard.culprit import StageTime, causes, culprits
from streamactors.dashboard.model import EdgeState, GraphState, StageState
from streamactors.dashboard.reading.doing import Doing, doing
from streamactors.dashboard.reading.folding import Node, folded
from streamactors.dashboard.reading.workers import Gap, Seen, WorkersReader
from streamactors.engine.boundary import BoundaryInLogic, BoundaryOutLogic
from streamactors.engine.island.run import Run

SHARES_S: Final = 3
"""Shares and rates are of the last three states: of a second each."""
MOST_NAME: Final = 200
"""Longer names and details are shortened."""


@dataclass(eq=False, slots=True)
class _Seen:
    """What is known of a stage. `counts`: samples by Doing since the last state. `still_since_s`: since when it has been inside one call."""

    id: int
    logic: Any
    island: int
    counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0, 0])
    past: deque[list[int]] = field(default_factory=lambda: deque(maxlen=SHARES_S))
    moved: tuple[int, int] = (-1, -1)
    still_since_s: float = 0.0
    rates: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=SHARES_S + 1))

    def shares(self) -> list[float]:
        """Return the shares of WORKS, DEMAND, ELEMENTS, TURN, and of the time inside handlers."""
        sums = [sum(each) for each in zip(*self.past, strict=True)] if self.past else [0] * 5
        total = sum(sums[:4])
        return [each / total if total else 0.0 for each in sums]


class GraphReader:
    """Reads one run. `number` is its id in the states."""

    def __init__(self, run: Run, number: int, now_s: float) -> None:
        self.run = run
        self.id = str(number)
        self.name = ""
        """The name in the last state."""
        self.failure: BaseException | None = None
        """The error of a sink that has ended. What a stage after it has recovered from is none of the run's."""
        self._began_s = now_s
        self._seen: dict[Any, _Seen] = {}
        self._edges: dict[Any, deque[tuple[float, int]]] = {}
        self._next_id = 0
        self._workers = WorkersReader()
        self._gaps: list[Gap] = []
        self._samples = 0
        self._full = 0

    # ── twenty times a second ─────────────────────────────────────────────────────────────────────────────────────

    def sample(self, now_s: float) -> None:
        """Count what each stage does at this moment."""
        running = self.run.runs.watch.running
        live: set[Any] = set()
        for island, interpreter in enumerate(self.run.interpreters()):
            active = interpreter.active if interpreter in running else None
            slice_no = interpreter.slice_no
            for logic in list(interpreter.logics):
                if logic.stopped:
                    continue
                live.add(logic)
                if isinstance(logic, (BoundaryInLogic, BoundaryOutLogic)):
                    continue
                seen = self._seen.get(logic)
                if seen is None:
                    seen = self._seen[logic] = _Seen(self._next_id, logic, island)
                    self._next_id += 1
                now = doing(logic is active, logic.inlets, logic.outlets, active is not None and active is not logic)
                seen.counts[now] += 1
                if logic is active:
                    seen.counts[4] += 1
                moved = (slice_no, _elements(logic))
                if moved != seen.moved or logic is not active:
                    seen.moved = moved
                    seen.still_since_s = now_s
        for logic in [each for each in self._seen if each not in live]:
            del self._seen[logic]
            self._ended(logic)
        pool = self.run.system.pool
        self._samples += 1
        self._full += bool(pool.cells_waiting and pool.threads >= pool.max_threads)

    def _ended(self, logic: Any) -> None:
        if not logic.outlets and not logic.inside_of and self.failure is None:
            self.failure = logic.failure

    def over(self) -> None:
        """The run has ended: look at the stages that were still there."""
        self.name = self.name or self._name(list(self._seen.values()))
        for logic in self._seen:
            self._ended(logic)

    def logics(self, stage: int) -> list[Any]:
        """Return the stage of an id, as a list; empty if there is none any more. Any thread."""
        return [logic for logic, seen in self._seen.copy().items() if seen.id == stage]

    # ── once a second ─────────────────────────────────────────────────────────────────────────────────────────────

    def state(self, now_s: float, ask_workers: bool = True) -> GraphState:
        """Return the state of the run, and begin the next second. `ask_workers`: with the stages of its worker processes, which are asked."""
        full = self._full / self._samples if self._samples else 0.0
        self._samples = self._full = 0
        seen = self.look(now_s)
        if ask_workers:
            seen = self._workers.through(seen, self._gaps)
        ends = {(edge.source, edge.target): edge for edge in seen.edges}
        stuck = {key for key, edge in ends.items() if not edge.asked}
        empty = {key for key, edge in ends.items() if not edge.ready}
        found = causes(seen.times, ends, full, full=stuck, empty=empty)
        marked = culprits(found, seen.times)
        self.name = self._name(list(self._seen.values())) or self.name
        return GraphState(
            self.id,
            self.name,
            int((now_s - self._began_s) * 1000),
            tuple(replace(stage, culprit=True) if stage.id in marked else stage for stage in seen.stages),
            tuple(seen.edges),
            found,
        )

    def look(self, now_s: float) -> Seen:
        """Return what the stages of this process have done, and begin the next second."""
        seen = list(self._seen.values())
        for each in seen:
            each.past.append(each.counts)
            each.counts = [0, 0, 0, 0, 0]
            each.rates.append((now_s, _elements(each.logic)))
        gaps: dict[tuple[int, int], Any] = {}
        lines = list(self._lines(seen, now_s, gaps))
        nodes = [
            Node(each.id, each.logic.inside_of, _kind(each.logic), each.logic.common_name() or each.logic.name)
            for each in seen
        ]
        of = folded(nodes, [(line.source, line.target) for line in lines])
        groups: dict[int, list[_Seen]] = {}
        for each in seen:
            groups.setdefault(of[each.id], []).append(each)
        edges = _together(lines, of)
        self._gaps = [Gap(edge, gaps[edge.source, edge.target]) for edge in edges if (edge.source, edge.target) in gaps]
        times = [_time(id_, group, now_s, edges) for id_, group in groups.items()]
        stages = [_stage(time, groups[time.id], bool(groups[time.id][0].logic.inside_of)) for time in times]
        return Seen(times, stages, edges)

    def _name(self, seen: list[_Seen]) -> str:
        named = next((each.logic.attributes.graph for each in seen if each.logic.attributes.graph), None)
        if named is not None:
            return short(named)
        sources = [each.logic.name for each in seen if not each.logic.inlets] or [each.logic.name for each in seen[:1]]
        return short(", ".join(sources[:3])) or f"graph {self.id}"

    def _lines(self, seen: list[_Seen], now_s: float, gaps: dict[tuple[int, int], Any]) -> Iterator[EdgeState]:
        """Yield the edges between the stages; a boundary is one edge. Those that lead through a worker process come into `gaps`, with that process."""
        ids = {each.logic: each.id for each in seen}
        known: dict[Any, deque[tuple[float, int]]] = {}
        for each in seen:
            for c in dict.fromkeys([*each.logic.inlets, *each.logic.outlets]):
                if c in known:
                    continue
                producer, consumer = getattr(c, "producer", None), getattr(c, "consumer", None)
                boundary = isinstance(consumer, BoundaryOutLogic)
                if boundary:
                    peer = getattr(consumer, "peer", None)
                    following = peer.outlets[0] if peer is not None and peer.outlets else None
                    consumer = getattr(following, "consumer", None)
                if producer not in ids or consumer not in ids:
                    continue
                past = self._edges.get(c) or deque(maxlen=SHARES_S + 1)
                past.append((now_s, c.elements))
                known[c] = past
                asked, ready = c.asked, c.ready
                if boundary and peer is not None and following is not None:
                    asked, ready = max(0, peer.window.outstanding - peer.held), ready + peer.held + following.ready
                marks = sum(type(item) is not list for item in c.items.copy())
                state = "boundary" if boundary else c.state()
                if boundary and (remote := getattr(c.consumer, "remote", None)) is not None:
                    gaps[ids[producer], ids[consumer]] = remote
                yield EdgeState(
                    ids[producer], ids[consumer], round(_rate(past), 3), c.elements, ready, asked, marks, state
                )
        self._edges = known


def _stage(time: StageTime, group: list[_Seen], inside: bool) -> StageState:
    first = group[0]
    logic = first.logic
    return StageState(
        time.id,
        _named(group),
        _kind(logic),
        first.island,
        f"substreams of {short(logic.inside_of)}" if inside else None,
        len(group),
        "open" if any(_open(each.logic) for each in group) else "ended",
        short(_said(logic)) if len(group) == 1 else "",
        round(time.works, 3),
        round(time.waits_for_demand, 3),
        round(time.waits_for_elements, 3),
        round(sum(_rate(each.rates) for each in group), 3),
        sum(each.rates[-1][1] for each in group),
        sum(each.logic.failures + (each.logic.failure is not None) for each in group),
        outside=round(max(0.0, time.works - time.active), 3),
    )


def _time(id_: int, group: list[_Seen], now_s: float, edges: list[EdgeState]) -> StageTime:
    """Return how a stage spent its time; that of folded stages is their sum, at most 1, inside their code, and their mean for all else: calls
    outside run beside each other."""
    shares = [each.shares() for each in group]
    n = len(group)
    active = min(1.0, sum(each[4] for each in shares))
    works = min(1.0, active + sum(max(0.0, each[Doing.WORKS] - each[4]) for each in shares) / n)
    demand, elements = sum(each[Doing.DEMAND] for each in shares) / n, sum(each[Doing.ELEMENTS] for each in shares) / n
    if n > 1 and works + demand + elements > 1:
        scale = (1 - works) / (demand + elements) if demand + elements else 0.0
        demand, elements = demand * scale, elements * scale
    turn = max(0.0, 1 - works - demand - elements) if any(any(each.past) for each in group) else 0.0
    logic = group[0].logic
    still = max(now_s - each.still_since_s for each in group)
    return StageTime(
        id_,
        _named(group),
        works,
        demand,
        elements,
        active,
        not any(edge.source == id_ for edge in edges) and bool(logic.inlets),
        still if active > 0.9 else 0.0,
        _paused(group),
        turn,
        group[0].island,
        _told(logic.told_limit),
        _told(logic.outside_wait),
    )


def _named(group: list[_Seen]) -> str:
    logic = group[0].logic
    return short((logic.common_name() if len(group) > 1 else "") or logic.name)


def _paused(group: list[_Seen]) -> tuple[str, ...]:
    """Return the partitions that the user has paused, if these are all that the stages have."""
    paused = [tuple(each.logic.paused) for each in group]
    return tuple(name for names in paused for name in names) if all(paused) else ()


def _told(ask: Callable[[], str]) -> str:
    try:
        return short(ask())
    except Exception:  # noqa: BLE001  # the stage starts or works while it is asked
        return ""


def _together(lines: list[EdgeState], of: dict[int, int]) -> list[EdgeState]:
    """Return the edges between folded stages; those of equal substreams are one edge with their sums."""
    folds = {first for id_, first in of.items() if id_ != first}
    sums: dict[tuple[int, ...], EdgeState] = {}
    for number, line in enumerate(lines):
        ends = (of[line.source], of[line.target])
        key = ends if folds.intersection(ends) else (*ends, number)
        found = sums.get(key)
        if found is None:
            sums[key] = replace(line, source=ends[0], target=ends[1])
        else:
            sums[key] = replace(
                found,
                per_s=round(found.per_s + line.per_s, 3),
                elements=found.elements + line.elements,
                ready=found.ready + line.ready,
                asked=found.asked + line.asked,
                marks=found.marks + line.marks,
            )
    return list(sums.values())


def _elements(logic: Any) -> int:
    """Return how many elements a stage has taken, or pushed if it takes none."""
    ports = logic.inlets or logic.outlets
    return sum(c.elements - c.ready for c in ports) if logic.inlets else sum(c.elements for c in ports)


def _rate(past: deque[tuple[float, int]]) -> float:
    (began, before), (now, after) = past[0], past[-1]
    return (after - before) / (now - began) if now > began else 0.0


def _open(logic: Any) -> bool:
    return any(not c.in_closed for c in logic.inlets) or any(not c.out_closed for c in logic.outlets)


def _said(logic: Any) -> str:
    try:
        said: str = logic.snapshot_state()
    except Exception:  # noqa: BLE001  # the stage works while its state is read
        return ""
    return said


def _kind(logic: Any) -> str:
    name = type(logic).__name__.removesuffix("Logic").lstrip("_")
    stage = getattr(logic, "stage", None)
    if stage is not None:
        name = type(stage).__name__
    if name in ("Feed", "FusedFlow"):
        return "fused"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def short(text: str) -> str:
    """Return a text of at most 200 characters."""
    return text if len(text) <= MOST_NAME else f"{text[: MOST_NAME - 1]}…"
