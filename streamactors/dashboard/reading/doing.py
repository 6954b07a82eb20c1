"""What a stage does at one moment: it works, waits for demand, waits for elements, or waits for its turn on its island.

Pure: it reads only the fields of connections, which another thread may change meanwhile; a sample may be wrong, a share of many is not."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Protocol


class Doing(enum.IntEnum):
    """`WORKS` includes stages that hold elements outside of a handler: calls that have not returned, a delay, a sink with an effect on its way."""

    WORKS = 0
    DEMAND = 1
    ELEMENTS = 2
    TURN = 3


class Port(Protocol):
    """A connection, as far as it is read."""

    asked: int
    ready: int
    wanting: bool
    queued: bool
    finished: bool
    terminal: Any
    cause: Any


def doing(active: bool, inlets: Sequence[Port], outlets: Sequence[Port], elsewhere: bool = False) -> Doing:
    """Return what a stage does. `active`: its island is inside one of its handlers; `elsewhere`: inside a handler of another stage, so that a stage
    that seems to hold elements may only wait for its turn.

    A stage that could take elements and has none waits for elements, unless it has some on another inlet and no demand. A source with
    demand that is not inside a handler waits for elements from outside."""
    if active:
        return Doing.WORKS
    starving = ready = turn = open_in = False
    for c in inlets:
        if c.finished or c.cause is not None:
            continue
        open_in = True
        if c.ready:
            ready = True
            turn = turn or c.wanting
        elif c.asked and c.terminal is None:
            starving = True
        turn = turn or c.queued
    open_out = blocked = False
    for c in outlets:
        if c.terminal is None and c.cause is None:
            open_out = True
            blocked = blocked or not c.asked
    if starving and not (blocked and ready):
        return Doing.ELEMENTS
    if blocked:
        return Doing.DEMAND
    if not open_in and open_out:
        return Doing.ELEMENTS
    return Doing.TURN if turn or elsewhere else Doing.WORKS
