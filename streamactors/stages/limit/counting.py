"""Operators that count: take, drop, limit, limit_weighted.

Marks pass at once and exactly; all of these operators remember their count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import FlowLogic, logic_of
from streamactors.engine.marks.marks import EXACT_MEMORY
from streamactors.engine.stage import In, Stage
from streamactors.errors import StreamLimitReached
from streamactors.stages.bases.elementwise import ElementwiseLogic
from streamactors.stages.checks import at_least, plain_function


class Take(Stage[In, In]):
    """The stage of `Source.take`."""

    handling = EXACT_MEMORY

    def __init__(self, n: int) -> None:
        self.n = at_least("take", "n", n, 0)


@logic_of(Take)
class _TakeLogic(FlowLogic):
    passes_marks = True
    one_result_each = True

    def __init__(self, stage: Take[Any]) -> None:
        self._left = stage.n

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
    """The stage of `Source.drop`."""

    handling = EXACT_MEMORY

    def __init__(self, n: int) -> None:
        self.n = at_least("drop", "n", n, 0)


@logic_of(Drop)
class _DropLogic(FlowLogic):
    passes_marks = True
    one_result_each = True

    def __init__(self, stage: Drop[Any]) -> None:
        self._left = stage.n

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
    """The stage of `Source.limit`."""

    handling = EXACT_MEMORY

    def __init__(self, n: int) -> None:
        self.n = at_least("limit", "n", n, 0)


@logic_of(Limit)
class _LimitLogic(FlowLogic):
    passes_marks = True

    def __init__(self, stage: Limit[Any]) -> None:
        super().__init__(stage)
        self._left = stage.n

    def on_push(self, in_: Connection) -> None:
        out = self.out
        chunk = in_.grab(out.asked)
        left = self._left
        if len(chunk) > left:
            if left:
                out.push(chunk[:left])
            self.fail_stage(_limit_reached(self.name, self.stage.n, "elements"))
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
    """The stage of `Source.limit_weighted`."""

    handling = EXACT_MEMORY

    def __init__(self, n: int, cost: Callable[[Any], int]) -> None:
        self.n = at_least("limit_weighted", "n", n, 0)
        self.fn = plain_function("limit_weighted", cost)


@logic_of(LimitWeighted)
class _LimitWeightedLogic(ElementwiseLogic):
    def __init__(self, stage: LimitWeighted[Any]) -> None:
        super().__init__(stage)
        self._left: float = stage.n

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        cost = self.fn
        left = self._left
        try:
            for element in feed:
                after = left - cost(element)
                if after < 0:
                    self.over = _limit_reached(self.name, self.stage.n, "in total cost")
                    break
                left = after
                out.append(element)
                if stop:
                    break
        finally:
            self._left = left

    def restart(self, out: list[Any]) -> None:
        self._left = self.stage.n
