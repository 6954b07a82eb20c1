"""FusedSource: a source that has feeds, with the maps, filters and scans downstream of it, as one stage with one generated loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import CoroutineType
from typing import Any, Protocol

from streamactors.engine.attributes import Attributes
from streamactors.engine.fusing.flow import push_first, warn_of_coroutine
from streamactors.engine.fusing.loop import NOTHING, FusedLoop, Op
from streamactors.engine.hops.ledger import Sampler
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.marks.marks import Handling
from streamactors.engine.marks.ownership import IterableHandle, owner_of
from streamactors.engine.marks.replay import Replay
from streamactors.engine.stage import NOT_USED, SOURCE, GraphStage
from streamactors.engine.user_code import blame


class SourceFeed(Protocol):
    """The elements of a fusable source in one run, in slices: iterators with an exact length hint."""

    position: int
    """The number of elements taken so far, from the start of the replay."""

    def take(self, n: int, stop: list[int]) -> Iterator[Any]:
        """Return an iterator over the next at most n elements; empty at the end."""

    def unread(self, n: int) -> None:
        """Take back the last n elements of the slice, which were not consumed."""

    @property
    def exhausted(self) -> bool:
        """True when no element is left."""


class FusedSource(GraphStage):
    """A source that has feeds, and the maps, filters and scans downstream of it, as one stage. `steps`: how these handle marks."""

    shape = SOURCE

    def __init__(self, source: GraphStage, ops: tuple[Op, ...], steps: Handling, attributes: Attributes) -> None:
        self.source = source
        self.ops = ops
        self.name = "+".join([attributes.name or source.label, *(op.attributes.name or op.label for op in ops)])
        self.traits = replace(source.traits, steps=steps)
        self.attributes = attributes
        self._loop = FusedLoop(ops) if ops else None

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        make_feed: Callable[[Attributes], SourceFeed] = self.source.feed  # type: ignore[attr-defined]
        identity = getattr(self.source, "identity", None)
        return FeedLogic(make_feed, self._loop, self.source.label, attributes, self.attributes, identity), NOT_USED


class FeedLogic(SourceLogic):
    """Runs a feed, with or without a generated loop after it. Emits a position mark after each chunk when marks are read.

    `make_feed(attributes of the source)` returns a feed. The feed begins at the start of the replay, or where the owner of the positions
    says. `identity` is what an owner of positions compares from run to run (IterableHandle.identity)."""

    _warned = False

    def __init__(
        self,
        make_feed: Callable[[Attributes], SourceFeed],
        loop: FusedLoop | None,
        label: str,
        attributes: Attributes,
        of_source: Attributes | None = None,
        identity: Mapping[str, str] | None = None,
    ) -> None:
        self._make_feed = make_feed
        self._of_source = attributes if of_source is None else of_source
        self._feed: Any = None
        self._run = loop
        self._state = loop.fresh() if loop is not None else NOTHING
        self._zeros: list[Any] = NOTHING  # results of the scans before the first element
        self._label = label
        self._identity = identity
        self._max_chunk = attributes.max_chunk
        self._marks: Any = None
        self._sampler: Sampler | None = None

    def on_start(self) -> None:
        self._run_of_stages = run = self.interpreter.island.run
        source = run.source_id(self)
        owner = owner_of(run, source)
        if owner is None:
            self._begin(self._of_source, ())
        else:
            replay = self._of_source.replay
            first = replay.start if replay is not None else 0
            begin_at = self.async_callback(self._begin_at)
            owner.claim(source, IterableHandle(self._label, first, begin_at, self._identity))

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
        run = self._run_of_stages
        self._marks = run.source_marks(self)
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
            self.out.again()  # demand came before the feed

    def on_pull(self, out: Connection) -> None:
        if self._feed is None:
            return  # the owner of the positions has not named the start yet
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
        began_ms: float | None = None  # of a chunk that gets a stamp
        if marks is not None:
            n = marks.clip(self._position, n)
            if self._run_of_stages.sampled:
                began_ms = self._stamped()
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
                error = self._run(elements, results, stop, self._state, self)
                left = elements.__length_hint__()
                consumed = size - left
                if left:
                    self._feed.unread(left)
        pace.end(consumed)
        self._position += consumed
        if results:
            if type(results[0]) is CoroutineType and not self._warned and self._run is not None:
                self._warned = True
                warn_of_coroutine(results[0], self.name)
            out.push(results)
        if error is not None:
            self.fail_stage(error)
            return
        if marks is not None and consumed:
            if began_ms is not None:
                self._stamp(began_ms)
            out.mark(marks.at(self._position))
        if self._feed.exhausted:
            self._complete()
        elif out.asked:
            out.again()

    def _stamped(self) -> float | None:
        """Return the time if the next chunk gets a stamp, else None."""
        hops = self._run_of_stages.hops
        assert hops is not None
        now_ms = hops.now_ms()
        if self._sampler is None:
            self._sampler = hops.sampler(self._marks.key[0], self)
        return now_ms if self._sampler.due(now_ms) else None

    def _stamp(self, began_ms: float) -> None:
        """Put a stamp after the chunk that was pushed, which this stage has begun to make at `began_ms`."""
        hops, key = self._run_of_stages.hops, self._marks.key
        assert hops is not None
        stamp = hops.begin(key, self._marks.at(self._position)[key], began_ms)
        stamp.begin_at(began_ms)
        self.out.mark(stamp)

    def _complete(self) -> None:
        if self._marks is not None:
            for mark in self._marks.at_end(self._position):
                self.out.mark(mark)
        self.complete_stage()

    def on_stop(self) -> None:
        close = getattr(self._feed, "close", None)
        if close is not None:
            close()
