"""Operators that combine elements while downstream is silent: conflate, conflate_with_seed, batch, batch_weighted.

While downstream asks, each element goes on by itself. When it does not, one element is taken whenever the island has nothing else to
do: a consumer in the same island that is just as fast gets every element alone. Marks wait behind the result that their elements
went into; blur. What is combined depends on timing, so all of them count as remembering."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import BLURS_MEMORY, Mark
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.supervision import Directive, directive_for
from streamactors.stages.calling import CallingLogic
from streamactors.stages.checks import plain_function, positive
from streamactors.stages.emitting import keep

_NOTHING: Any = object()


class BatchWeighted(Stage[In, Out]):
    """Combine elements while downstream is silent, as long as their costs add up to at most `max_weight`.

    `seed(element)` begins a result, `aggregate(result, element)` adds to it; one element alone may cost more than the maximum.
    Emits when: downstream asks and a result is there.   Backpressures when: downstream does and the next element is too heavy.
    Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
    Supervision: resume drops the element, restart also what was combined so far.
    Marks: behind the result that has the elements before them; blurs, remembers.
    """

    handling = BLURS_MEMORY

    def __init__(
        self,
        max_weight: int,
        cost: Callable[[Any], int],
        seed: Callable[[Any], Any],
        aggregate: Callable[[Any, Any], Any],
    ) -> None:
        self._max: float = positive(self.label, "max_weight", max_weight)
        self._cost: Callable[[Any], int] | None = plain_function(self.label, cost)
        self._seed: Callable[[Any], Any] | None = plain_function(self.label, seed)
        self._aggregate = plain_function(self.label, aggregate)

    def logic(self) -> Logic:
        return _BatchLogic(self._max, self._cost, self._seed, self._aggregate)


class Batch(BatchWeighted[In, Out]):
    """Combine up to `max_elements` elements while downstream is silent.

    `seed(element)` begins a result, `aggregate(result, element)` adds to it.
    Emits when: downstream asks and a result is there.   Backpressures when: downstream does and the result has `max_elements`.
    Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
    Supervision: resume drops the element, restart also what was combined so far.
    Marks: behind the result that has the elements before them; blurs, remembers.
    """

    def __init__(self, max_elements: int, seed: Callable[[Any], Any], aggregate: Callable[[Any, Any], Any]) -> None:
        super().__init__(positive(self.label, "max_elements", max_elements), _one, seed, aggregate)
        self._cost = None


class ConflateWithSeed(BatchWeighted[In, Out]):
    """Combine elements as long as downstream is silent, without bound: `seed(element)`, then `aggregate(result, element)`.

    Emits when: downstream asks and a result is there.   Backpressures when: never, save while a function runs.
    Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
    Supervision: resume drops the element, restart also what was combined so far.
    Marks: behind the result that has the elements before them; blurs, remembers.
    """

    def __init__(self, seed: Callable[[Any], Any], aggregate: Callable[[Any, Any], Any]) -> None:
        super().__init__(1, _one, seed, aggregate)
        self._max = float("inf")
        self._cost = None


class Conflate(ConflateWithSeed[In, In]):
    """Combine elements as long as downstream is silent, without bound: `aggregate(result, element)`.

    Emits when: downstream asks and an element is there.   Backpressures when: never, save while the function runs.
    Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
    Supervision: resume drops the element, restart also what was combined so far.
    Marks: behind the result that has the elements before them; blurs, remembers.
    """

    def __init__(self, aggregate: Callable[[Any, Any], Any]) -> None:
        super().__init__(_one, aggregate)
        self._seed = None


def _one(_: Any) -> int:
    return 1


class _BatchLogic(CallingLogic):
    def __init__(
        self,
        most: float,
        cost: Callable[[Any], int] | None,
        seed: Callable[[Any], Any] | None,
        aggregate: Callable[[Any, Any], Any],
    ) -> None:
        self._max = most
        self._cost = cost
        self._seed = seed
        self.fn = seed if seed is not None else aggregate
        self._aggregate = aggregate
        self._result: Any = _NOTHING  # combined, and not asked for yet
        self._left = most
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
            self._left = self._max
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
                return  # its want has been stated
        else:
            if not self._full:
                self._take_one(in_)
            if self.out.asked:  # since a moment ago, with a result waiting: this element came before the demand
                self._emit_result()
        self._state_want()

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        """Downstream asks: each element is a result of its own."""
        seed = self._seed
        if seed is None:
            out.extend(feed)
            return
        for element in feed:
            out.append(seed(element))
            if stop:
                return

    def _take_one(self, in_: Connection) -> None:
        """Downstream is silent: combine one element with what is there."""
        chunk = in_.grab(1)
        if not chunk:
            return
        element = chunk[0]
        self._pace.begin()
        fn: Callable[..., Any] | None = None
        try:
            fn = self._cost
            cost = 1 if fn is None else fn(element)
            if self._result is _NOTHING:
                fn = self._seed
                self._result = element if fn is None else fn(element)
                self._left -= cost
            elif self._left < cost:
                self._full = True
                in_.unread(chunk)
            else:
                fn = self._aggregate
                self._result = fn(self._result, element)
                self._left -= cost
        except BaseException as error:
            directive = directive_for(self, error, element, fn)
            if directive is Directive.STOP:
                raise
            if directive is Directive.RESTART:
                self._result = _NOTHING
                self._left = self._max
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
        return "" if self._result is _NOTHING else "keeps a result that nobody asked for"
