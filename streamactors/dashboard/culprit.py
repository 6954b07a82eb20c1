"""Who holds whom back: follow from each stage what it mostly waits for, until a stage that waits for no other one.

Pure: shares of time in, causes and sentences out. A stage without demand waits for the stage after it, a stage without elements for the one
before it. The stages on the way are victims; the last one is the culprit. Colouring the stages that wait would mark the victims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamactors.dashboard.model import CauseState

MOSTLY: Final = 0.5
"""A stage that works for this share of the time is what the others wait for."""
LEADS: Final = 1.5
"""Of several busy stages of one graph the busiest is named if it works this many times as long as the next one."""
BUSY: Final = 0.25
BLOCKED_S: Final = 5.0
"""A function that has not returned for so long is called blocked."""
IDLE: Final = 0.05


@dataclass(frozen=True, slots=True)
class StageTime:
    """How a stage spent its time. `active`: the part of `works` inside its own code, which is not a wait for calls or effects outside.
    `blocked_s`: for how long its function has not returned, while nothing moved. `paused`: partitions that the user has paused, all of them.
    `waits_for_turn`: the share in which it could continue while its island, `island`, was inside another stage. `limit`, `outside`: what the stage
    says of itself, see `Logic`."""

    id: int
    name: str
    works: float
    waits_for_demand: float
    waits_for_elements: float
    active: float = 0.0
    is_sink: bool = False
    blocked_s: float = 0.0
    paused: tuple[str, ...] = ()
    waits_for_turn: float = 0.0
    island: int = -1
    limit: str = ""
    outside: str = ""


def causes(
    stages: Sequence[StageTime],
    edges: Iterable[tuple[int, int]],
    pool_full: float = 0.0,
    *,
    full: Container[tuple[int, int]] = (),
    empty: Container[tuple[int, int]] = (),
) -> tuple[CauseState, ...]:
    """Return what holds a graph back, the cause with most victims first; nothing for a graph that has just begun or whose work is spread.

    `edges`: pairs of stage ids. `full`, `empty`: those of them on which nothing may be pushed now, and on which nothing is ready. `pool_full`: the share of the time in which no thread of the pool was free although turns waited."""
    by_id = {stage.id: stage for stage in stages}
    after: dict[int, list[int]] = {stage.id: [] for stage in stages}
    before: dict[int, list[int]] = {stage.id: [] for stage in stages}
    between: Counter[frozenset[int]] = Counter()
    for source, target in edges:
        after[source].append(target)
        before[target].append(source)
        between[frozenset((source, target))] += 1
    busiest: dict[int, StageTime] = {}
    for stage in stages:
        if stage.island >= 0 and stage.active > (busiest[stage.island].active if stage.island in busiest else 0.0):
            busiest[stage.island] = stage
    ends: dict[tuple[str, int], list[int]] = {}
    cycles: dict[frozenset[int], tuple[int, ...]] = {}
    for stage in stages:
        way = _follow(stage.id, by_id, after, before, busiest, full, empty)
        end = way[-1]
        if end in way[:-1]:
            ring = tuple(way[way.index(end) : -1])
            named = _of_ring(ring, by_id)
            if named is None:
                if len(ring) != 2 or between[frozenset(ring)] > 1:
                    cycles.setdefault(frozenset(ring), ring)
                # else elements are on their way over the only connection: one end has no demand yet, the other no elements
                continue
            end = named
        kind = _kind(by_id[end])
        if kind is not None:
            ends.setdefault((kind, end), []).extend(each for each in way if each != end)
    found = [
        _cause(kind, by_id[end], set(victims), by_id)
        for (kind, end), victims in ends.items()
        if kind not in ("works", "sink") or _holds(by_id[end], victims, by_id)
    ]
    found += [_cycle(ring, by_id) for ring in cycles.values() if _still(ring, by_id)]
    found.sort(key=lambda cause: (-_weight(cause, ends), cause.stage))
    if pool_full >= MOSTLY and stages:
        longest = max(stages, key=lambda stage: stage.works)
        found.insert(0, CauseState(longest.id, "pool", round(pool_full, 3), _pool(pool_full)))
    return tuple(found)


def culprits(found: Iterable[CauseState], stages: Sequence[StageTime]) -> set[int]:
    """Return the ids of the stages to mark: not a source that merely has no elements, nor the busiest one where the work is spread."""
    busy = sorted((stage.works for stage in stages), reverse=True)
    second = busy[1] if len(busy) > 1 else 0.0
    return {
        cause.stage
        for cause in found
        if cause.cause in ("blocked", "cycle", "paused")
        or (cause.cause in ("works", "sink") and (cause.share >= MOSTLY or cause.share >= LEADS * second))
    }


def _weight(cause: CauseState, ends: Mapping[tuple[str, int], list[int]]) -> int:
    victims = len(set(ends.get((cause.cause, cause.stage), ())))
    return victims + (1_000 if cause.cause in ("blocked", "cycle", "paused") else 0)


def _follow(
    begin: int,
    by_id: Mapping[int, StageTime],
    after: Mapping[int, list[int]],
    before: Mapping[int, list[int]],
    busiest: Mapping[int, StageTime],
    full: Container[tuple[int, int]],
    empty: Container[tuple[int, int]],
) -> list[int]:
    """Return the stages from `begin` to what it waits for in the end; the last one stands twice if they wait in a circle.

    `busiest`: by island, the stage whose code runs most: those that wait for their turn wait for it."""
    way = [begin]
    while True:
        here = by_id[way[-1]]
        if here.works >= MOSTLY or here.blocked_s >= BLOCKED_S or here.paused:
            return way
        runs = busiest.get(here.island)
        if (
            runs is not None
            and runs is not here
            and here.waits_for_turn >= max(BUSY, here.works, here.waits_for_demand)
        ):
            way.append(runs.id)
            if runs.id in way[:-1]:
                return way
            continue
        for_demand = here.waits_for_demand >= here.waits_for_elements
        next_ones = after[here.id] if for_demand else before[here.id]
        if _waits(here) >= 1 - IDLE:  # nothing moves: the connections say which neighbours it waits for
            holding = [
                each for each in next_ones if ((here.id, each) in full if for_demand else (each, here.id) in empty)
            ]
            next_ones = holding or next_ones
        if here.works > max(here.waits_for_demand, here.waits_for_elements) or not next_ones:
            return way
        back = before if for_demand else after
        others = [each for each in next_ones if not _comes_back(by_id[each], for_demand, back[each])]
        following = min(others or next_ones, key=lambda each: _answer(by_id[each], for_demand))
        way.append(following)
        if following in way[:-1]:
            return way


def _answer(stage: StageTime, for_demand: bool) -> float:
    """Return how much a neighbour itself waits for the one that waits for it: the lowest is to blame."""
    own = stage.waits_for_elements if for_demand else stage.waits_for_demand
    return own - stage.works - (1.0 if stage.blocked_s >= BLOCKED_S or stage.paused else 0.0)


def _comes_back(stage: StageTime, for_demand: bool, back: Sequence[int]) -> bool:
    """Return whether a neighbour waits for nothing but the stage that waits for it: elements are on their way between the two."""
    return len(back) == 1 and (stage.waits_for_elements if for_demand else stage.waits_for_demand) >= 1 - IDLE


def _of_ring(ring: tuple[int, ...], by_id: Mapping[int, StageTime]) -> int | None:
    """Return the stage of a circle that works; None if none does. Two busy neighbours wait for each other in turn, which is no cycle."""
    busy = sorted((by_id[each].works for each in ring), reverse=True)
    if busy[0] < IDLE:
        return None
    return max(ring, key=lambda each: by_id[each].works)


def _still(ring: tuple[int, ...], by_id: Mapping[int, StageTime]) -> bool:
    return all(by_id[each].waits_for_demand + by_id[each].waits_for_elements >= 1 - IDLE for each in ring)


def _kind(stage: StageTime) -> str | None:
    if stage.blocked_s >= BLOCKED_S:
        return "blocked"
    if stage.paused:
        return "paused"
    if stage.limit and stage.active < stage.works / 2 and stage.works >= BUSY:
        return "limit"
    if stage.works >= BUSY:
        return "sink" if stage.is_sink else "works"
    if stage.waits_for_elements >= MOSTLY:
        return "source"
    return None


def _cause(kind: str, stage: StageTime, victims: set[int], by_id: Mapping[int, StageTime]) -> CauseState:
    turn = sum(by_id[each].waits_for_turn > _waits(by_id[each]) for each in victims)
    waiting = [by_id[each] for each in victims if by_id[each].waits_for_turn <= _waits(by_id[each])]
    demand = sum(each.waits_for_demand > each.waits_for_elements for each in waiting)
    elements = len(waiting) - demand
    share = stage.waits_for_elements if kind == "source" else stage.works
    return CauseState(
        stage.id, kind, round(share, 3), f"{_said(kind, stage, share)}{_waiting(stage.is_sink, demand, elements, turn)}"
    )


def _holds(stage: StageTime, victims: Iterable[int], by_id: Mapping[int, StageTime]) -> bool:
    """Return whether a stage holds others back. One whose elements are outside, in calls or at Spark, may still keep up: then nobody waits for its
    demand."""
    return stage.active >= stage.works / 2 or any(by_id[each].waits_for_demand >= BUSY for each in victims)


def _waits(stage: StageTime) -> float:
    return max(stage.waits_for_demand, stage.waits_for_elements)


def _said(kind: str, stage: StageTime, share: float) -> str:
    name = stage.name
    if kind == "blocked":
        return f"a function of {name} has not returned for {stage.blocked_s:.0f} s"
    if kind == "paused":
        return f"the user has paused {', '.join(stage.paused)}; control.resume(…) lets {name} continue"
    if kind == "source":
        return f"{name} has no elements {share:.0%} of the time"
    if kind == "limit":
        return f"{name} {stage.limit}, as it was told to"
    if stage.active < stage.works / 2:
        until = stage.outside or "until calls or effects outside of it return"
        return f"{name} holds elements {share:.0%} of the time, {until}"
    return f"{name} works {share:.0%} of the time"


def _waiting(is_sink: bool, demand: int, elements: int, turn: int) -> str:
    parts = []
    if demand:
        parts.append(f"{_stages(demand)} upstream {_wait(demand)} for its demand")
    if elements:
        where, whose_elements = ("on other branches", "elements") if is_sink else ("downstream", "its elements")
        parts.append(f"{elements if demand else _stages(elements)} {where} {_wait(elements)} for {whose_elements}")
    if turn:
        whose = "their" if turn > 1 else "its"
        text = f"{_stages(turn)} of the same island {_wait(turn)} for {whose} turn"
        parts.append(f"{text} (async_boundary() would part them)")
    return f"; {', '.join(parts)}" if parts else ""


def _stages(count: int) -> str:
    return f"{count} stage{'s' if count > 1 else ''}"


def _wait(count: int) -> str:
    return "wait" if count > 1 else "waits"


def _cycle(ring: tuple[int, ...], by_id: Mapping[int, StageTime]) -> CauseState:
    names = " -> ".join(by_id[each].name for each in ring)
    text = f"the stages of a cycle wait for each other: {names}; a buffer in the cycle, or a branch that does not wait, would let it move"
    return CauseState(min(ring), "cycle", 1.0, text)


def _pool(share: float) -> str:
    return f"every thread of the pool is inside a turn {share:.0%} of the time; raise max_threads of the ActorSystem, or look for functions that block"
