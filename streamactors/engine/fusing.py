"""Fusing: adjacent map and filter stages, and an iterable source before them, become one stage with one generated loop.

The loop for map, filter, map reads

    def loop(feed, out, stop, f0, f1, f2):
        for x in feed:
            x = f0(x)
            if f1(x):
                out.append(f2(x))
            if stop: break

Results made before an exception are in `out`; the line of the exception tells which function raised; `feed` is a list or range
iterator whose length hint tells how much was consumed. Loops are generated once per sequence of kinds and shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, Protocol

from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic, SourceLogic
from streamactors.engine.marks import Handling
from streamactors.engine.pace import Pace
from streamactors.engine.stage import FLOW, NOT_USED, SOURCE, GraphStage
from streamactors.engine.supervision import Directive
from streamactors.engine.user_code import blame, frame_of

LONGEST_CHAIN = 24

Loop = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Op:
    """One fusable step: kind is "map", "filter", "filter_not" or "collect" (a map whose None is left out).

    `fn` None in a filter tests the element itself."""

    kind: str
    fn: Callable[[Any], Any] | None
    label: str
    attributes: Attributes


class Feed(Protocol):
    """What a fusable source gives each run: slices of its elements as iterators with an exact length hint."""

    def take(self, n: int, stop: list[int]) -> Iterator[Any]:
        """Return an iterator over the next at most n elements; empty at the end."""

    def unread(self, n: int) -> None:
        """The last n elements of the slice were not consumed; give them again."""

    @property
    def exhausted(self) -> bool:
        """True when no element is left."""


@lru_cache(maxsize=1024)
def generate(kinds: tuple[str, ...]) -> tuple[Loop, CodeType, dict[int, int]]:
    """Return the loop for a sequence of kinds, its code object, and the index of the step on each of its lines."""
    names = [f"f{i}" for i in range(len(kinds))]
    lines = [f"def loop(feed, out, stop, {', '.join(names)}):", "    for x in feed:"]
    steps: dict[int, int] = {}
    indent = " " * 8
    last = len(kinds) - 1
    pushed = False
    for i, kind in enumerate(kinds):
        steps[len(lines) + 1] = i
        if kind == "map":
            if i == last:
                lines.append(f"{indent}out.append({names[i]}(x))")
                pushed = True
            else:
                lines.append(f"{indent}x = {names[i]}(x)")
        elif kind == "collect":
            lines.append(f"{indent}x = {names[i]}(x)")
            lines.append(f"{indent}if x is not None:")
            indent += "    "
        else:
            test = {
                "filter": "if {}(x):",
                "filter_not": "if not {}(x):",
                "filter_true": "if x:",
                "filter_false": "if not x:",
            }
            lines.append(indent + test[kind].format(names[i]))
            indent += "    "
    if not pushed:
        lines.append(f"{indent}out.append(x)")
    lines.append("        if stop: break")
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<streamactors loop {'+'.join(kinds)}>", "exec"), namespace)  # noqa: S102  # our own text
    loop = namespace["loop"]
    return loop, loop.__code__, steps


def _kind(op: Op) -> str:
    if op.fn is not None:
        return op.kind
    return "filter_true" if op.kind == "filter" else "filter_false"


class _Runner:
    """A loop bound to its functions, with the decider's rules around it."""

    __slots__ = ("_code", "_fns", "_loop", "_ops", "_steps")

    def __init__(self, ops: tuple[Op, ...]) -> None:
        self._loop, self._code, self._steps = generate(tuple(_kind(op) for op in ops))
        self._ops = ops
        self._fns = tuple(op.fn for op in ops)

    def __call__(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> BaseException | None:
        """Run the loop until the feed ends or `stop`; return the error that stops the stage, None when all is well."""
        while True:
            try:
                self._loop(feed, out, stop, *self._fns)
            except BaseException as error:  # noqa: BLE001  # whatever the user's function raised
                entry = frame_of(error, self._code)
                if entry is None:
                    return error  # not from a step: interrupted before the first line
                op = self._ops[self._steps.get(entry.tb_lineno, 0)]
                blame(error, op.attributes.name or op.label, entry.tb_frame.f_locals.get("x"), op.fn)
                decider = op.attributes.decider
                if decider is None or decider(error) is Directive.STOP:
                    return error
                if stop:
                    return None
            else:
                return None


class FusedFlow(GraphStage):
    """One or more maps and filters as one stage."""

    shape = FLOW

    def __init__(self, ops: tuple[Op, ...], handling: Handling, attributes: Attributes) -> None:
        self.ops = ops
        self.handling = handling
        self.name = "+".join(op.attributes.name or op.label for op in ops)
        self.attributes = attributes
        self._runner = _Runner(ops)
        self._maps_only = all(op.kind == "map" for op in ops)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _FusedFlowLogic(self._runner, self._maps_only, attributes.max_chunk), NOT_USED


class _FusedFlowLogic(FlowLogic):
    passes_marks = True

    def __init__(self, runner: _Runner, maps_only: bool, max_chunk: int | None) -> None:
        self._run = runner
        self._maps_only = maps_only
        self._max_chunk = max_chunk

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self._max_chunk)

    def on_pull(self, out: Connection) -> None:
        in_ = self.in_
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
        error = self._run(feed, results, pace.begin())
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


class FusedSource(GraphStage):
    """A source that gives feeds, and the maps and filters behind it, as one stage."""

    shape = SOURCE

    def __init__(self, source: GraphStage, ops: tuple[Op, ...], attributes: Attributes) -> None:
        self.source = source
        self.ops = ops
        self.name = "+".join([attributes.name or source.label, *(op.attributes.name or op.label for op in ops)])
        self.emits_marks = source.emits_marks
        self.reads_marks = source.reads_marks
        self.needs = source.needs
        self.attributes = attributes
        self._runner = _Runner(ops) if ops else None

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        make_feed: Callable[[Attributes], Any] = self.source.feed  # type: ignore[attr-defined]
        return FeedLogic(lambda: make_feed(self.attributes), self._runner, self.source.label, attributes), NOT_USED


class FeedLogic(SourceLogic):
    """Runs a feed, with or without a generated loop behind it. Emits a position mark behind each chunk when marks are read."""

    def __init__(
        self, make_feed: Callable[[], Any], runner: _Runner | None, label: str, attributes: Attributes
    ) -> None:
        self._make_feed = make_feed
        self._feed: Any = None
        self._run = runner
        self._label = label
        self._max_chunk = attributes.max_chunk
        self._marks: Any = None

    def on_start(self) -> None:
        try:
            self._feed = self._make_feed()
        except BaseException as error:  # noqa: BLE001  # the user's __iter__
            self.fail_stage(blame(error, self._label))
            return
        self._position: int = self._feed.position
        self._pace = Pace(self.interpreter, self._max_chunk)
        self._marks = self.interpreter.island.run.source_marks(self, self._feed)
        if self._feed.exhausted:
            self._complete()  # an empty source needs no demand to end

    def on_pull(self, out: Connection) -> None:
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
                error = self._run(elements, results, stop)
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
