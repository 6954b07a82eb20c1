"""Stages of a run that work in other processes: the page asks each worker process once a second what its stages do, and draws them where they are.

Owner: the GraphReader of the run. Ids and islands of a process are replaced by those of the page, and stay the same as long as it runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from streamactors.dashboard.culprit import StageTime
from streamactors.dashboard.model import EdgeState, StageState

LOOK: Final = "streamactors.dashboard.reading.in_worker:look"
FIRST_ID: Final = 1 << 20
"""Ids of stages in worker processes begin here."""


class Seen(NamedTuple):
    """What is known of stages at a moment; the edges are between their ids."""

    times: list[StageTime]
    stages: list[StageState]
    edges: list[EdgeState]


@dataclass(frozen=True, slots=True)
class Gap:
    """An edge that leads through a worker process."""

    edge: EdgeState
    remote: Any


class WorkersReader:
    """Reads the worker processes of one run."""

    def __init__(self) -> None:
        self._ids: dict[Any, dict[int, int]] = {}  # by process, of the stages in its last answer
        self._islands: dict[Any, int] = {}
        self._next_id, self._next_island = itertools.count(FIRST_ID), itertools.count(FIRST_ID)

    def through(self, seen: Seen, gaps: Iterable[Gap]) -> Seen:
        """Return what is known, with the stages of the worker processes in their places. A process that has not answered yet is left out."""
        times, stages, edges = list(seen.times), list(seen.stages), list(seen.edges)
        gaps = list(gaps)
        there = {gap.remote for gap in gaps}
        self._ids = {remote: ids for remote, ids in self._ids.items() if remote in there}
        self._islands = {remote: island for remote, island in self._islands.items() if remote in there}
        for gap in gaps:
            found = self._read(gap.remote)
            if found is None:
                continue
            first = [each.id for each in found.stages if not any(edge.target == each.id for edge in found.edges)]
            last = [each.id for each in found.stages if not any(edge.source == each.id for edge in found.edges)]
            edges.remove(gap.edge)
            edges += found.edges
            edges += [replace(gap.edge, target=id_) for id_ in first]
            edges += [replace(gap.edge, source=id_) for id_ in last]
            times += found.times
            stages += found.stages
        return Seen(times, stages, edges)

    def _read(self, remote: Any) -> Seen | None:
        said = remote.look(LOOK)
        if not said:
            return None
        told = json.loads(said)
        process = f"worker {told['pid']}"
        known = self._ids.get(remote, {})
        ids = {each["id"]: known.get(each["id"]) or next(self._next_id) for each in told["stages"]}
        self._ids[remote] = ids
        if not ids:
            return None
        island = self._islands.get(remote) or next(self._next_island)
        self._islands[remote] = island
        times = [
            StageTime(**{**each, "id": ids[each["id"]], "island": island, "is_sink": False, "paused": ()})
            for each in told["times"]
        ]
        stages = [
            StageState(**{**each, "id": ids[each["id"]], "island": island, "process": process})
            for each in told["stages"]
        ]
        names = {each.name for each in fields(EdgeState)}
        edges = [
            EdgeState(
                **{name: value for name, value in each.items() if name in names}
                | {"source": ids[each["source"]], "target": ids[each["target"]]}
            )
            for each in told["edges"]
        ]
        return Seen(times, stages, edges)
