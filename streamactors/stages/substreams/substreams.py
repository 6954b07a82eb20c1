"""The base of group_by (group_by.py), split_when and split_after (split.py). Each substream runs an inner flow in the stage's own island; the
results are merged.

    elements ──► key or cut ──► fresh, per substream ──► pending, per substream ──► inner flow of the substream ──► merged results

Elements that came together are handed over together: while more elements lie ready they are sorted into the fresh lists, and these are
handed over when enough have gathered or the island has nothing else to do. What a flow has no demand for is pending. A substream that is read
and has pending elements stops the intake; so do `most()` elements in all lists together. With a `breadth` the flow of a substream starts
when the substream is read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from streamactors.engine.blueprint.modules import Module
from streamactors.engine.island.connection import Connection
from streamactors.engine.marks.marks import BLURS_MEMORY, OPAQUE, Handling, Mark
from streamactors.engine.materializing.materializer import attach
from streamactors.engine.stage import FLOW, GraphStage
from streamactors.engine.supervision import failure_of
from streamactors.gauges import Gauge
from streamactors.stages.bases.failing_later import FailsLater
from streamactors.stages.checks import plain_function, positive
from streamactors.stages.substreams.reading import Reading
from streamactors.stages.substreams.substream import Full, Substream
from streamactors.stages.substreams.substream_marks import SubstreamMarks, passes_marks

PER_SUBSTREAM: Final = 32
"""Elements per substream that are gathered before they are handed over, as long as more lie ready."""
MOST_ELEMENTS: Final = 32_768
"""The most elements that wait for the substreams of a stage, in all substreams together."""


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


class SubstreamsLogic(FailsLater):
    """Runs an inner flow for each substream and merges the results. Subclasses say where an element goes."""

    stage: Any

    def __init__(self, stage: Substreams) -> None:
        super().__init__(stage)
        self._of: dict[Connection, Substream] = {}  # both connections of each substream whose flow runs
        self._running: dict[Substream, None] = {}  # by age, until its results have ended
        self._unread: OrderedDict[Substream, None] = OrderedDict()  # by age; their flows have not started
        self._dirty: dict[Substream, None] = {}  # those with fresh elements
        self._stuck: set[Substream] = set()  # read, pending, and without demand
        self._held = 0  # elements in the pending lists
        self._gathered = 0  # elements taken since the fresh lists were last handed over
        self._full = False  # the next element needs a substream, and waits until one has ended
        self._flush_due = False
        self._upstream_done = False
        self._marks: SubstreamMarks | None = None  # from the first mark on
        self._passes = stage.handling.passes
        self._reading = self.reading()

    def on_start(self) -> None:
        most = max(MOST_ELEMENTS, self._slice())
        self._gauge = Gauge(f"{self.name}: elements that wait for substreams", most)

    # ── for subclasses ────────────────────────────────────────────────────────────────────────────────────────────

    def reading(self) -> Reading:
        """Return how the results are read."""
        return Reading(self)

    def sort(self, feed: Iterator[Any]) -> None:
        """Put the elements of `feed` into the fresh lists of their substreams. Raises Full when an element has to wait: `sort` gets it
        again."""
        raise NotImplementedError  # pragma: no cover

    def most(self) -> int:
        """Return the most elements that may wait in all lists together."""
        return MOST_ELEMENTS if self.stage.breadth is not None else self._batch()

    def open(self, key: Any) -> Substream:
        """Begin a substream."""
        sub = Substream(key)
        self._running[sub] = None
        breadth = self.stage.breadth
        if breadth is None or len(self._reading) < breadth:
            self._start(sub)
        else:
            self._unread[sub] = None
        return sub

    def end(self, sub: Substream) -> None:
        """Complete a substream after its elements."""
        sub.ending = True
        if sub.into is not None and not sub.waiting and not sub.fresh:
            sub.into.complete()

    def started(self, into: Connection) -> None:
        """The flow of a substream has started; its elements go into `into`."""

    def closed(self, sub: Substream) -> None:
        """A substream takes no further elements; what is still pending for it is dropped after this call."""

    def over(self, sub: Substream) -> None:
        """The results of a substream have ended."""

    # ── elements ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        if out is self.outlets[0]:
            self._reading.downstream_asks()
        else:
            asking = self._of.get(out)
            if asking is None:
                return  # it has ended meanwhile
            asking.pulled = True
            if asking.waiting:
                self._hand_over(asking)
        self._take_in()

    def _start(self, sub: Substream) -> None:
        """Run the flow of a substream."""
        (into,), (out,), _ = attach(self, self.stage.inner)
        sub.into, sub.out = into, out
        self.started(into)
        self._of[into] = self._of[out] = sub
        self._reading.add(out)
        self._hand_over(sub)

    def _slice(self) -> int:
        return self.attributes.max_chunk or 1_024

    def _batch(self) -> int:
        """Return the number of elements that are gathered before they are handed over."""
        if self.attributes.max_chunk is not None:
            return self.attributes.max_chunk
        return min(MOST_ELEMENTS, max(1_024, PER_SUBSTREAM * len(self._running)))

    def _room(self) -> int:
        return self.most() - self._held - self._gathered

    def _may_take_in(self) -> bool:
        return not (self._upstream_done or self._stuck or self._full) and self._room() > 0

    def may_fail(self) -> bool:
        return not (self._stuck or self._full or self._held)

    def _take_in(self) -> None:
        if self.fails_later is not None:
            self.look_at_failure()
        elif self._may_take_in():
            self.inlets[0].want(min(self._slice(), self._room()))

    def on_push(self, in_: Connection) -> None:
        if in_ is self.inlets[0]:
            self._sort(in_)
        else:
            self._reading.came(in_)

    def _sort(self, in_: Connection) -> None:
        """Put a slice of the elements into the fresh lists of their substreams."""
        if not self._may_take_in():
            return  # shown again when there is room
        chunk = in_.grab(min(self._slice(), self._room()))
        feed: Any = iter(chunk)
        while True:
            try:
                self.sort(feed)
                break
            except Full:
                in_.unread(chunk[len(chunk) - feed.__length_hint__() - 1 :])
                self._full = True
                self._flush()
                return
            except BaseException as error:  # noqa: BLE001  # the user's function, or a substream too many
                at = len(chunk) - feed.__length_hint__() - 1
                failure = failure_of(self, error, chunk[at], self.stage.fn)
                if failure is not None:
                    self._flush()
                    self.fail_later(failure, in_)
                    return
        self._gathered = self._gathered + len(chunk) if self._dirty else 0  # all may have been for closed substreams
        self._gauge.reached(self._held + self._gathered)
        if self._gathered >= self._batch():
            self._flush()
        elif self._dirty:
            self._flush_when_idle()
        self._take_in()

    def _flush_when_idle(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self.call_when_idle(self._island_is_idle)

    def _island_is_idle(self) -> None:
        self._flush_due = False
        self._flush()
        self._take_in()

    def _flush(self) -> None:
        """Hand the fresh elements over."""
        self._gathered = 0
        dirty, self._dirty = self._dirty, {}
        if self._marks is not None:
            self._marks.touch(dirty)
        for sub in dirty:
            self._held += sub.freshen()
            self._hand_over(sub)

    def _hand_over(self, sub: Substream) -> None:
        """Push what is pending for a substream as far as its flow has demand. Nothing when the flow has cancelled: `on_cancel` follows."""
        into = sub.into
        if into is None or into.out_closed:
            return
        while sub.cuts:
            n = sub.cuts[0][0]
            taken = self._push(sub, into, n)
            self._marks.handed_over(sub, taken)  # type: ignore[union-attr]  # only marks make cuts
            if taken < n:
                return
        self._push(sub, into, sub.waiting)
        if not sub.waiting:
            self._stuck.discard(sub)
            if sub.ending and not sub.fresh:
                into.complete()

    def _push(self, sub: Substream, into: Connection, n: int) -> int:
        """Push the first `n` pending elements as far as there is demand; return the number pushed."""
        taken = into.asked if into.asked < n else n
        if taken:
            into.push(sub.take(taken))
            self._held -= taken
        if taken < n and sub.pulled:
            self._stuck.add(sub)
        return taken

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

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_complete(self, in_: Connection) -> None:
        if in_ is self.inlets[0]:
            self._upstream_done = True
            self._flush()
            for sub in list(self._running):
                self.end(sub)
        else:
            sub = self._of.pop(in_)
            del self._running[sub]
            sub.closed = True
            self._full = False
            self._reading.remove(in_)
            self._keep_fresh(sub)
            self.over(sub)
            self._forget_input(sub)
            if self._marks is not None:
                self._pass(self._marks.ended(sub))
            if sub.into is not None:
                sub.into.complete()
            if self._unread and not self.stopped:
                self._start(self._unread.popitem(last=False)[0])
        if not self._upstream_done or self._running:
            self._take_in()
        elif self.fails_later is not None:
            self.fail_stage(self.fails_later)
        else:
            self.complete_stage()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        if in_ is self.inlets[0]:
            self._upstream_done = True
            self._flush()
            self.fail_later(error)
        else:
            self._reading.failed(in_, error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if out is self.outlets[0]:
            self.cancel_stage(cause)
            return
        sub = self._of.get(out)
        if sub is not None:
            sub.ending = sub.closed = True
            self._full = False
            self._keep_fresh(sub)
            self.closed(sub)
            self._forget_input(sub)
            self._take_in()

    def _keep_fresh(self, sub: Substream) -> None:
        """Make the fresh elements of a substream that takes none pending."""
        if sub in self._dirty:
            del self._dirty[sub]
            if self._marks is not None:
                self._marks.touch({sub: None})
            self._held += sub.freshen()

    def hand_down(self, old: Substream, new: Substream) -> None:
        """Make what is pending for a substream, and the marks after it, pending for another."""
        new.inherit(old)
        if self._marks is not None:
            self._marks.handed_down(old, new)

    def take_back(self, sub: Substream) -> None:
        """Make what the flow of a closed substream has not taken pending again, with the marks after it."""
        if sub.into is None:
            return
        elements: list[Any] = []
        cuts: list[list[int]] = []
        for item in sub.into.take_back():
            if type(item) is list:
                elements += item
            elif self._marks is not None:
                cuts.append([len(elements), self._marks.token(item)])
        sub.put_back(elements, cuts)
        self._held += len(elements)

    def _forget_input(self, sub: Substream) -> None:
        if sub.into is not None:
            self._of.pop(sub.into, None)
        self._held -= sub.drop()
        self._stuck.discard(sub)

    def fail_stage(self, error: BaseException) -> None:
        for sub in self._running:
            if sub.into is not None and sub.out is not None:
                sub.out.cancel(error)
                sub.into.fail(error)
        super().fail_stage(error)

    def cancel_stage(self, cause: BaseException) -> None:
        for sub in self._running:
            if sub.into is not None and sub.out is not None:
                sub.out.cancel(cause)
                sub.into.complete()
        super().cancel_stage(cause)

    def snapshot_state(self) -> str:
        unread = f" ({len(self._unread)} not read yet)" if self._unread else ""
        return (
            f"{len(self._running)} substreams{unread}, {self._held + self._gathered} elements pending, "
            f"{len(self._stuck)} without demand"
        )
