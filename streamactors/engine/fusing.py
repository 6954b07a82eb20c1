"""Fusing: adjacent map, filter and scan stages, and an iterable source before them, become one stage with one generated loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.fused_loop import NOTHING, FusedLoop, Op
from streamactors.engine.logic import FlowLogic, Logic, SourceLogic
from streamactors.engine.marks import Handling
from streamactors.engine.owned_feed import OwnedFeed
from streamactors.engine.ownership import owner_of
from streamactors.engine.pace import Pace
from streamactors.engine.replay import Replay
from streamactors.engine.stage import FLOW, NOT_USED, SOURCE, GraphStage
from streamactors.engine.user_code import blame

LONGEST_CHAIN = 24


class Feed(Protocol):
    """What a fusable source gives each run: slices of its elements as iterators with an exact length hint."""

    def take(self, n: int, stop: list[int]) -> Iterator[Any]:
        """Return an iterator over the next at most n elements; empty at the end."""

    def unread(self, n: int) -> None:
        """The last n elements of the slice were not consumed; give them again."""

    @property
    def exhausted(self) -> bool:
        """True when no element is left."""


class FusedFlow(GraphStage):
    """One or more maps, filters and scans as one stage."""

    shape = FLOW

    def __init__(self, ops: tuple[Op, ...], handling: Handling, attributes: Attributes) -> None:
        self.ops = ops
        self.handling = handling
        self.name = "+".join(op.attributes.name or op.label for op in ops)
        self.attributes = attributes
        self._loop = FusedLoop(ops)
        self._maps_only = all(op.kind in ("map", "scan") for op in ops)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _FusedFlowLogic(self._loop, self._maps_only, attributes.max_chunk), NOT_USED


class _FusedFlowLogic(FlowLogic):
    passes_marks = True

    def __init__(self, loop: FusedLoop, maps_only: bool, max_chunk: int | None) -> None:
        self._run = loop
        self._state = loop.fresh()
        self._maps_only = maps_only
        self._max_chunk = max_chunk
        self._zeros: list[Any] = []

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self._max_chunk)
        if self._run.scans:
            self._zeros, error = self._run.zeros(self._state)
            if error is not None:
                self.fail_stage(error)
            elif self._zeros:
                self.in_.hold()

    def on_pull(self, out: Connection) -> None:
        in_ = self.in_
        if self._zeros:
            self._zeros = push_first(self._zeros, out)
            if self._zeros:
                return
            in_.release()
        asked = out.asked
        if self._maps_only or in_.due * 2 <= asked:
            window = self._pace.window
            in_.want(asked if asked < window else window)

    def on_push(self, in_: Connection) -> None:
        out = self.out
        pace = self._pace
        asked = out.asked
        chunk = in_.grab(asked if asked < pace.limit else pace.limit)
        n = len(chunk)
        feed: Any = iter(chunk)
        results: list[Any] = []
        error = self._run(feed, results, pace.begin(), self._state)
        left = feed.__length_hint__()
        pace.end(n - left)
        if left and error is None:
            in_.unread(chunk[n - left :])
        if results:
            out.push(results)
        if error is not None:
            self.fail_stage(error)
            return
        asked = out.asked
        if asked:
            window = pace.window
            if window > asked:
                window = asked
            due = in_.due
            in_.want(window if self._maps_only or due * 2 <= asked else due)


def push_first(waiting: list[Any], out: Connection) -> list[Any]:
    """Push as much of a list as is asked for; return the rest."""
    n = out.asked
    if n:
        out.push(waiting[:n])
    return waiting[n:]


class FusedSource(GraphStage):
    """A source that gives feeds, and the maps, filters and scans behind it, as one stage. `steps` is how these handle marks."""

    shape = SOURCE

    def __init__(self, source: GraphStage, ops: tuple[Op, ...], steps: Handling, attributes: Attributes) -> None:
        self.source = source
        self.ops = ops
        self.name = "+".join([attributes.name or source.label, *(op.attributes.name or op.label for op in ops)])
        self.emits_marks = source.emits_marks
        self.reads_marks = source.reads_marks
        self.needs = source.needs
        self.attributes = attributes
        self.steps = steps
        self._loop = FusedLoop(ops) if ops else None

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        make_feed: Callable[[Attributes], Any] = self.source.feed  # type: ignore[attr-defined]
        return FeedLogic(make_feed, self._loop, self.source.label, attributes, self.attributes), NOT_USED


class FeedLogic(SourceLogic):
    """Runs a feed, with or without a generated loop behind it. Emits a position mark behind each chunk when marks are read.

    `make_feed(attributes of the source)` returns a feed that begins where their replay says, or whoever owns the run's positions."""

    def __init__(
        self,
        make_feed: Callable[[Attributes], Any],
        loop: FusedLoop | None,
        label: str,
        attributes: Attributes,
        of_source: Attributes | None = None,
    ) -> None:
        self._make_feed = make_feed
        self._of_source = attributes if of_source is None else of_source
        self._feed: Any = None
        self._run = loop
        self._state = loop.fresh() if loop is not None else NOTHING
        self._zeros: list[Any] = NOTHING  # what comes out before the first element
        self._label = label
        self._max_chunk = attributes.max_chunk
        self._marks: Any = None

    def on_start(self) -> None:
        run = self.interpreter.island.run
        source = run.source_id(self)
        owner = owner_of(run, source)
        if owner is None:
            self._begin(self._of_source, ())
        else:
            replay = self._of_source.replay
            first = replay.start if replay is not None else 0
            owner.claim(source, OwnedFeed(self._label, first, self.async_callback(self._begin_at)))

    def _begin_at(self, where: tuple[int, tuple[int, ...]]) -> None:
        self._begin(replace(self._of_source, replay=Replay(where[0])), where[1])

    def _begin(self, of_source: Attributes, marks_at: tuple[int, ...]) -> None:
        try:
            self._feed = self._make_feed(of_source)
        except BaseException as error:  # noqa: BLE001  # the user's __iter__
            self.fail_stage(blame(error, self._label))
            return
        self._position: int = self._feed.position
        self._pace = Pace(self.interpreter, self._max_chunk)
        self._marks = self.interpreter.island.run.source_marks(self, self._feed)
        if self._marks is not None and marks_at:
            self._marks.also_at(marks_at)
        if self._run is not None and self._run.scans:
            self._zeros, failure = self._run.zeros(self._state)
            if failure is not None:
                self.fail_stage(failure)
                return
        if self._feed.exhausted and not self._zeros:
            self._complete()  # an empty source needs no demand to end
        elif self.out.asked:
            self.out.again()  # begun later than asked

    def on_pull(self, out: Connection) -> None:
        if self._feed is None:
            return  # not told yet where to begin
        if self._zeros:
            self._zeros = push_first(self._zeros, out)
            if not self._zeros and self._feed.exhausted:
                self._complete()
            elif out.asked:
                out.again()
            return
        pace = self._pace
        n = out.asked
        if n > pace.limit:
            n = pace.limit
        marks = self._marks
        if marks is not None:
            n = marks.clip(self._position, n)
        results: list[Any] = []
        stop = pace.begin()
        error: BaseException | None = None
        consumed = 0
        try:
            elements = self._feed.take(n, stop)
        except BaseException as raised:  # noqa: BLE001  # the user's iterable
            error = blame(raised, self._label)
        else:
            size = elements.__length_hint__()
            if self._run is None:
                results = list(elements)
                consumed = size
            else:
                error = self._run(elements, results, stop, self._state)
                left = elements.__length_hint__()
                consumed = size - left
                if left:
                    self._feed.unread(left)
        pace.end(consumed)
        self._position += consumed
        if results:
            out.push(results)
        if error is not None:
            self.fail_stage(error)
            return
        if marks is not None and consumed:
            out.mark(marks.at(self._position))
        if self._feed.exhausted:
            self._complete()
        elif out.asked:
            out.again()

    def _complete(self) -> None:
        if self._marks is not None:
            for mark in self._marks.at_end(self._position):
                self.out.mark(mark)
        self.complete_stage()

    def on_stop(self) -> None:
        close = getattr(self._feed, "close", None)
        if close is not None:
            close()
