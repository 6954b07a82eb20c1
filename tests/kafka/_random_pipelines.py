"""Random pipelines as data: built into a graph on one side, and on the other a plain answer to what must reach which sink.

An element is a tuple of origins (records, or committable messages); whatever a step does to elements, the origins in them tell what they
stem from. Filters judge an origin by its place alone, so that what must arrive does not depend on how origins were put together."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import reactivex.operators as rx

from streamactors import Balance, Broadcast, Flow, GraphDSL, Merge, Partition, Sink, Source, Zip

Place = tuple[str, int, int]
Keeps = Callable[[Place], bool]
Step = tuple[Any, ...]

SINGLE = ["map", "async", "boundary", "index", "throttle", "buffer"]
"""One element in, one out, in order: what may stand before a zip."""
MOVING = [
    *SINGLE,
    "repeat",
    "split",
    "group",
    "group within",
    "unordered",
    "by partition",
    "detach",
    "batch",
    "conflate",
]
MOVING += ["rx", "flat concat", "flat merge", "sliding", "delay"]
EXACT = ["map", "async", "boundary", "buffer", "flat concat", "filter", "rx", "index"]
"""Nothing derived from later records comes out before a mark: what a transaction may have on its way."""
DIAMONDS = ["broadcast", "balance", "partition", "zip"]


def place_of(origin: Any) -> Place:
    """Return where a record, or a committable message, was read."""
    record = getattr(origin, "record", origin)
    return record.topic, record.partition, record.offset


@dataclass
class Pipeline:
    """Steps drawn from a seed. `sides` are the names of its side sinks; `keeps[name]` says what must reach a sink ("main" too)."""

    steps: list[Step]
    keeps: dict[str, Keeps] = field(default_factory=dict)

    @classmethod
    def drawn(cls, dice: random.Random, *, exact: bool = False, sides: bool = True) -> Pipeline:
        kinds = EXACT if exact else [*MOVING, *MOVING, "filter", "filter", "diamond", "diamond", "diamond"]
        if sides:
            kinds = [*kinds, "also", "also"]
        pipeline = cls(steps(dice, kinds, dice.randint(1, 5)))
        passed: list[Step] = []
        for step in pipeline.steps:
            if step[0] == "also":
                pipeline.keeps[step[1]] = keeps(passed.copy())
            passed.append(step)
        pipeline.keeps["main"] = keeps(passed)
        return pipeline

    def built(self, source: Any, side: Callable[[str], Sink[Any, Any]]) -> Any:
        """Return the source with the steps behind it; `side(name)` gives the sink of a branch."""
        return _built(source, self.steps, side)


def keeps(path: list[Step]) -> Keeps:
    """Return whether an origin at some place comes through."""

    def through(place: Place) -> bool:
        for step in path:
            if step[0] == "filter" and _dropped(place, step[1]):
                return False
            if step[0] == "diamond" and not any(keeps(one)(place) for one in step[2]):
                return False
        return True

    return through


def _dropped(place: Place, k: int) -> bool:
    return (place[1] * 7 + place[2]) % k == 0


def steps(dice: random.Random, kinds: list[str], n: int) -> list[Step]:
    """Draw n steps of these kinds."""
    return [_step(dice, dice.choice(kinds)) for _ in range(n)]


def _step(dice: random.Random, kind: str) -> Step:
    if kind == "diamond":
        shape = dice.choice(DIAMONDS)
        inside = SINGLE if shape == "zip" else MOVING if shape != "broadcast" else [*MOVING, "filter"]
        paths = [steps(dice, inside, dice.randint(0, 2)) for _ in range(2)]
        return ("diamond", shape, paths)
    if kind == "also":
        return ("also", f"side-{dice.randrange(10**9)}", steps(dice, SINGLE, dice.randint(0, 1)))
    return (kind, dice.randint(2, 6), dice.randrange(10**9))


def _built(part: Any, path: list[Step], side: Callable[[str], Sink[Any, Any]]) -> Any:
    for step in path:
        if step[0] == "also":
            part = part.also_to(_built(Flow.identity(), step[2], side).to(side(step[1])))
        else:
            part = _STEPS[step[0]](part, *step[1:])
    return part


def _diamond(part: Any, shape: str, paths: list[list[Step]]) -> Any:
    fan: Any = {
        "broadcast": Broadcast(2),
        "zip": Broadcast(2),
        "balance": Balance(2),
        "partition": Partition(2, lambda x: place_of(x[0])[2] % 2),
    }[shape]
    with GraphDSL() as g:
        out, into = g.add(fan), g.add(Zip() if shape == "zip" else Merge(2))
        for i, path in enumerate(paths):
            out.out(i) >> _built(Flow.identity(), path, _no_side) >> into.in_(i)
    part = part.via(g.to_flow())
    return part.map(lambda pair: pair[0] + pair[1]) if shape == "zip" else part


def _no_side(name: str) -> Sink[Any, Any]:
    raise AssertionError(name)


def _joined(group: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(origin for element in group for origin in element)


def _slow(seed: int) -> Callable[[Any], Any]:
    """Return a function that returns its argument after a while that differs from element to element."""
    pause = threading.Event()

    def slow(element: Any) -> Any:
        _, partition, offset = place_of(element[0])
        wait = (seed + 31 * partition + offset) % 23
        if wait < 4:
            pause.wait(wait / 2_000)
        return element

    return slow


def _filtered(part: Any, k: int, _: int) -> Any:
    return part.map(lambda x: tuple(o for o in x if not _dropped(place_of(o), k))).filter(None)


_STEPS: dict[str, Callable[..., Any]] = {
    "map": lambda part, n, _: part.map(lambda x: (*x,)),
    "filter": _filtered,
    "async": lambda part, n, seed: part.map_async(n, _slow(seed)),
    "unordered": lambda part, n, seed: part.map_async_unordered(n, _slow(seed)),
    "by partition": lambda part, n, seed: part.map_async_partitioned(n, lambda x: place_of(x[0])[1], _slow(seed)),
    "boundary": lambda part, n, _: part.async_boundary(n),
    "index": lambda part, n, _: part.zip_with_index().map(itemgetter(0)),
    "throttle": lambda part, n, _: part.throttle(5_000, "1s", 50),
    "buffer": lambda part, n, _: part.buffer(n),
    "detach": lambda part, n, _: part.detach(),
    "delay": lambda part, n, _: part.delay(f"{n}ms", 16),
    "repeat": lambda part, n, _: part.map_concat(lambda x: [x] * (1 + len(x) % 2)),
    "split": lambda part, n, _: part.map_concat(lambda x: [(origin,) for origin in x]),
    "group": lambda part, n, _: part.grouped(n * n).map(_joined),
    "group within": lambda part, n, _: part.grouped_within(n, "20ms").map(_joined),
    "batch": lambda part, n, _: part.batch(n, lambda x: x, lambda a, b: a + b),
    "conflate": lambda part, n, _: part.batch(100, lambda x: x, lambda a, b: a + b),
    "sliding": lambda part, n, _: part.sliding(2, 1 + n % 2).map(_joined),
    "rx": lambda part, n, _: part.via(
        Flow.rx(rx.map(lambda x: [x]), rx.flat_map(lambda xs: xs), rx.filter(lambda x: True), holds=False)
    ),
    "flat concat": lambda part, n, _: part.flat_map_concat(lambda x: Source.from_iterable([x] * (1 + len(x) % n))),
    "flat merge": lambda part, n, _: part.flat_map_merge(n, lambda x: Source.from_iterable([x] * (1 + len(x) % 2))),
    "diamond": _diamond,
}
