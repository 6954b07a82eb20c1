"""The sliding windows of a key, and the windows that a row updates. Pure: the plan is made before anything is written.

Owner: SlidingOperator. Each accepted row at t has the window that ends at t, and the window that starts at t + 1 once
some row lies in that one. The store keeps no rows: a new window begins as a copy of a neighbour's aggregate, and the
newest timestamp of a window says where the previous row was. The updates are ordered as in Kafka Streams."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any

from streamactors.windows.record import RecordContext
from streamactors.windows.state.serdes import Ident
from streamactors.windows.state.stores import Cell


class Pane(Cell):
    """One window of a key. `gone`: deleted."""

    __slots__ = ("gone", "ident", "start")

    def __init__(
        self,
        ident: Ident,
        key: Any,
        start: int,
        value: Any,
        timestamp: int,
        context: RecordContext | None,
        prior: Any,
    ) -> None:
        self.ident = ident
        self.key = key
        self.start = start
        self.value = value
        self.timestamp = timestamp
        self.context = context
        self.prior = self.old = prior
        self.dirty = True
        self.logged = self.gone = False

    def __lt__(self, other: object) -> bool:
        return False


class Panes:
    """The windows of one key in the order of their starts."""

    __slots__ = ("panes", "starts")

    def __init__(self, panes: list[Pane], starts: list[int]) -> None:
        """`panes` in the order of their `starts`."""
        self.panes = panes
        self.starts = starts

    @classmethod
    def of(cls, panes: Iterable[Pane]) -> Panes:
        """Return panes that come in the order of their starts."""
        found = list(panes)
        return cls(found, [pane.start for pane in found])

    def __len__(self) -> int:
        return len(self.starts)

    def drop(self, before: int) -> list[Pane]:
        """Remove the panes that start before a time; return them."""
        end = bisect_left(self.starts, before)
        gone = self.panes[:end]
        del self.starts[:end], self.panes[:end]
        return gone

    def get(self, start: int) -> Pane | None:
        at = bisect_left(self.starts, start)
        return self.panes[at] if at < len(self.starts) and self.starts[at] == start else None

    def insert(self, pane: Pane) -> None:
        at = bisect_left(self.starts, pane.start)
        self.starts.insert(at, pane.start)
        self.panes.insert(at, pane)

    def remove(self, pane: Pane) -> None:
        at = bisect_left(self.starts, pane.start)
        del self.starts[at], self.panes[at]


class PaneUpdate:
    """One update that a row makes: of the window [start, start + D], with the aggregate and timestamp before it.

    `pane`: the window if it exists. `copies`: the window begins as a copy and the row does not lie in it. `refused`: the
    window is closed. `new`: the aggregate after the update."""

    __slots__ = ("copies", "new", "old", "pane", "refused", "start", "timestamp")

    def __init__(self, pane: Pane | None, start: int, old: Any, timestamp: int, copies: bool = False) -> None:
        self.pane = pane
        self.start = start
        self.old = old
        self.timestamp = timestamp
        self.copies = copies
        self.refused = False
        self.new: Any = None


def plan(panes: Panes, t: int, difference: int, shown_from: int) -> list[PaneUpdate]:
    """Return the updates of a row at t >= D, in order."""
    earliest = max(shown_from, t - 2 * difference)
    updates: list[PaneUpdate] = []
    right: Pane | None = None  # the latest window that contains t and reaches beyond it
    left: Pane | None = None  # the latest window that ends before t
    previous: int | None = None
    left_exists = right_exists = False
    seen = set()
    at = bisect_right(panes.starts, t + 1) - 1
    while at >= 0 and panes.starts[at] >= earliest:
        pane = panes.panes[at]
        seen.add(pane.start)
        end = pane.start + difference
        if pane.start == t + 1:
            right_exists = True
        elif end > t:
            right = right or pane
            updates.append(PaneUpdate(pane, pane.start, pane.value, pane.timestamp))
        elif end == t:
            left_exists = True
            updates.append(PaneUpdate(pane, pane.start, pane.value, pane.timestamp))
            if pane.timestamp == t:
                return updates  # a row at exactly t made all its windows already
            previous = pane.timestamp
        else:
            left, previous = pane, pane.timestamp
            break
        at -= 1
    if previous is not None and previous + 1 not in seen and previous + 1 + difference >= t:
        updates.append(PaneUpdate(None, previous + 1, None, t))
    if not left_exists:
        near = left is not None and previous is not None and t - difference <= previous
        updates.append(PaneUpdate(None, t - difference, left.value if near and left is not None else None, t))
    if right is not None and right.timestamp > t and not right_exists:
        updates.append(PaneUpdate(None, t + 1, right.value, right.timestamp, copies=True))
    return updates


def plan_early(panes: Panes, t: int, difference: int, shown_from: int) -> list[PaneUpdate]:
    """Return the updates of a row at t < D, in order; the left window of such a row is [0, D]."""
    updates: list[PaneUpdate] = []
    shared: Pane | None = None
    right: Pane | None = None
    previous: int | None = None
    seen = set()
    for pane in panes.panes[: bisect_right(panes.starts, t + 1)]:
        if pane.start < shown_from:
            continue
        seen.add(pane.start)
        if pane.start == 0:
            shared = pane
            if pane.timestamp < t:
                previous = pane.timestamp
        elif pane.start <= t:
            right = pane
            updates.append(PaneUpdate(pane, pane.start, pane.value, pane.timestamp))
    if right is None and shared is not None:
        right = shared
    if right is not None and right.timestamp > t and t + 1 not in seen:
        updates.append(PaneUpdate(None, t + 1, right.value, right.timestamp, copies=True))
    if previous is not None and previous + 1 not in seen:
        updates.append(PaneUpdate(None, previous + 1, None, t))
    updates.append(
        PaneUpdate(None, 0, None, t) if shared is None else PaneUpdate(shared, 0, shared.value, shared.timestamp)
    )
    return updates
