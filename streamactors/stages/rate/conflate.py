"""Operators that combine elements while downstream has no demand: conflate, conflate_with_seed, batch, batch_weighted.

With demand, each element becomes a result. Without, one element is taken each time that the island has nothing else to do: so a consumer
in the same island that is as fast as upstream gets every element as a result of its own. Marks wait for the result that has the elements
before them; they blur. Which elements are combined depends on timing, so all four operators remember."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, Mark
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.supervision import Directive, directive_for
from streamactors.stages.bases.elementwise import ElementwiseLogic
from streamactors.stages.bases.emitting import keep
from streamactors.stages.checks import F, plain_function, positive

_NOTHING: Any = object()


class _Combining(Stage[In, Out]):
    """Base of the four operators. `cost` None: each element costs 1. `seed` None: the first element begins a result."""

    handling = BLURS_MEMORY

    def __init__(
        self,
        most: float,
        cost: Callable[[Any], int] | None,
        seed: Callable[[Any], Any] | None,
        aggregate: Callable[[Any, Any], Any],
    ) -> None:
        self.max = most
        self.cost = cost
        self.seed = seed
        self.aggregate = aggregate
        self.fn = aggregate if seed is None else seed  # called with each element while downstream asks

    def checked(self, fn: F) -> F:
        """Return a function of the user if it is one."""
        return plain_function(self.label, fn)


class BatchWeighted(_Combining[In, Out]):
    """The stage of `Source.batch_weighted`."""

    def __init__(
        self,
        max_weight: int,
        cost: Callable[[Any], int],
        seed: Callable[[Any], Any],
        aggregate: Callable[[Any, Any], Any],
    ) -> None:
        positive(self.label, "max_weight", max_weight)
        super().__init__(max_weight, self.checked(cost), self.checked(seed), self.checked(aggregate))


class Batch(_Combining[In, Out]):
    """The stage of `Source.batch`."""

    def __init__(self, max_elements: int, seed: Callable[[Any], Any], aggregate: Callable[[Any, Any], Any]) -> None:
        positive(self.label, "max_elements", max_elements)
        super().__init__(max_elements, None, self.checked(seed), self.checked(aggregate))


class ConflateWithSeed(_Combining[In, Out]):
    """The stage of `Source.conflate_with_seed`."""

    def __init__(self, seed: Callable[[Any], Any], aggregate: Callable[[Any, Any], Any]) -> None:
        super().__init__(math.inf, None, self.checked(seed), self.checked(aggregate))


class Conflate(_Combining[In, In]):
    """The stage of `Source.conflate`."""

    def __init__(self, aggregate: Callable[[Any, Any], Any]) -> None:
        super().__init__(math.inf, None, None, self.checked(aggregate))


@logic_of(_Combining)
class _BatchLogic(ElementwiseLogic):
    def __init__(self, stage: _Combining[Any, Any]) -> None:
        super().__init__(stage)
        self._result: Any = _NOTHING  # combined while downstream has no demand
        self._left = stage.max
        self._full = False  # the next element is too heavy for the result
        self._held: list[Mark] = []
        self._completing = False

    def on_start(self) -> None:
        super().on_start()
        self.in_.want_when_idle()

    def on_pull(self, out: Connection) -> None:
        self._emit_result()
        if self._completing:
            self.complete_stage()
        else:
            self._state_want()

    def _emit_result(self) -> None:
        if self._result is not _NOTHING:
            result, self._result = self._result, _NOTHING
            self._left = self.stage.max
            self._full = False
            self.out.push([result])
            self._pass_marks()

    def _state_want(self) -> None:
        if self.out.asked:
            self.ask(self.out.asked)
        elif not self._full:
            self.in_.want_when_idle()

    def on_push(self, in_: Connection) -> None:
        if self._result is _NOTHING and self.out.asked:
            super().on_push(in_)
            if self.out.asked:
                return  # `super().on_push` has asked for more
        else:
            if not self._full:
                self._take_one(in_)
            if self.out.asked:  # demand has come for the waiting result; this element came before it
                self._emit_result()
        self._state_want()

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        """Downstream has demand: each element becomes a result."""
        seed = self.stage.seed
        if seed is None:
            out.extend(feed)
            return
        for element in feed:
            out.append(seed(element))
            if stop:
                return

    def _take_one(self, in_: Connection) -> None:
        """Downstream has no demand: combine one element with the result so far."""
        chunk = in_.grab(1)
        if not chunk:
            return
        element = chunk[0]
        self._pace.begin()
        fn: Callable[..., Any] | None = None
        try:
            fn = self.stage.cost
            cost = 1 if fn is None else fn(element)
            if self._result is _NOTHING:
                fn = self.stage.seed
                self._result = element if fn is None else fn(element)
                self._left -= cost
            elif self._left < cost:
                self._full = True
                in_.unread(chunk)
            else:
                fn = self.stage.aggregate
                self._result = fn(self._result, element)
                self._left -= cost
        except BaseException as error:
            directive = directive_for(self, error, element, fn)
            if directive is Directive.STOP:
                raise
            if directive is Directive.RESTART:
                self._result = _NOTHING
                self._left = self.stage.max
                self._pass_marks()
        finally:
            self._pace.end(1)

    def _pass_marks(self) -> None:
        for mark in self._held:
            self.out.mark(mark)
        self._held.clear()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self._result is _NOTHING:
            self.out.mark(mark)
        else:
            keep(self._held, mark)

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        if self._result is _NOTHING:
            self.complete_stage()

    def snapshot_state(self) -> str:
        return "" if self._result is _NOTHING else "a result waits for demand"
