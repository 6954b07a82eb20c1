"""The stage that runs windows in a graph: Records in, results out, one task per partition inside.

Owner: the island. The rules are the tasks'; here are demand, marks and silence. Results that downstream has not asked
for wait in a queue, and the inlet is held meanwhile, so elements, marks and completion keep their order. A position
mark passes at once (a restart then loses open windows; whoever keeps a changelog holds it back, see `position`).
What closes by silence or by the end of an input comes out before the signal that says so.

The end of an input is told by EndOfInput, which comes only from a source that ends by itself. Where no such source can
be heard (a queue, a generator, a stage in between that lets no marks pass) completion itself is taken for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import EXACT_MEMORY, Assigned, EndOfInput, Idle, Mark, PositionMark, Revoked
from streamactors.engine.pace import Pace
from streamactors.engine.stage import FLOW, Shape, Stage
from streamactors.engine.supervision import Directive, directive_for
from streamactors.stages.marked_queue import MarkedQueue
from streamactors.windows.compiler import TaskFactory
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.metrics import LIVE_TASKS
from streamactors.windows.tasks import WindowTasks

WITH_LATE = Shape(("in",), ("out", "late"))


class WindowStage(Stage[Any, Any]):
    """Group, window, aggregate and suppress Records as a blueprint says. With `keep_late` the second outlet gives the
    rows that closed windows refused (LateRecord).

    Emits when: an update or a window's result is due and downstream asks.   Backpressures when: an outlet does.
    Completes when: upstream completes and all results are out.              Cancels when: an outlet cancels.
    Supervision: resume and restart drop the row whose function raised; the windows keep their state.
    Marks: pass at once, behind what was given out before; exact.
    """

    name = "windows"
    handling = EXACT_MEMORY
    reads_marks = True  # the end of an input, silence and assignment of partitions are marks

    def __init__(self, factory: TaskFactory) -> None:
        self.factory = factory
        self.shape = WITH_LATE if factory.keep_late else FLOW

    def logic(self) -> Logic:
        return WindowLogic(self.factory)


class WindowLogic(Logic):
    """Runs the tasks; `position`, `assigned` and `ended` are what a changelog overrides."""

    def __init__(self, factory: TaskFactory) -> None:
        self._factory = factory
        self._idle_after_ms = factory.blueprint.idle_after_ms
        self._results = MarkedQueue()
        self._late = MarkedQueue()
        self._completing = False
        self._failure: BaseException | None = None
        self._partitions: dict[Any, set[Any]] = {}  # partition -> keys of the marks of its inputs, as assigned
        self._silent_ms: dict[Any, int] = {}  # key -> silence last told
        self._ended: set[Any] = set()
        self._positions: dict[Any, Any] = {}
        self._last_input_ms = 0.0

    def bind(self) -> None:
        """Called when the connections are known."""
        self.in_ = self.inlets[0]

    def on_start(self) -> None:
        factory = replace(self._factory, on_failure=self._on_failure, on_task=LIVE_TASKS.add)
        self.tasks = WindowTasks(factory)
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self._last_input_ms = self.interpreter.now_ms()

    def _on_failure(self, failure: OperatorFailed) -> bool:
        """Ask the stream's decider about the user's own error; True skips the row."""
        cause = failure.__cause__ or failure
        return directive_for(self, cause, failure.element) is not Directive.STOP

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        self._drain()

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(min(self._demand(), self._pace.limit))
        if chunk:
            self._last_input_ms = self.interpreter.now_ms()
            self._silent_ms.clear()
            results: list[Any] = []
            self._pace.begin()
            try:
                self.tasks.process_into(chunk, results)
            except Exception as error:  # noqa: BLE001 - what the rows before it gave goes out first
                self._failure = error
            self._pace.end(len(chunk))
            self._put(results)
        self._drain()
        self._wait_for_silence()

    def _demand(self) -> int:
        """Rows that may be taken: what every outlet asks for."""
        return min(out.asked for out in self.outlets)

    def _put(self, results: list[Any]) -> None:
        self._results.put(results)
        if len(self.outlets) > 1:
            self._late.put(self.tasks.take_late())

    def _drain(self) -> None:
        """Hand out what is asked for; then take more, or end."""
        outlets = self.outlets
        self._results.push_out(outlets[0].asked, outlets[0].push, outlets[0].mark)
        if len(outlets) > 1:
            self._late.push_out(outlets[1].asked, outlets[1].push, outlets[1].mark)
        if self._results or self._late:
            self.in_.hold()
            return
        if self._failure is not None:
            self.fail_stage(self._failure)
            return
        self.in_.release()
        if self._completing:
            self.complete_stage()
            return
        demand = self._demand()
        if demand:
            self.in_.want(min(demand, self._pace.window))

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if isinstance(mark, dict):
            self._positions.update(mark)
            self.position(mark)
            return
        if isinstance(mark, Assigned):
            self._partitions.setdefault(_number(mark.key), set()).add(mark.key)
            self.assigned(mark)
            return
        if isinstance(mark, Revoked):
            self._revoked(mark)
        elif isinstance(mark, Idle):
            self._idle(mark)
        elif isinstance(mark, EndOfInput):
            self._end(mark)
        self._put_mark(mark)
        self._drain()

    def position(self, mark: PositionMark) -> None:
        """A position mark has come: let it pass."""
        self._put_mark(mark)
        self._drain()

    def assigned(self, signal: Assigned) -> None:
        """A partition is ours: make its task, without state, when the first of its inputs comes."""
        partition = _number(signal.key)
        if len(self._partitions[partition]) == 1:
            self.tasks.assigned(partition)
        self._put_mark(signal)
        self._drain()

    def _put_mark(self, mark: Mark) -> None:
        self._results.put_mark(mark)
        if len(self.outlets) > 1:
            self._late.put_mark(mark)

    def _revoked(self, signal: Revoked) -> None:
        partition = _number(signal.key)
        keys = self._partitions.get(partition, set())
        keys.discard(signal.key)
        if not keys:
            self._partitions.pop(partition, None)
            self.tasks.revoked(partition)

    def _idle(self, signal: Idle) -> None:
        """All inputs of a partition are silent: it is as silent as the least silent of them."""
        self._silent_ms[signal.key] = signal.silent_ms
        partition = _number(signal.key)
        keys = self._partitions.get(partition)
        if keys is not None and keys <= self._silent_ms.keys():
            self._give_out(self.tasks.idle(partition, min(self._silent_ms[key] for key in keys)), signal.key)

    def _end(self, signal: EndOfInput) -> None:
        self._ended.add(signal.key)
        partition = _number(signal.key)
        keys = self._partitions.get(partition)
        if keys is not None:
            if keys <= self._ended:
                self._give_out(self.tasks.end_of_input(partition), signal.key)
        elif len(self._ended) >= len(self.in_.carries):
            self._give_out(self.tasks.end_of_input(), signal.key)

    def _give_out(self, results: list[Any], key: Any) -> None:
        """Results that no row gave; the last position is told again behind them."""
        if results:
            self._put(results)
            if key in self._positions:
                self.position({key: self._positions[key]})

    # ── silence of a stream without partitions, and the end ───────────────────────────────────────────────────────

    def _wait_for_silence(self) -> None:
        if self._idle_after_ms is None or self._partitions or self._completing:
            return
        due = [task.idle_due_ms() for task in self.tasks.tasks.values()]
        waits = [at for at in due if at is not None]
        if waits:
            silent_ms = self.interpreter.now_ms() - self._last_input_ms
            self.schedule_once("silence", max(1.0, min(waits) - silent_ms))

    def on_timer(self, key: object) -> None:
        """The input may have been silent long enough; not if it was only not asked."""
        if not self.in_.asked or self._completing:
            self._last_input_ms = self.interpreter.now_ms()
        else:
            silent_ms = int(self.interpreter.now_ms() - self._last_input_ms)
            for partition in self.tasks.tasks:
                self._put(self.tasks.idle(partition, silent_ms))
            self._drain()
        self._wait_for_silence()

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        if not in_.carries:
            try:
                self._put(self.tasks.end_of_input())
            except Exception as error:  # noqa: BLE001
                self._failure = error
        self._drain()

    def snapshot_state(self) -> str:
        waiting = self._results.size + self._late.size
        return f"{len(self.tasks.tasks)} partitions, {waiting} results wait for demand"


def _number(key: Any) -> Any:
    """The partition's number in a mark's key (source, partition): Kafka's TopicPartition, or what it is."""
    partition = key[1]
    return getattr(partition, "partition", partition)
