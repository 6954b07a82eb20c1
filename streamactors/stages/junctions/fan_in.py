"""Fan-in junctions: merge, merge_preferred, concat, or_else, interleave.

Marks: per partition the minimum over the open inlets that can carry it; concat and or_else pass them in order."""

from __future__ import annotations

from collections import deque

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.marks.marks import BLURS, EXACT, FanInMarks, Mark
from streamactors.engine.stage import Element, Junction, fan_in
from streamactors.engine.stage_traits import StageTraits
from streamactors.stages.checks import positive


class FanInLogic(Logic):
    """Base of junctions with several inlets and the outlet `self.out`: marks by minimum, live inlets, eager completion."""

    only_waits = True

    def bind(self) -> None:
        """Called when the connections are known."""
        self.out = self.outlets[0]
        self._eager_complete: bool = getattr(self.stage, "eager_complete", False)
        self._live = len(self.inlets)
        self._marks = FanInMarks([inlet.carries for inlet in self.inlets])

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        for ripe in self._marks.on_mark(in_.in_index, mark):
            self.out.mark(ripe)

    def on_complete(self, in_: Connection) -> None:
        self._live -= 1
        for ripe in self._marks.on_inlet_closed(in_.in_index):
            self.out.mark(ripe)
        if self._eager_complete or not self._live:
            self.complete_stage()
        else:
            self.after_complete(in_)

    def after_complete(self, in_: Connection) -> None:
        """An inlet has completed and others are open."""

    def share(self) -> int:
        """Return the demand of one inlet: downstream's, split among the open inlets, and at least 1 (a feedback loop must start)."""
        return max(1, -(-self.out.asked // self._live)) if self._live else 0


class Merge(Junction[Element, Element]):
    """Merge several inputs, taking elements as they come; inputs that wait for demand are served in the order of their arrival.

    The four "when"s are those of `Source.merge`.
    """

    handling = BLURS

    def __init__(self, inputs: int, eager_complete: bool = False) -> None:
        self.inputs = positive("Merge", "inputs", inputs)
        self.shape = fan_in(inputs)
        self.eager_complete = eager_complete
        self.traits = StageTraits(ends_with_inputs=not eager_complete)
        if inputs == 1:
            self.handling = EXACT


@logic_of(Merge)
class _MergeLogic(FanInLogic):
    _turn = 0

    def on_start(self) -> None:
        self._waiting: deque[Connection] = deque()  # inlets with elements and no demand, in the order of their arrival
        for inlet in self.inlets:
            inlet.want(1)

    def on_pull(self, out: Connection) -> None:
        while self._waiting and out.asked:
            self.on_push(self._waiting.popleft())
        if not out.asked:
            return
        n = len(self.inlets)
        share = self.share()
        self._turn = first = (self._turn + 1) % n
        for i in range(first, first + n):
            inlet = self.inlets[i % n]
            if not inlet.in_closed:
                inlet.want(max(share, inlet.due))

    def on_push(self, in_: Connection) -> None:
        out = self.out
        if not out.asked:
            self._waiting.append(in_)
            return
        chunk = in_.grab(min(out.asked, self.share()))
        if chunk:
            out.push(chunk)
        in_.want(max(self.share(), in_.due) if out.asked else 1)


A_TURN = 2
"""Calls of `on_pull`: between two of them every other connection of the island has been visited."""

AHEAD = 2
"""Elements that the preferred input may hold without demand. A feedback loop into it needs this room, or the loop stalls."""


class MergePreferred(Junction[Element, Element]):
    """Merge with one preferred input (the first, index 0): while it has elements, the others wait.

    The four "when"s are those of `Source.merge_preferred`.
    """

    handling = BLURS

    def __init__(self, secondary: int, eager_complete: bool = False) -> None:
        self.shape = fan_in(positive("MergePreferred", "secondary", secondary) + 1)
        self.eager_complete = eager_complete
        self.traits = StageTraits(ends_with_inputs=not eager_complete)


@logic_of(MergePreferred)
class _MergePreferredLogic(FanInLogic):
    _turn = 0
    _patience = A_TURN  # calls of `on_pull` for which the others still wait for the preferred input

    def on_start(self) -> None:
        for inlet in self.inlets:
            inlet.want(1)

    def on_pull(self, out: Connection) -> None:
        self._pump()
        if self._patience:
            self._patience -= 1

    def on_push(self, in_: Connection) -> None:
        self._pump()

    def after_complete(self, in_: Connection) -> None:
        self._pump()

    def _pump(self) -> None:
        out = self.out
        preferred, *others = self.inlets
        if out.asked and preferred.ready:
            self._take(preferred, out.asked)
            self._patience = A_TURN
        if out.asked or not preferred.ready:
            preferred.want(max(out.asked, 1))
        elif preferred.ready < AHEAD:
            preferred.ask(AHEAD)
        if out.asked and not preferred.ready:
            if self._patience and preferred.pull_due and not preferred.out_closed:
                # the preferred input was slow -> it pushed a slice of one -> it has more in its next visit; without waiting the
                # elements of the others would pass between
                out.again()
            else:
                self._take_another(others)
        for inlet in others:
            if not inlet.in_closed and (not inlet.ready or (out.asked and not preferred.ready)):
                inlet.want(max(inlet.due, 1))

    def _take_another(self, others: list[Connection]) -> None:
        """Take one element of the next of the others: the preferred input may have more by the one after it."""
        n = len(others)
        self._turn = first = (self._turn + 1) % n
        for i in range(first, first + n):
            if others[i % n].ready:
                self._take(others[i % n], 1)
                return

    def _take(self, inlet: Connection, n: int) -> None:
        chunk = inlet.grab(n)
        if chunk:
            self.out.push(chunk)


class Concat(Junction[Element, Element]):
    """Emit all of the first input, then all of the next, and so on.

    Detached (the default): one element of each later input may be fetched ahead.

    The four "when"s are those of `Source.concat`.
    """

    handling = EXACT

    def __init__(self, inputs: int = 2, detached: bool = True) -> None:
        self.shape = fan_in(positive("Concat", "inputs", inputs))
        self.traits = StageTraits(ends_with_inputs=True)
        self.detached = detached


@logic_of(Concat)
class _ConcatLogic(Logic):
    passes_marks = True

    stage: Concat
    _current = 0

    def on_start(self) -> None:
        if self.stage.detached:
            for inlet in self.inlets[1:]:
                inlet.want(1)
        for inlet in self.inlets[1:]:
            inlet.hold()  # its elements, marks and completion wait for their turn

    def on_pull(self, out: Connection) -> None:
        self._ask()

    def _ask(self) -> None:
        """State the current input's demand; a detached one is asked for one more, so that a feedback into it finds room."""
        out = self.outlets[0]
        inlet = self.inlets[self._current]
        inlet.want(max(out.asked, inlet.due) + self._ahead() if out.asked else self._ahead())

    def _ahead(self) -> int:
        return 1 if self.stage.detached and self._current and not self.inlets[self._current].ready else 0

    def on_push(self, in_: Connection) -> None:
        out = self.outlets[0]
        if in_.in_index != self._current or not out.asked:
            return
        chunk = in_.grab(out.asked)
        if chunk:
            out.push(chunk)
        self._ask()

    def on_complete(self, in_: Connection) -> None:
        if in_.in_index != self._current:
            return
        while self._current + 1 < len(self.inlets):
            self._current += 1
            following = self.inlets[self._current]
            following.release()
            if not following.in_closed:
                self._ask()
                return
        self.complete_stage()


class OrElse(Junction[Element, Element]):
    """Emit the first input; if it completes without an element, emit the second instead.

    The four "when"s are those of `Source.or_else`.
    """

    shape = fan_in(2)
    handling = BLURS


@logic_of(OrElse)
class _OrElseLogic(FanInLogic):
    _current = 0

    def on_pull(self, out: Connection) -> None:
        self.inlets[self._current].want(out.asked)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self.out.asked)
        if chunk:
            self.out.push(chunk)
            if in_.in_index == 0 and not self.inlets[1].in_closed:
                self.inlets[1].cancel()
                self._live -= 1
                for ripe in self._marks.on_inlet_closed(1):
                    self.out.mark(ripe)
        in_.want(max(self.out.asked, in_.due) if self.out.asked else 0)

    def after_complete(self, in_: Connection) -> None:
        if in_.in_index == 0:
            self._current = 1
            if self.out.asked:
                self.inlets[1].want(self.out.asked)


class Interleave(Junction[Element, Element]):
    """Take `segment` elements of each input in turn.

    The four "when"s are those of `Source.interleave`.
    """

    handling = BLURS

    def __init__(self, inputs: int, segment: int = 1, eager_close: bool = False) -> None:
        self.shape = fan_in(positive("Interleave", "inputs", inputs))
        self.segment = positive("Interleave", "segment", segment)
        self.eager_complete = eager_close
        self.traits = StageTraits(ends_with_inputs=not eager_close)


@logic_of(Interleave)
class _InterleaveLogic(FanInLogic):
    _current = 0

    def __init__(self, stage: Interleave) -> None:
        super().__init__(stage)
        self._left = stage.segment

    def on_pull(self, out: Connection) -> None:
        self._pump()

    def on_push(self, in_: Connection) -> None:
        self._pump()

    def after_complete(self, in_: Connection) -> None:
        if in_.in_index == self._current:
            self._next()
        self._pump()

    def _next(self) -> None:
        self._left = self.stage.segment
        for _ in self.inlets:
            self._current = (self._current + 1) % len(self.inlets)
            if not self.inlets[self._current].in_closed:
                return

    def _pump(self) -> None:
        out = self.out
        while out.asked:
            inlet = self.inlets[self._current]
            if not inlet.ready:
                break
            chunk = inlet.grab(min(out.asked, self._left))
            if not chunk:
                break  # a mark is first: after `on_mark` comes another `on_push`
            out.push(chunk)
            self._left -= len(chunk)
            if not self._left:
                if inlet.terminal is not None and not inlet.items:
                    break  # its completion comes first: it may end the stage
                self._next()
        if out.asked and self._live:
            inlet = self.inlets[self._current]
            share = -(-out.asked // self._live)
            for other in self.inlets:
                if other is not inlet and not other.in_closed and not other.ready:
                    other.want(min(self.stage.segment, max(1, share)))
            inlet.want(max(inlet.due, min(self._left, out.asked)))
