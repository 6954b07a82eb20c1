"""SidePath: how far the chunk that a fan-out pushed to a side has come.

The connections say how many elements their stages have not taken, also after they were cancelled. Where each stage has one result for each
element, that gives the place of the element at which a stage has failed or cancelled. Owner: the fan-out's logic (sides_first.py)."""

from __future__ import annotations

from typing import Final

from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection

LONGEST_PATH: Final = 32
"""The most stages of a side that are looked at."""


class SidePath:
    """The connections from a side outlet on, up to the first stage that is not a flow."""

    def __init__(self, outlet: Connection) -> None:
        self.connections = path = [outlet]
        while len(path) < LONGEST_PATH and len(path[-1].consumer.inlets) == 1:
            outlets = path[-1].consumer.outlets
            if len(outlets) != 1:
                break
            path.append(outlets[0])

    def counted(self) -> bool:
        """True when the place of each element is known throughout the path."""
        return all(each.consumer.one_result_each for each in self.connections[:-1])

    def failure(self) -> BaseException | None:
        """Return the error of the first stage that has failed."""
        for each in self.connections:
            failure = each.consumer.failure
            if failure is not None:
                return failure
        return None

    def passed(self, n: int) -> int:
        """Return how many of the `n` elements that were pushed last have passed every stage; 0 when it cannot be known yet.

        An element at which a stage has failed has not passed it."""
        left = failed = 0
        path = self.connections
        known = True
        for each in path:
            if known:
                left += each.untaken if each.cause is not None else each.ready
            if each.cause is not None and not isinstance(each.cause, NonFailureCancellation):
                failed = 1
                if not known:
                    return 0
            elif not known and each.cause is None and each.ready:
                return 0
            known = known and each.consumer.one_result_each
        return max(0, n - left - failed)
