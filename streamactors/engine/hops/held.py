"""HeldStamps: the stamps inside a stage that lets position marks pass late, such as at a commit. A stamp passes with the position it stands at."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from streamactors.engine.hops.stamp import Stamp
from streamactors.engine.marks.marks import NOWHERE, PositionMark, merge_newer

if TYPE_CHECKING:
    from streamactors.engine.logic import Logic


class HeldStamps:
    """Owner: the logic of the stage. `label`: what the stamps wait for, the name of the hop that ends when they pass.

    The ledger bounds how many there are: it starts no journey while 1,000 are on their way."""

    def __init__(self, stage: Logic, label: str) -> None:
        self._stage = stage
        self._label = label
        self._held: deque[Stamp] = deque()
        self._passed: PositionMark = {}

    def hold(self, stamp: Stamp) -> list[Stamp]:
        """A stamp has come: the stage's own work on what is before it ends here. Return it if its position has passed already."""
        stamp.end_hop(stamp.origin.ledger.row_of(self._stage), waited=self._stage.only_waits)
        self._held.append(stamp)
        return self._ripe()

    def passed(self, mark: PositionMark) -> list[Stamp]:
        """A mark has left the stage. Return the stamps that follow it."""
        merge_newer(self._passed, mark)
        return self._ripe() if self._held else []

    def _ripe(self) -> list[Stamp]:
        ripe, held = [], self._held
        for _ in range(len(held)):
            stamp = held.popleft()
            epoch, at = self._passed.get(stamp.key, NOWHERE)
            if epoch > stamp.origin.place[0]:
                continue  # of an assignment that is over: the elements come again
            if (epoch, at) < stamp.origin.place:
                held.append(stamp)
                continue
            stamp.row = stamp.origin.ledger.row((self._stage.name, self._label), self._label)
            ripe.append(stamp)
        return ripe
