"""Operators that count: take, drop, limit, limit_weighted, zip_with_index.

Marks pass at once and exactly; all of them remember how far they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks import EXACT_MEMORY
from streamactors.engine.stage import In, Stage
from streamactors.errors import StreamLimitReached
from streamactors.stages.calling import CallingLogic
from streamactors.stages.checks import at_least, plain_function


class Take(Stage[In, In]):
    """Pass the first n elements, then complete.

    Emits when: an element arrives and n are not through yet.   Backpressures when: downstream does.
    Completes when: n elements have passed, or upstream completes.   Cancels when: n elements have passed, or downstream cancels.
    Marks: at once, exact; remembers. The mark right behind the last element taken passes.
    """

    handling = EXACT_MEMORY

    def __init__(self, n: int) -> None:
        self._n = at_least("take", "n", n, 0)

    def logic(self) -> Logic:
        return _TakeLogic(self._n)


class _TakeLogic(FlowLogic):
    passes_marks = True

    def __init__(self, n: int) -> None:
        self._left = n

    def on_start(self) -> None:
        if not self._left:
            self.complete_stage()

    def on_pull(self, out: Connection) -> None:
        left = self._left
        self.in_.want(out.asked if out.asked < left else left)

    def on_push(self, in_: Connection) -> None:
        out = self.out
        asked = out.asked
        left = self._left
        chunk = in_.grab(asked if asked < left else left)
        if chunk:
            out.push(chunk)
            self._left = left = left - len(chunk)
        if not left:
            self.complete_stage()
            return
        asked = out.asked
        if asked:
            in_.want(asked if asked < left else left)

    def snapshot_state(self) -> str:
        return f"{self._left} to go"


class Drop(Stage[In, In]):
    """Drop the first n elements, pass the rest.

    Emits when: n elements have been dropped and another arrives.   Backpressures when: n are dropped and downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Marks: at once, exact; remembers.
    """

    handling = EXACT_MEMORY

    def __init__(self, n: int) -> None:
        self._n = at_least("drop", "n", n, 0)

    def logic(self) -> Logic:
        return _DropLogic(self._n)


class _DropLogic(FlowLogic):
    passes_marks = True

    def __init__(self, n: int) -> None:
        self._left = n

    def on_pull(self, out: Connection) -> None:
        self.in_.want(out.asked + self._left)

    def on_push(self, in_: Connection) -> None:
        out = self.out
        left = self._left
        if left:
            self._left = left = left - len(in_.grab(left))
            if left or not in_.ready:
                in_.want(out.asked + left)
                return
        chunk = in_.grab(out.asked)
        if chunk:
            out.push(chunk)
        if out.asked:
            in_.want(out.asked)

    def snapshot_state(self) -> str:
        return f"{self._left} to drop" if self._left else ""


class Limit(Stage[In, In]):
    """Pass at most n elements; one more fails the stream.

    Emits when: upstream does, up to n elements.  Backpressures when: downstream does.
    Completes when: upstream completes within n elements.   Cancels when: downstream cancels.
    Fails when: element n + 1 arrives, with StreamLimitReached.
    Marks: at once, exact; remembers.
    """

    handling = EXACT_MEMORY

    def __init__(self, n: int) -> None:
        self._n = at_least("limit", "n", n, 0)

    def logic(self) -> Logic:
        return _LimitLogic(self._n)


class _LimitLogic(FlowLogic):
    passes_marks = True

    def __init__(self, n: int) -> None:
        self._n = n
        self._left = n

    def on_push(self, in_: Connection) -> None:
        out = self.out
        chunk = in_.grab(out.asked)
        left = self._left
        if len(chunk) > left:
            if left:
                out.push(chunk[:left])
            self.fail_stage(_limit_reached(self.name, self._n, "elements"))
            return
        self._left = left - len(chunk)
        if chunk:
            out.push(chunk)
        if out.asked:
            in_.want(out.asked)

    def snapshot_state(self) -> str:
        return f"{self._left} to go"


def _limit_reached(name: str, n: int, what: str) -> StreamLimitReached:
    return StreamLimitReached(f"{name}: more than {n} {what}; raise the limit, or end the stream earlier with take")


class LimitWeighted(Stage[In, In]):
    """Pass elements whose costs add up to at most n; one that exceeds it fails the stream.

    Emits when: upstream does, up to a total cost of n.   Backpressures when: downstream does.
    Completes when: upstream completes within the limit.  Cancels when: downstream cancels.
    Fails when: the total cost exceeds n, with StreamLimitReached.
    Supervision: resume drops the element, restart also begins to count anew.
    Marks: at once, exact; remembers.
    """

    handling = EXACT_MEMORY

    def __init__(self, n: int, cost: Callable[[Any], int]) -> None:
        self._n = at_least("limit_weighted", "n", n, 0)
        self._cost = plain_function("limit_weighted", cost)

    def logic(self) -> Logic:
        return _LimitWeightedLogic(self._n, self._cost)


class _LimitWeightedLogic(CallingLogic):
    def __init__(self, n: int, cost: Callable[[Any], int]) -> None:
        self.fn = cost
        self._n = n
        self._left: float = n

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        cost = self.fn
        left = self._left
        try:
            for element in feed:
                after = left - cost(element)
                if after < 0:
                    self.over = _limit_reached(self.name, self._n, "in total cost")
                    break
                left = after
                out.append(element)
                if stop:
                    break
        finally:
            self._left = left

    def restart(self, out: list[Any]) -> None:
        self._left = self._n


class ZipWithIndex(Stage[In, tuple[In, int]]):
    """Pair each element with its number, from 0: (element, number).

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Marks: at once, exact; remembers.
    """

    handling = EXACT_MEMORY

    def logic(self) -> Logic:
        return _ZipWithIndexLogic()


class _ZipWithIndexLogic(FlowLogic):
    passes_marks = True

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def on_push(self, in_: Connection) -> None:
        out = self.out
        chunk = in_.grab(out.asked)
        if chunk:
            out.push(list(zip(chunk, self._numbers, strict=False)))  # the chunk is the shorter one
        if out.asked:
            in_.want(out.asked)
