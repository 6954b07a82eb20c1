"""Marble tests: streams over virtual time, written as strings.

    with Marbles() as marbles:
        marbles.expect(marbles.source("-a-b-c|").drop(1), "---b-c|")

A frame is 10 ms of a virtual clock, so a test with timers takes no time. `marble_text.py` has the language."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from streamactors.actors.system import ActorSystem
from streamactors.clock import VirtualClock
from streamactors.dsl.source import Source
from streamactors.durations import Duration, duration_ms
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.island.connection import MAX_ASKED, Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.stage import SINK, SOURCE, GraphStage, NotUsed
from streamactors.testing.marble_text import COMPLETED, FAILED, Marble, parse, render

FRAME = "10ms"
MOST_FRAMES = 1_000


class MarbleError(Exception):
    """The failure that `#` means, unless the test gives another."""


class Marbles:
    """A system under a virtual clock, sources written as marbles, and what comes out as marbles. `frame`: seconds, a timedelta or a string."""

    def __init__(self, frame: Duration = FRAME) -> None:
        self.frame_ms = duration_ms(frame, "Marbles: frame")
        self.error = MarbleError("#")
        self.clock = VirtualClock()
        self.system = ActorSystem("marbles", clock=self.clock)

    def __enter__(self) -> Marbles:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the system; streams that still run are aborted."""
        self.system.shutdown()

    def source(
        self, text: str, values: Mapping[str, Any] | None = None, error: BaseException | None = None
    ) -> Source[Any, NotUsed]:
        """Return a source that emits what the text says, frame by frame from the start of its run.

        Elements without demand wait; a failure does not wait for them."""
        events = parse(text, values, error or self.error)
        return Source(StageModule(MarbleSource(events, self.frame_ms)))

    def record(self, source: Source[Any, Any], frames: int = MOST_FRAMES, demand: str | None = None) -> list[Marble]:
        """Run a source until it ends or `frames` have passed, which cancels it; return what came out, by frame.

        `demand` limits the demand: a string in which a digit requests that many elements in its frame; whether an element of the same frame is
        ahead of the request is not fixed. None: no limit."""
        requests = None if demand is None else [(m.frame, int(m.value)) for m in parse(demand)]
        recorder = _Recorder(self.frame_ms, requests)
        source.to(_sink(recorder)).run(self.system)
        self.clock.settle()
        for _ in range(frames):
            if recorder.over:
                break
            self.clock.advance(self.frame_ms / 1_000)
        if not recorder.over:
            recorder.cancel()
            self.clock.settle()
        return recorder.events

    def run(
        self,
        source: Source[Any, Any],
        values: Mapping[str, Any] | None = None,
        frames: int = MOST_FRAMES,
        demand: str | None = None,
    ) -> str:
        """As `record`; return a string of marbles. `values` gives letters to elements; others show as themselves, or in <>."""
        return render(self.record(source, frames, demand), values)

    def expect(
        self,
        source: Source[Any, Any],
        text: str,
        values: Mapping[str, Any] | None = None,
        error: BaseException | None = None,
        *,
        frames: int = MOST_FRAMES,
        demand: str | None = None,
    ) -> None:
        """Run a source and compare what comes out with a string of marbles. Raises AssertionError that shows both.

        A text without an end is compared up to its last frame."""
        wanted = parse(text, values, error or self.error)
        if not wanted or wanted[-1].kind == "element":
            frames = min(frames, len(_frames(text)))
        found = self.record(source, frames, demand)
        if not _same(found, wanted):
            raise AssertionError(f"marbles differ\nexpected {render(wanted, values)}\n     got {render(found, values)}")


def _frames(text: str) -> str:
    """Return one sign a frame."""
    plain = text.replace(" ", "")
    while "(" in plain:
        begin, end = plain.index("("), plain.index(")")
        plain = f"{plain[:begin]}x{plain[end + 1 :]}"
    return plain


def _same(found: list[Marble], wanted: list[Marble]) -> bool:
    def key(marble: Marble) -> tuple[int, str, Any]:
        value = repr(marble.value) if marble.kind == FAILED else marble.value
        return marble.frame, marble.kind, value

    return list(map(key, found)) == list(map(key, wanted))


class MarbleSource(GraphStage):
    """Emit what marbles say."""

    shape = SOURCE
    name = "marbles"

    def __init__(self, events: list[Marble], frame_ms: float) -> None:
        self.events = events
        self.frame_ms = frame_ms

    def logic(self) -> Logic:
        return _MarbleLogic(self)


class _MarbleLogic(SourceLogic):
    def __init__(self, stage: MarbleSource) -> None:
        super().__init__(stage)
        self._left = deque(stage.events)
        self._waiting: deque[Any] = deque()
        self._completing = False

    def on_start(self) -> None:
        self._began_ms = self.interpreter.now_ms()
        self._next()

    def _next(self) -> None:
        """Play the events that are due, and wait for the next."""
        frame_ms = self.stage.frame_ms
        now_ms = self.interpreter.now_ms() - self._began_ms
        while self._left:
            event = self._left[0]
            wait_ms = event.frame * frame_ms - now_ms
            if wait_ms > 1e-6:
                self.schedule_once("next", wait_ms)
                break
            self._left.popleft()
            if event.kind == FAILED:
                self._hand_out()
                self.fail_stage(event.value)
                return
            if event.kind == COMPLETED:
                self._completing = True
            else:
                self._waiting.append(event.value)
        self._hand_out()

    def on_timer(self, key: object) -> None:
        self._next()

    def on_pull(self, out: Connection) -> None:
        self._hand_out()

    def _hand_out(self) -> None:
        out = self.out
        if self._waiting and out.can_push:
            out.push([self._waiting.popleft() for _ in range(min(len(self._waiting), out.asked))])
        if self._completing and not self._waiting:
            self.complete_stage()


def _sink(recorder: _Recorder) -> Any:
    from streamactors.dsl.sink import Sink

    return Sink(StageModule(_RecorderStage(recorder)))


class _Recorder:
    """What came out of a run, and how to stop it."""

    def __init__(self, frame_ms: float, requests: list[tuple[int, int]] | None) -> None:
        self.frame_ms = frame_ms
        self.requests = requests
        self.events: list[Marble] = []
        self.over = False
        self.cancel: Any = None


class _RecorderStage(GraphStage):
    shape = SINK
    name = "marbles"

    def __init__(self, recorder: _Recorder) -> None:
        self.recorder = recorder

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _RecorderLogic(self.recorder), None


class _RecorderLogic(Logic):
    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._asked = 0
        callback = self.async_callback(self._stop)
        recorder.cancel = lambda: callback.invoke(None)

    def on_start(self) -> None:
        self._began_ms = self.interpreter.now_ms()
        requests = self._recorder.requests
        if requests is None:
            self._asked = MAX_ASKED
            self.inlets[0].want(MAX_ASKED)
        for number, (frame, n) in enumerate(requests or ()):
            self.schedule_once((number, n), frame * self._recorder.frame_ms)

    def _stop(self, _: None) -> None:
        self.complete_stage()

    def on_timer(self, key: Any) -> None:
        self._asked += key[1]
        self.inlets[0].want(self._asked)

    def _write(self, kind: str, value: Any = None) -> None:
        frame = round((self.interpreter.now_ms() - self._began_ms) / self._recorder.frame_ms)
        self._recorder.events.append(Marble(frame, kind, value))

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self._asked)
        for element in chunk:
            self._write("element", element)
        if self._recorder.requests is not None:
            self._asked -= len(chunk)
        in_.want(self._asked)

    def on_complete(self, in_: Connection) -> None:
        self._write(COMPLETED)
        self._recorder.over = True
        self.complete_stage()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._write(FAILED, error)
        self._recorder.over = True
        self.complete_stage()
