"""The sliding windows of a key, and which of them a row touches. Pure: the plan is made before anything is written.

Owner: SlidingOperator. For each accepted row at t there is the window that ends at t, and the window that starts at
t + 1 once some row lies in it. No rows are kept: what a new window begins with is copied from its neighbours, and the
newest timestamp of a window tells where the previous row was. The order of updates is that of Kafka Streams."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from streamactors.windows.record import RecordContext


class Pane:
    """The aggregate of one window of a key and its newest timestamp; `prior` and `old`: before its first and its last
    update. `gone`: deleted."""

    __slots__ = ("context", "dirty", "gone", "ident", "key", "logged", "old", "prior", "start", "timestamp", "value")

    def __init__(
        self,
        ident: str | bytes,
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
        self.prior = prior
        self.old = prior
        self.gone = False
        self.dirty = True
        self.logged = False

    def __lt__(self, other: object) -> bool:
        return False


class Panes:
    """The windows of one key in the order of their starts."""

    __slots__ = ("panes", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.panes: list[Pane] = []

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


class Step:
    """One update of a row: window [start, start + D], the aggregate and timestamp before it, and the pane if there is one.

    `copies`: the window begins as a copy and the row does not lie in it."""

    __slots__ = ("copies", "new", "old", "pane", "refused", "start", "timestamp")

    def __init__(self, pane: Pane | None, start: int, old: Any, timestamp: int, copies: bool = False) -> None:
        self.pane = pane
        self.start = start
        self.old = old
        self.timestamp = timestamp
        self.copies = copies
        self.refused = False
        self.new: Any = None


def plan(panes: Panes, t: int, difference: int, shown_from: int) -> list[Step]:
    """The updates of a row at t >= D, in order."""
    earliest = max(shown_from, t - 2 * difference)
    steps: list[Step] = []
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
            steps.append(Step(pane, pane.start, pane.value, pane.timestamp))
        elif end == t:
            left_exists = True
            steps.append(Step(pane, pane.start, pane.value, pane.timestamp))
            if pane.timestamp == t:
                return steps  # a row at exactly t made all its windows already
            previous = pane.timestamp
        else:
            left, previous = pane, pane.timestamp
            break
        at -= 1
    if previous is not None and previous + 1 not in seen and previous + 1 + difference >= t:
        steps.append(Step(None, previous + 1, None, t))
    if not left_exists:
        near = left is not None and previous is not None and t - difference <= previous
        steps.append(Step(None, t - difference, left.value if near and left is not None else None, t))
    if right is not None and right.timestamp > t and not right_exists:
        steps.append(Step(None, t + 1, right.value, right.timestamp, copies=True))
    return steps


def plan_early(panes: Panes, t: int, difference: int, shown_from: int) -> list[Step]:
    """The updates of a row at t < D, in order; its left window is [0, D]."""
    steps: list[Step] = []
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
            steps.append(Step(pane, pane.start, pane.value, pane.timestamp))
    if right is None and shared is not None:
        right = shared
    if right is not None and right.timestamp > t and t + 1 not in seen:
        steps.append(Step(None, t + 1, right.value, right.timestamp, copies=True))
    if previous is not None and previous + 1 not in seen:
        steps.append(Step(None, previous + 1, None, t))
    steps.append(Step(None, 0, None, t) if shared is None else Step(shared, 0, shared.value, shared.timestamp))
    return steps
