"""A stage between a source and a sink that the test moves by hand, in one island, under a virtual clock.

    with Bench(system, Take(2)) as bench:
        bench.request(5)
        bench.send(1, 2, 3)
        assert bench.received == [1, 2]

Every call returns when the island has come to rest. Port laws are checked by the connections themselves (a push without demand, an
empty chunk, … raises ProtocolError in the stage, which ends the stream with it: see `check_laws`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from streamactors.actors.system import ActorSystem
from streamactors.engine.attributes import NONE, Attributes
from streamactors.engine.blueprint.modules import Joined, Module, StageModule, keep_both, keep_left
from streamactors.engine.island.causes import NO_MORE_ELEMENTS
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT, Idle
from streamactors.engine.materializing.materializer import materialize
from streamactors.engine.stage import NOT_USED, SINK, SOURCE, GraphStage
from streamactors.errors import ProtocolError

KEY = ("source", 0)


class ProbeSource(GraphStage):
    """Materializes its own logic."""

    shape = SOURCE
    handling = EXACT

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = ProbeSourceLogic()
        return logic, logic


class ProbeSourceLogic(Logic):
    """Pushes what it was given, chunk by chunk, as far as there is demand."""

    def __init__(self) -> None:
        self.queue: deque[Any] = deque()  # lists, marks, and COMPLETE at the end
        self.cancelled: BaseException | None = None
        self.pushed = 0
        self.peak = 0  # the most that was asked for: pushed + outstanding

    def on_pull(self, out: Connection) -> None:
        self.pump()

    def put(self, item: Any) -> None:
        self.queue.append(item)
        self.pump()

    def pump(self) -> None:
        out, queue = self.outlets[0], self.queue
        self.peak = max(self.peak, self.pushed + out.asked)
        while queue and not out.out_closed:
            head = queue[0]
            if head is COMPLETE:
                queue.popleft()
                self.complete_stage()
            elif type(head) is not list:
                out.mark(queue.popleft())
            elif out.asked:
                chunk, rest = head[: out.asked], head[out.asked :]
                if rest:
                    queue[0] = rest
                else:
                    queue.popleft()
                self.pushed += len(chunk)
                out.push(chunk)
            else:
                return

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self.cancelled = cause
        super().on_cancel(out, cause)


COMPLETE: Any = object()


class ProbeSink(GraphStage):
    """Materializes its own logic."""

    shape = SINK
    handling = EXACT

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = ProbeSinkLogic()
        return logic, logic


class ProbeSinkLogic(Logic):
    """Takes as much as it was told to request; writes down elements, marks and the end."""

    def __init__(self) -> None:
        self.demand = 0
        self.seen: list[Any] = []  # ("element", x) and ("mark", m)
        self.ends: list[Any] = []
        self.chunks: list[int] = []

    def request(self, n: int) -> None:
        self.demand += n
        if self.demand:
            self.inlets[0].want(self.demand)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self.demand)
        assert not self.ends, "an element after the terminal"
        self.demand -= len(chunk)
        self.chunks.append(len(chunk))
        self.seen += [("element", x) for x in chunk]
        if self.demand:
            in_.want(self.demand)

    def on_mark(self, in_: Connection, mark: Any) -> None:
        assert not self.ends, "a mark after the terminal"
        self.seen.append(("mark", dict(mark) if isinstance(mark, dict) else mark))

    def on_complete(self, in_: Connection) -> None:
        self.ends.append("completed")
        self.complete_stage()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self.ends.append(error)
        self.complete_stage()


class Watched(GraphStage):
    """A stage whose starts and stops are counted."""

    def __init__(self, stage: GraphStage) -> None:
        self.stage = stage
        self.shape = stage.shape
        self.name = stage.label
        self.handling = stage.handling
        self.logic_made: Any = None
        self.calls: list[str] = []

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic, value = self.stage.create(attributes)
        self.logic_made = logic
        for name in ("on_start", "on_stop"):
            self._count(logic, name)
        return logic, value

    def _count(self, logic: Logic, name: str) -> None:
        original: Callable[[], None] = getattr(logic, name)

        def counted() -> None:
            self.calls.append(name)
            original()

        setattr(logic, name, counted)


class Bench:
    """See the module."""

    def __init__(self, system: ActorSystem, stage: GraphStage | Module, attributes: Attributes = NONE) -> None:
        self.system = system
        self.clock: Any = system.clock
        self.watched = Watched(stage) if isinstance(stage, GraphStage) else None
        middle = stage if isinstance(stage, Module) else StageModule(self.watched, attributes)  # type: ignore[arg-type]
        graph = Joined(
            Joined(StageModule(ProbeSource()), middle, keep_both if self.watched else keep_left),
            StageModule(ProbeSink()),
            keep_both,
        )
        left, self.sink = materialize(graph, system)
        self.source, self.value = left if self.watched else (left, NOT_USED)
        self.sent: list[Any] = []
        self.marked: list[int] = []
        self.signalled: list[tuple[Idle, int]] = []  # (signal, position)
        self.requested = 0
        self.ended_by: Any = None
        self.settle()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End what still runs."""
        if not self.source.stopped:
            self._on(self.source, lambda logic: logic.fail_stage(RuntimeError("the test is over")))
        if not self.sink.stopped:
            self._on(self.sink, lambda logic: logic.inlets[0].cancel())

    def settle(self) -> None:
        self.clock.settle()

    def advance(self, duration: Any) -> None:
        self.clock.advance(duration)

    def _on(self, logic: Logic, action: Callable[[Any], None]) -> None:
        if logic.stopped:
            return
        logic.async_callback(action).invoke(logic)  # type: ignore[arg-type]
        self.settle()

    # ── upstream ──────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, *elements: Any) -> None:
        """Send one chunk; what there is no demand for stays in the source."""
        self.sent += elements
        chunk = list(elements)
        self._on(self.source, lambda logic: logic.put(chunk))

    def mark(self, position: int | None = None) -> None:
        """Put a mark behind everything sent so far."""
        at = len(self.sent) if position is None else position
        self.marked.append(at)
        self._on(self.source, lambda logic: logic.put({KEY: (1, at)}))

    def put(self, item: Any) -> None:
        """Put any mark or signal behind everything sent so far."""
        self._on(self.source, lambda logic: logic.put(item))

    def signal(self) -> None:
        """Put a lifecycle signal behind everything sent so far."""
        signal = Idle(KEY, silent_ms=len(self.signalled))
        self.signalled.append((signal, len(self.sent)))
        self._on(self.source, lambda logic: logic.put(signal))

    def complete(self) -> None:
        """Complete behind everything sent."""
        self.ended_by = self.ended_by or "complete"
        self._on(self.source, lambda logic: logic.put(COMPLETE))

    def fail(self, error: BaseException) -> None:
        """Fail at once; what is still in the source is never sent."""
        self.ended_by = self.ended_by or "fail"
        self._on(self.source, lambda logic: logic.fail_stage(error))

    @property
    def asked(self) -> int:
        """Elements that the source may push now."""
        return self.source.outlets[0].asked

    @property
    def pushed(self) -> list[Any]:
        """What has left the source."""
        return self.sent[: self.source.pushed]

    @property
    def cancelled(self) -> BaseException | None:
        """Why the source was cancelled; None when it was not."""
        return self.source.cancelled

    # ── downstream ────────────────────────────────────────────────────────────────────────────────────────────────

    def request(self, n: int) -> None:
        self.requested += n
        self._on(self.sink, lambda logic: logic.request(n))

    def cancel(self, cause: BaseException = NO_MORE_ELEMENTS) -> None:
        self.ended_by = self.ended_by or "cancel"
        self._on(self.sink, lambda logic: logic.inlets[0].cancel(cause))

    @property
    def received(self) -> list[Any]:
        return [x for kind, x in self.sink.seen if kind == "element"]

    @property
    def seen(self) -> list[Any]:
        """Elements and marks in order; a mark shows as ("mark", position), a signal as ("signal", signal)."""
        return [
            (kind, x) if kind == "element" else ("mark", x[KEY][1]) if isinstance(x, dict) else ("signal", x)
            for kind, x in self.sink.seen
        ]

    @property
    def marks(self) -> list[int]:
        """The positions of the marks that arrived."""
        return [x for kind, x in self.seen if kind == "mark"]

    @property
    def end(self) -> Any:
        """None, "completed", or the error."""
        assert len(self.sink.ends) <= 1, f"more than one terminal: {self.sink.ends}"
        return self.sink.ends[0] if self.sink.ends else None

    @property
    def stopped(self) -> bool:
        return self.watched is not None and "on_stop" in self.watched.calls

    @property
    def logic(self) -> Any:
        """The running logic of the stage."""
        return self.watched.logic_made  # type: ignore[union-attr]

    # ── laws ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def drain(self, patience: int = 200, step_ms: float = 0) -> None:
        """Request more, and let `step_ms` pass, until the stream has ended."""
        for _ in range(patience):
            if self.end is not None or self.ended_by == "cancel":
                return
            self.request(1_000)
            if step_ms:
                self.advance(step_ms / 1_000)
        raise AssertionError(f"the stream hangs: {self.logic.snapshot_state()}; seen {self.seen}")

    def check_laws(self) -> None:
        """What holds for every stage once its stream has ended."""
        assert not isinstance(self.end, ProtocolError), self.end
        assert self.end is not None or self.ended_by == "cancel"
        assert len(self.received) <= self.requested, "more than was requested"
        assert self.watched is not None
        assert self.watched.calls == ["on_start", "on_stop"], "on_start and on_stop exactly once"
        assert self.source.stopped, "upstream has ended too"
