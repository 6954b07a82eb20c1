"""The base of group_by (group_by.py), split_when and split_after (split.py). Each substream runs an inner flow in the stage's own island; the
results are merged.

    elements ──► key or cut ──► pending, per substream ──► inner flow of the substream ──► merged results

Elements that came together are handed over together: while more elements lie ready they are sorted into the pending lists, and the lists
are handed over when enough have gathered or the island has nothing else to do. One substream without demand stops the intake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from streamactors.engine.blueprint.modules import Module
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.materializer import attach
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import BLURS_MEMORY, OPAQUE, Handling, Mark
from streamactors.engine.stage import FLOW, GraphStage
from streamactors.engine.supervision import failure_of
from streamactors.stages.checks import plain_function, positive
from streamactors.stages.substreams.substream_marks import SubstreamMarks, passes_marks

PER_SUBSTREAM: Final = 32
"""Elements per substream that are gathered before they are handed over, as long as more lie ready."""
MOST_PENDING: Final = 32_768


class Substreams(GraphStage):
    """Base of the stages that cut a stream into substreams. `inner` is the flow of one substream, `breadth` how many are read at a time."""

    shape = FLOW
    inner: Module | None = None
    breadth: int | None = None

    @property
    def handling(self) -> Handling:  # type: ignore[override]
        """Marks pass if they pass the flow of the substreams."""
        return BLURS_MEMORY if self.inner is not None and passes_marks(self.inner) else OPAQUE

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn = plain_function(self.label, fn)

    def around(self, inner: Module, breadth: int | None) -> Substreams:
        """Return this stage with the flow of its substreams."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.inner = inner
        made.breadth = None if breadth is None else positive(self.label, "parallelism", breadth)
        return made


class Substream:
    """One substream: the connection into its flow, the one out of it, and the elements that wait for its demand."""

    __slots__ = ("cuts", "ending", "into", "key", "out", "pending", "pulled", "tokens", "used")

    def __init__(self, key: Any, into: Connection, out: Connection) -> None:
        self.key = key
        self.into = into
        self.out = out
        self.pending: list[Any] = []
        self.pulled = False  # its flow has asked once, so that no demand means back-pressure
        self.ending = False  # no further element comes: completed behind what is pending
        self.used = 0  # the intake that last had an element for it
        self.cuts: list[list[int]] = []  # see SubstreamMarks: [pending elements before it, token]
        self.tokens: list[int] = []  # see SubstreamMarks: of the marks that have not come out of its flow


class Full(Exception):
    """No substream may be opened now: the element waits."""


class SubstreamsLogic(Logic):
    """See the module. Subclasses say where an element goes."""

    stage: Any

    def __init__(self, stage: Substreams) -> None:
        super().__init__(stage)
        self._of: dict[Connection, Substream] = {}  # both connections of each substream that still runs
        self._running: dict[Substream, None] = {}  # by age, until its results have ended
        self._dirty: dict[Substream, None] = {}  # those with elements pending
        self._stuck: set[Substream] = set()  # pending, and without demand
        self._gathered = 0  # elements taken since the pending lists were last handed over
        self._intake = 0
        self._flush_due = False
        self._upstream_done = False
        self._turn = 0
        self._marks: SubstreamMarks | None = None  # from the first mark on
        self._passes = stage.handling.passes

    # ── where an element goes ─────────────────────────────────────────────────────────────────────────────────────

    def route(self, element: Any) -> Substream | None:
        """Return the substream of an element, None to drop the element. Raises Full when the element has to wait."""
        raise NotImplementedError  # pragma: no cover

    def sort(self, feed: Iterator[Any]) -> None:
        """Put the elements of `feed` into the pending lists of their substreams."""
        dirty = self._dirty
        for element in feed:
            sub = self.route(element)
            if sub is not None:
                if not sub.pending:
                    dirty[sub] = None
                sub.pending.append(element)

    def open(self, key: Any) -> Substream:
        """Start a substream."""
        (into,), (out,), _ = attach(self, self.stage.inner)
        sub = Substream(key, into, out)
        self._of[into] = self._of[out] = sub
        self._running[sub] = None
        self._want_of(sub)
        return sub

    def end(self, sub: Substream) -> None:
        """Complete a substream after its pending elements."""
        sub.ending = True
        if not sub.pending:
            sub.into.complete()

    def closed(self, sub: Substream) -> None:
        """A substream takes no further elements; what is still pending for it is dropped after this call."""

    def over(self, sub: Substream) -> None:
        """The results of a substream have ended."""

    # ── elements ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        if out is self.outlets[0]:
            for sub in self._readable():
                self._want_of(sub)
        else:
            asking = self._of.get(out)
            if asking is None:
                return  # it has ended meanwhile
            asking.pulled = True
            if asking.pending and (asking in self._stuck or not self._flush_due):
                self._stuck.discard(asking)
                self._hand_over(asking)
        self._take_in()

    def _take_in(self) -> None:
        if not self._upstream_done and not self._stuck and self._gathered < self._limit():
            self.inlets[0].want(self._slice())

    def _slice(self) -> int:
        return self.attributes.max_chunk or 1_024

    def _limit(self) -> int:
        if self.attributes.max_chunk is not None:
            return self.attributes.max_chunk
        return min(MOST_PENDING, max(1_024, PER_SUBSTREAM * len(self._running)))

    def on_push(self, in_: Connection) -> None:
        if in_ is self.inlets[0]:
            self._sort(in_)
        else:
            self._move(in_)

    def _sort(self, in_: Connection) -> None:
        """Put a slice of the elements into the pending lists of their substreams."""
        if self._stuck:
            return  # shown again when the substream has asked
        chunk = in_.grab(self._slice())
        feed: Any = iter(chunk)
        while True:
            try:
                self.sort(feed)
                break
            except Full:
                in_.unread(chunk[len(chunk) - feed.__length_hint__() - 1 :])
                self._flush()
                return
            except BaseException as error:  # noqa: BLE001  # the user's function, or a substream too many
                at = len(chunk) - feed.__length_hint__() - 1
                failure = failure_of(self, error, chunk[at], self.stage.fn)
                if failure is not None:
                    self._flush()
                    self.fail_stage(failure)
                    return
        if self._marks is not None:
            self._marks.touch(self._dirty)
        self._gathered += len(chunk)
        if self._gathered >= self._limit():
            self._flush()
        elif self._dirty and not self._flush_due:
            self._flush_due = True
            self.call_when_idle(self._flush_when_idle)
        self._take_in()

    def _flush_when_idle(self) -> None:
        self._flush_due = False
        self._flush()
        self._take_in()

    def _flush(self) -> None:
        self._gathered = 0
        if self._marks is not None:
            self._marks.touch(self._dirty)
        self._intake = intake = self._intake + 1
        for sub in list(self._dirty):
            sub.used = intake
            self._hand_over(sub)

    def _hand_over(self, sub: Substream) -> None:
        """Push what is pending for a substream as far as it has demand. Nothing when its flow has cancelled: `on_cancel` follows."""
        if sub.into.out_closed:
            return
        while sub.cuts:
            if not self._hand_over_to_cut(sub):
                return
        pending, into = sub.pending, sub.into
        n = len(pending)
        taken = into.asked if into.asked < n else n
        if taken:
            into.push(pending[:taken] if taken < n else pending)
        if taken == n:
            sub.pending = []
            self._dirty.pop(sub, None)
            self._stuck.discard(sub)
            if sub.ending:
                into.complete()
        else:
            if taken:
                sub.pending = pending[taken:]
            if sub.pulled:
                self._stuck.add(sub)

    def _hand_over_to_cut(self, sub: Substream) -> bool:
        """Push the elements before the first cut; False when there is no demand for all of them."""
        into, n = sub.into, sub.cuts[0][0]
        taken = min(into.asked, n)
        if taken:
            into.push(sub.pending[:taken])
        sub.pending = sub.pending[taken:]
        self._marks.handed_over(sub, taken)  # type: ignore[union-attr]  # only marks make cuts
        if taken < n and sub.pulled:
            self._stuck.add(sub)
        return taken == n

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if not self._passes:
            return
        marks = self._marks
        if marks is None:
            self._marks = marks = SubstreamMarks()
            marks.touch(self._running)
        if in_ is self.inlets[0]:
            self._flush()
            self._pass(marks.mark(mark))
        else:
            sub = self._of.get(in_)
            if sub is not None:
                self._pass(marks.came_out(sub, mark))

    def _pass(self, marks: list[Mark]) -> None:
        for mark in marks:
            self.outlets[0].mark(mark)

    # ── results ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _readable(self) -> list[Substream]:
        running = list(self._running)
        if self.stage.breadth is not None:
            return running[: self.stage.breadth]
        self._turn = first = (self._turn + 1) % max(1, len(running))
        return running[first:] + running[:first]

    def _share(self) -> int:
        breadth = self.stage.breadth
        n = len(self._running) if breadth is None else min(breadth, len(self._running))
        return max(1, -(-self.outlets[0].asked // max(1, n)))

    def _want_of(self, sub: Substream) -> None:
        breadth = self.stage.breadth
        if not self.outlets[0].asked or (breadth is not None and sub not in list(self._running)[:breadth]):
            return
        sub.out.want(max(self._share(), sub.out.due))

    def _move(self, inner: Connection) -> None:
        out = self.outlets[0]
        if out.asked:
            chunk = inner.grab(min(out.asked, self._share()))
            if chunk:
                out.push(chunk)
            if out.asked:
                inner.want(max(self._share(), inner.due))

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_complete(self, in_: Connection) -> None:
        if in_ is self.inlets[0]:
            self._upstream_done = True
            self._flush()
            for sub in self._running:
                self.end(sub)
        else:
            sub = self._of.pop(in_)
            del self._running[sub]
            self.over(sub)
            self._forget_input(sub)
            if self._marks is not None:
                self._pass(self._marks.ended(sub))
            sub.into.complete()
            for each in self._readable() if self.stage.breadth is not None else ():
                self._want_of(each)
        if self._upstream_done and not self._running:
            self.complete_stage()
        else:
            self._take_in()

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if out is self.outlets[0]:
            self.cancel_stage(cause)
            return
        sub = self._of.get(out)
        if sub is not None:
            sub.ending = True
            self.closed(sub)
            self._forget_input(sub)
            self._take_in()

    def hand_down(self, old: Substream, new: Substream) -> None:
        """Make what is pending for a substream, and the marks behind it, pending for another."""
        new.pending, old.pending = old.pending, []
        if self._marks is not None:
            self._marks.handed_down(old, new)

    def _forget_input(self, sub: Substream) -> None:
        self._of.pop(sub.into, None)
        sub.pending = []
        sub.cuts = []
        self._dirty.pop(sub, None)
        self._stuck.discard(sub)

    def fail_stage(self, error: BaseException) -> None:
        for sub in self._running:
            sub.out.cancel(error)
            sub.into.fail(error)
        super().fail_stage(error)

    def cancel_stage(self, cause: BaseException) -> None:
        for sub in self._running:
            sub.out.cancel(cause)
            sub.into.complete()
        super().cancel_stage(cause)

    def snapshot_state(self) -> str:
        pending = sum(len(sub.pending) for sub in self._dirty)
        return f"{len(self._running)} substreams, {pending} elements pending, {len(self._stuck)} without demand"
