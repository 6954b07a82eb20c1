"""The connections and the interpreter of a traced run: they tell the run's trace which stage has a sampled record.

A stage takes a chunk by `grab`; the mark after the chunk tells which sampled records it stems from. The span of one record alone is current
until the event of the interpreter is over. In a graph that a stage runs inside itself no marks may travel: there an element stems from the record
that the stage worked on when it pushed the element. A stage has finished with a record when the record's mark leaves it. Used instead of `Connection`
and `Interpreter` where traces are installed (`streamactors/tracing/`); other runs pay nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from streamactors.engine.island.connection import Connection
from streamactors.engine.island.interpreter import Interpreter
from streamactors.engine.marks.marks import Key, Mark, Position, PositionMark
from streamactors.tracing.run_trace import RunTrace

if TYPE_CHECKING:
    from streamactors.engine.island.island import Island
    from streamactors.engine.logic import Logic
    from streamactors.tracing.run_trace import SampledRecord


Work: TypeAlias = "SampledRecord | tuple[SampledRecord, ...] | None"
"""A record alone, or several of which some may be meant; None: no sampled one."""


def _both(first: Work, second: Work) -> Work:
    """Return what stems from the one or the other."""
    if first is second or second is None:
        return first
    parts = [*(first if isinstance(first, tuple) else (first,)), *(second if isinstance(second, tuple) else (second,))]
    return tuple({id(record): record for record in parts if record is not None}.values())


class TracedConnection(Connection):
    """`exact`: every stage upstream is exact, so what lies between two marks stems from nothing else. `inside`: it belongs to a graph inside
    another stage. `stage`: the name of the stage downstream, empty for a boundary."""

    __slots__ = ("begun_for", "exact", "grabbed", "inside", "passed", "pushed_of", "stage", "trace")

    interpreter: TracedInterpreter

    def __init__(self, interpreter: TracedInterpreter, carries: frozenset[Any] = frozenset()) -> None:
        super().__init__(interpreter, carries)
        self.trace = interpreter.trace
        self.exact = False
        self.inside = False
        self.begun_for: Work = None  # for which the graph inside was begun: its first element stems from it
        self.stage = ""
        self.pushed_of: Work = (
            None  # what the producer worked on when it pushed the elements in the queue, where no mark may tell it
        )
        self.grabbed: dict[Key, Position] = {}  # the marks up to here were met by the consumer while a record was open
        self.passed: dict[Key, Position] = {}  # and came from the producer

    def grab(self, n: int) -> list[Any]:
        chunk = super().grab(n)
        if self.trace.open and chunk:
            if self.pushed_of is not None:
                self.interpreter.work_on(self.pushed_of)
            self._look()
        if not self.ready:
            self.pushed_of = None
        return chunk

    def push(self, chunk: list[Any]) -> None:
        if self.inside and self.trace.open:
            new = self.begun_for if self.interpreter.working_on is None else self.interpreter.working_on
            self.begun_for = None
            self.pushed_of = new if not self.ready else _both(self.pushed_of, new)
        elif self.trace.open and type(working_on := self.interpreter.working_on) is tuple:
            # the mark after results of a window comes when all of them are out, so what they stem from travels with them
            self.pushed_of = working_on if not self.ready else _both(self.pushed_of, working_on)
        super().push(chunk)

    def _look(self) -> None:
        """A chunk was taken: the next mark tells which sampled records it stems from."""
        whole = True
        for item in self.items:
            if type(item) is dict:
                found = self.trace.between(self.grabbed, item, note=whole)
                if found:
                    self._meet(found, item)
                return
            if type(item) is list:
                whole = False
        # no mark has come after the chunk yet, as on the way to a side sink
        if self.exact and self.passed:
            record = self.trace.begun_at(self.passed)
            if record is not None:
                if self.stage and self.trace.spans.stages:
                    record.stage_entered(self.consumer, self.stage)
                self.interpreter.work_on(record)

    def _meet(self, found: tuple[SampledRecord, ...], mark: PositionMark) -> None:
        if self.stage and self.trace.spans.stages:
            for record in found:
                record.stage_entered(self.consumer, self.stage)
        one = found[0]
        alone = self.exact and len(found) == 1 and one.alone and mark[one.key] == one.place
        self.interpreter.work_on(one if alone else found)

    def mark(self, mark: Mark) -> None:
        trace = self.trace
        if trace.open and type(mark) is dict:
            if trace.spans.stages:
                for record in trace.between(self.passed, mark, note=True):
                    record.stage_left(self.producer)
            elif self.exact:
                trace.note(self.passed, mark)
        super().mark(mark)


class TracedInterpreter(Interpreter):
    """Makes the span of a sampled record the current one while a handler works on it."""

    __slots__ = ("_leave", "_record", "trace", "working_on")

    def __init__(self, island: Island, trace: RunTrace) -> None:
        super().__init__(island)
        self.trace = trace
        self._leave: Callable[[], None] | None = None
        self._record: SampledRecord | None = None  # the span of which is the current one
        self.working_on: Work = None
        """What the handler works on that runs."""

    def work_on(self, records: Any) -> None:
        if self._leave is not None:
            self._leave()
            self._leave = None
        if records is None:
            return
        self.working_on = records
        if isinstance(records, tuple):
            self._record = None
            self._leave = self.trace.spans.enter_links([record.span for record in records])
        else:
            self._record = records
            self._leave = self.trace.spans.enter(records.span)

    def _over(self) -> None:
        """The handler is over."""
        leave, self._leave, self._record = self._leave, None, None
        self.working_on = None
        if leave is not None:
            leave()

    def visit(self, c: Connection) -> None:
        super().visit(c)
        if self._leave is not None:
            self._over()

    def _guarded(self, logic: Logic, handler: Callable[..., None], *arguments: Any) -> None:
        super()._guarded(logic, handler, *arguments)
        if self._leave is not None:
            self._over()

    def ended(self, logic: Logic) -> None:
        if logic.failure is not None:
            self._note_failure(logic.failure, inside=logic.inside)
        super().ended(logic)

    def _note_failure(self, error: BaseException, *, inside: bool) -> None:
        """A stage has failed. `inside`: the stage around it decides what becomes of the record, and whether the stream fails."""
        record, self._record = self._record, None
        if record is not None:
            if inside:
                record.span.record_exception(error)
            else:
                self.trace.take_out(record)
                record.failed(error, itself=True)
        if not inside:
            self.trace.failed(error)
