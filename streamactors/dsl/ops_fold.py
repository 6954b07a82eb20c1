"""Operators that carry something from element to element, or make lists of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from streamactors.clock import Duration
from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out, S, U
from streamactors.errors import BuildError
from streamactors.stages.emitting import NOT_GIVEN
from streamactors.stages.expanding import Intersperse
from streamactors.stages.fold import Fold, Reduce, Scan, StatefulMap
from streamactors.stages.grouping import Grouped, Sliding
from streamactors.stages.limit import ZipWithIndex
from streamactors.stages.timed import GroupedWithin


class FoldOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def scan(self, zero: U, fn: Callable[[U, Out], U]) -> Ops[U, Mat]:
        """Emit `zero`, then for each element the value so far combined with it by `fn(value, element)`.

        Each run starts with a copy of `zero`.
        Emits when: `fn` has returned.                Backpressures when: downstream does.
        Completes when: upstream completes, after `zero`.   Cancels when: downstream cancels.
        Supervision: resume drops the element; restart goes back to `zero` and emits it.
        """
        return self._via(Scan(zero, fn))

    def fold(self, zero: U, fn: Callable[[U, Out], U]) -> Ops[U, Mat]:
        """Combine all elements by `fn(value, element)`, beginning with `zero`; emit the result when upstream completes.

        Each run starts with a copy of `zero`.
        Emits when: upstream completes.               Backpressures when: downstream does.
        Completes when: the result has been emitted.  Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also goes back to `zero`.
        """
        return self._via(Fold(zero, fn))

    def reduce(self, fn: Callable[[Any, Out], Any]) -> Ops[Out, Mat]:
        """Combine all elements by `fn(value, element)`, beginning with the first; emit the result when upstream completes.

        Emits when: upstream completes.               Backpressures when: downstream does.
        Completes when: the result has been emitted.  Cancels when: downstream cancels.
        Fails when: there was no element, with NoSuchElement.
        Supervision: resume drops the element, restart also what was combined so far.
        """
        return self._via(Reduce(fn))

    def stateful_map(
        self,
        create: Callable[[], S],
        fn: Callable[[S, Out], tuple[S, U]],
        on_complete: Callable[[S], U | None] | None = None,
    ) -> Ops[U, Mat]:
        """Turn each element into a result with the help of a state: `fn(state, element)` returns (next state, result).

        `create()` makes the state of a run. `on_complete(state)` is called exactly once for each state made, however the stream
        ends; what it returns is emitted last, unless it is None or downstream has cancelled.
        Emits when: `fn` has returned, and once at the end if `on_complete` gives something.
        Backpressures when: downstream does.          Completes when: upstream completes and the last result has been emitted.
        Cancels when: downstream cancels.
        Supervision: resume drops the element; restart also closes the state, emits what that gives, and makes a new one.
        """
        return self._via(StatefulMap(create, fn, on_complete))

    def grouped(self, n: int) -> Ops[list[Out], Mat]:
        """Collect elements into lists of `n`; the last one may be shorter.

        Emits when: `n` elements have come, or upstream completes with some left.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(Grouped(n))

    def grouped_within(self, n: int, span: Duration) -> Ops[list[Out], Mat]:
        """Collect elements into lists of `n`, or of what came within `span`, whichever is first; never an empty list.

        The time is counted from the last list that was full, or the start, in spans of that length.
        Emits when: `n` elements have come, or a span is over and one has.   Backpressures when: downstream does and a list is full.
        Completes when: upstream completes, behind what was left.   Cancels when: downstream cancels.
        """
        return self._via(GroupedWithin(n, span))

    def sliding(self, n: int, step: int = 1) -> Ops[list[Out], Mat]:
        """Emit lists of `n` elements, each beginning `step` elements behind the one before.

        What is left at the end is emitted as a shorter list if it has elements that no list had. A step above `n` leaves
        elements out.
        Emits when: `n` elements have come, or upstream completes with new ones left.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(Sliding(n, step))

    def zip_with_index(self) -> Ops[tuple[Out, int], Mat]:
        """Pair each element with its number, from 0: (element, number).

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(ZipWithIndex())

    @overload
    def intersperse(self, separator: U, *, start: U = NOT_GIVEN, end: U = NOT_GIVEN) -> Ops[Out | U, Mat]: ...

    @overload
    def intersperse(self, start: U, separator: U, end: U, /) -> Ops[Out | U, Mat]: ...

    def intersperse(
        self, separator: Any, *between_and_end: Any, start: Any = NOT_GIVEN, end: Any = NOT_GIVEN
    ) -> Ops[Any, Mat]:
        """Put `separator` between elements; with `start` and `end` these before the first and behind the last, also when there
        is none. `intersperse(",", start="[", end="]")` can be written `intersperse("[", ",", "]")`.

        Emits when: upstream does, or before: `start`.   Backpressures when: downstream does.
        Completes when: upstream completes and `end` has been emitted.   Cancels when: downstream cancels.
        """
        if between_and_end:
            if len(between_and_end) != 2 or start is not NOT_GIVEN or end is not NOT_GIVEN:
                raise BuildError("intersperse expects a separator, or (start, separator, end)")
            start, (separator, end) = separator, between_and_end
        return self._via(Intersperse(separator, start, end))
