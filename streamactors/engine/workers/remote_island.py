"""The parent's side of an island in a worker process: starts the process, sends it what comes in, and starts it again after a crash.

    upstream island                                                         downstream island
    … ─► WorkerOut ── chunk, mark ──► RemoteIsland ══ worker ══► RemoteIsland ── chunk, marks ──► WorkerIn ─► …
                   ◄─── credits ────                                          ◄─── credits ────

Marks stay here: they are numbered, the worker carries the numbers, and the marks up to a number pass when it comes out. What was sent is kept until
such a number covers it. So after a crash a new process gets what is not covered, and the results after the last mark that came out are dropped
as often as they were passed on before. Nothing is lost, and nothing passes twice if the stages are exact and give the same results again.

Thread-safe: the two halves call on their islands, the link on its dispatcher. Nothing here blocks. Over 400 lines: both halves share what
was sent and is not covered yet."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.actors.shutdown_hooks import ShutdownHook
from streamactors.actors.workers.frames import Buffer, Frame
from streamactors.actors.workers.link import WorkerLink
from streamactors.codec import dumps
from streamactors.engine.hops.stamp import Stamp
from streamactors.engine.island.credit import CreditWindow
from streamactors.engine.marks.marks import Mark, merge_newer
from streamactors.engine.workers.looks import Looks
from streamactors.engine.workers.wire import (
    BEGIN,
    CANCEL,
    CANNOT_BEGIN,
    CHUNK,
    CREDIT,
    END,
    FAILURE,
    LOOKED,
    MARK,
    READY,
    SIGNAL,
    TRACE,
    described,
    frame_of,
    made_again,
)
from streamactors.errors import StageFailed, WorkerDied
from streamactors.tracing import switch

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

_log = logging.getLogger("streamactors.engine")

DISPATCHER: Final = "worker processes"
MOST_CRASHES: Final = 5
"""The number of crashes in a row, without a new mark from the worker, after which the stream fails."""
_BACKOFF_MS: Final = 100.0
_MAY_END_MS: Final = 5_000.0
_NEVER: Final = 1 << 62


@dataclass(slots=True)
class _Sent:
    """A frame of the input. A mark of the number `covered_by`, or a later one, covers it."""

    buffers: list[Buffer]
    covered_by: int
    elements: int = 0


class RemoteIsland:
    """`no_restart`: why the process cannot be started again after a crash; empty: it can. `exact`: the stages are exact, so a new process may repeat elements."""

    def __init__(self, job: bytes, label: str, window: int | None, no_restart: str, exact: bool) -> None:
        self.label = label
        self.window = window
        self._job = job
        self._no_restart = no_restart
        self._exact = exact
        self._lock = threading.RLock()
        self._link: WorkerLink | None = None
        self._hook: ShutdownHook | None = None
        self._system: ActorSystem
        self._connected = False
        self._looks = Looks()
        self._marks_active = False
        self._input: Any = None  # the halves
        self._output: Any = None
        self._over = False
        self._halves_stopped = 0
        # input
        self._sent: deque[_Sent] = deque()  # not covered; before the process is ready: not sent
        self._number = 0  # of the last mark
        self._marks: deque[tuple[int, Mark]] = deque()  # not come out yet
        self._credit = 0  # what the input half may still send
        self._debt = 0  # credit that it has too much, since a new process grants less than the last one did
        self._input_over = False
        self._upstream: BaseException | None = None
        # output
        self._granted = 0  # elements that the worker may send
        self._passed = 0  # elements that went to the output half
        self._since_mark = 0  # of them, those since the last mark of the worker
        self._again = 0  # elements that this process has sent since that mark
        self._ended = False
        self._output_over = False
        self._cause: BaseException | None = None  # why downstream cancelled, or with what the stages have failed
        self._crashes = 0
        self._killer: Timer | None = None

    # ── for the halves; on their islands ──────────────────────────────────────────────────────────────────────────

    def connect(self, input_half: Any, output_half: Any) -> int:
        """Connect the halves; return the credit of the input half."""
        self._input, self._output = input_half, output_half
        self._credit = CreditWindow(self.window).size
        self._granted = output_half.window.size
        return self._credit

    def start(self, system: ActorSystem, marks_active: bool) -> None:
        """Start the process."""
        self._system = system
        self._marks_active = marks_active
        self._hook = system.on_shutdown(self._end_with_system)
        self._dispatcher = system.dispatcher(DISPATCHER)
        self._dispatcher.execute(self._open)

    def send_chunk(self, buffers: list[Buffer], elements: int, mark: Mark | None) -> None:
        """Send an encoded chunk and the mark after it."""
        with self._lock:
            self._credit -= elements
            number = self._numbered(mark) if isinstance(mark, dict) else 0
            self._put(_Sent(frame_of(CHUNK, buffers, elements, number), number or self._number + 1, elements))
            if mark is not None and not number:
                self.send_mark(mark)

    def send_trace(self, context: tuple[bytes, str]) -> None:
        """Send the context of the sampled record that the elements before the next mark stem from."""
        with self._lock:
            number = self._number + 1
            self._put(_Sent(frame_of(TRACE, [dumps(list(context))], number=number), number))

    def send_mark(self, mark: Mark) -> None:
        """Send a mark."""
        with self._lock:
            number = self._numbered(mark)
            self._put(_Sent(frame_of(MARK if isinstance(mark, dict) else SIGNAL, [], number=number), number))

    def send_end(self) -> None:
        """All elements were sent."""
        with self._lock:
            self._input_over = True
            self._put(_Sent(frame_of(END, []), _NEVER))

    def send_failure(self, error: BaseException) -> None:
        """Upstream has failed."""
        with self._lock:
            self._input_over = True
            self._upstream = error
            self._put(_Sent(frame_of(FAILURE, [described(error)]), _NEVER))

    def grant(self, n: int) -> None:
        """Downstream has room for n more results."""
        with self._lock:
            self._granted += n
            if self._connected:
                self._send(frame_of(CREDIT, [], n))

    def cancel(self, cause: BaseException) -> None:
        """Downstream has cancelled."""
        with self._lock:
            if self._output_over or self._over:
                return
            self._output_over = True
            self._cause = cause
            self._sent.clear()
            if self._connected:
                self._send(frame_of(CANCEL, [described(cause)]))
                return
        self._finish()

    def half_stopped(self) -> None:
        """A half has stopped. When both have, the process has a few seconds to end by itself."""
        with self._lock:
            self._halves_stopped += 1
            link = self._link
            if self._halves_stopped < 2 or self._over:
                return
        if link is None or not self._connected:
            self._finish()
        else:
            self._killer = self._dispatcher.call_later(_MAY_END_MS, link.kill)

    def look(self, by: str) -> bytes | None:
        """Ask the process to look at its stages (see `looks.py`); return its last answer, None before the first one. Any thread."""
        with self._lock:
            if self._connected:
                self._looks.ask(by, self._send)
            return self._looks.newest

    @property
    def state(self) -> str:
        """A few words for the snapshot."""
        link = self._link
        if link is None or not self._connected:
            return "process starts"
        return f"process {link.pid}" + (f", {self._crashes} crashes" if self._crashes else "")

    # ── sending; under the lock ───────────────────────────────────────────────────────────────────────────────────

    def _numbered(self, mark: Mark) -> int:
        self._number += 1
        if type(mark) is Stamp:
            mark.row = mark.origin.ledger.row(self.label, f"worker process: {self.label}")
        self._marks.append((self._number, mark))
        return self._number

    def _put(self, sent: _Sent) -> None:
        if self._over or self._output_over:
            return
        if self._connected:
            self._send(sent.buffers)
            if not self._keeps:
                return
        self._sent.append(sent)

    def _send(self, buffers: list[Buffer]) -> None:
        if self._link is not None:
            self._link.send(buffers)

    @property
    def _keeps(self) -> bool:
        return self._marks_active and not self._no_restart

    # ── the process; on the dispatcher ────────────────────────────────────────────────────────────────────────────

    def _open(self) -> None:
        with self._lock:
            if self._over:
                return
            try:
                self._link = WorkerLink(self._dispatcher, self._job, self._on_frames, self._on_gone)
            except Exception as error:  # noqa: BLE001  # no memory, no descriptors, no processes left
                self._fail(WorkerDied(f"no worker process for stage '{self.label}': {type(error).__name__}: {error}"))

    def _ready(self) -> None:
        """The process has its job: send it the state of the run, then the frames that wait."""
        resent = sum(sent.elements for sent in self._sent)
        window = CreditWindow(self.window).size
        debt = self._credit - (window - resent)  # The process takes the elements that it is sent from its window.
        self._debt = max(0, debt) if self._crashes else 0
        self._again = 0
        credit = self._granted - self._passed + self._since_mark
        spans = switch.installed
        settings = {
            "marks": self._marks_active,
            "window": self.window,
            "credit": credit,
            "traces": None if spans is None else spans.for_workers(),
        }
        self._connected = True
        self._send(frame_of(BEGIN, [dumps(settings)]))
        for sent in self._sent:
            self._send(sent.buffers)
        if not self._keeps:
            self._sent.clear()

    def _on_frames(self, frames: list[Frame]) -> None:
        with self._lock:
            if self._over:
                return
            for frame in frames:
                self._on_frame(frame)

    def _on_frame(self, frame: Frame) -> None:
        kind = frame.kind
        if kind == CHUNK:
            self._on_chunk(frame)
        elif kind in (MARK, SIGNAL):
            self._pass_marks(None, 0, frame.number, covers=kind == MARK)
        elif kind == CREDIT:
            n = max(0, frame.count - self._debt)
            self._debt = max(0, self._debt - frame.count)
            if n:
                self._credit += n
                self._input.post(self._input.on_credit, n)
        elif kind == LOOKED:
            self._looks.answered(bytes(frame.payload))
        elif kind == END:
            self._ended = True  # passed on when the process has ended: a crash on the way is still seen
        elif kind == FAILURE:
            self._output_over = True
            error = self._upstream if frame.number and self._upstream is not None else made_again(frame.payload)
            self._cause = self._cause or error  # the process may die before it cancels its input
            self._output.post(self._output.on_failed, error)
        elif kind == CANCEL:
            self._input_over = True
            cause = made_again(frame.payload)
            self._input.post(self._input.on_cancelled, self._cause if self._cause is not None else cause)
        elif kind == READY:
            self._ready()
        elif kind == CANNOT_BEGIN:
            reason = bytes(frame.payload).decode(errors="replace")
            self._fail(StageFailed(f"the worker process of stage '{self.label}' could not begin: {reason}"))

    def _on_chunk(self, frame: Frame) -> None:
        """Results: pass on those that were not passed on before a crash."""
        self._again += frame.count
        new = min(frame.count, max(0, self._again - self._since_mark))
        self._since_mark = max(self._since_mark, self._again)
        self._passed += new
        if new:
            self._pass_marks(frame, frame.count - new, frame.number, covers=True)
        elif frame.number:
            self._pass_marks(None, 0, frame.number, covers=True)

    def _pass_marks(self, chunk: Frame | None, skip: int, number: int, *, covers: bool) -> None:
        """Pass results on with the marks up to `number` after them. `covers`: what stems from before has all come out."""
        passing: list[Mark] = []
        while number and self._marks and self._marks[0][0] <= number:
            mark = self._marks.popleft()[1]
            if isinstance(mark, dict) and passing and isinstance(passing[-1], dict):
                merge_newer(passing[-1], mark)
            else:
                passing.append(mark.copy() if isinstance(mark, dict) else mark)
        if number and covers:
            self._crashes = 0
            self._since_mark = self._again = 0
            while self._sent and self._sent[0].covered_by <= number:
                self._sent.popleft()
        if chunk is not None or passing:
            self._output.post(self._output.on_results, (chunk, skip, passing))

    def _on_gone(self, pid: int, how: str) -> None:
        with self._lock:
            self._connected = False
            self._link = None
            self._looks = Looks()
            if self._killer is not None:
                self._killer.cancel()
            if self._over:
                return
            if self._ended or self._output_over:
                if self._ended and not self._output_over:
                    self._output.post(self._output.on_ended, None)
                self._finish()
                return
            self._crashes += 1
            why_not = self._why_not_again()
            if not why_not:
                delay_ms = _BACKOFF_MS * 2 ** (self._crashes - 2) if self._crashes > 1 else 0.0
                _log.warning(
                    "worker process %d of stage '%s' %s; another continues after the last mark that it has passed, in %.0f ms",
                    pid,
                    self.label,
                    how,
                    delay_ms,
                )
                if not self._exact:
                    self._since_mark = 0  # results may come in another order: pass all of them again
                if delay_ms:
                    self._dispatcher.call_later(delay_ms, self._open)
                else:
                    self._open()
                return
            self._fail(WorkerDied(f"worker process {pid} of stage '{self.label}' {how}; {why_not}"))

    def _why_not_again(self) -> str:
        if not self._marks_active:
            return (
                "it was not started again, because nothing in this run reads marks, so what it held cannot be repeated; "
                "a source that can be replayed and a reader of marks make it continue (docs/cores.md)"
            )
        if self._no_restart:
            return f"it was not started again, because {self._no_restart}"
        if self._crashes > MOST_CRASHES:
            return f"it died {self._crashes} times in a row at the same elements, so they are likely the cause"
        return ""

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _fail(self, error: BaseException) -> None:
        """Fail both sides of the boundary."""
        self._input.post(self._input.on_cancelled, error)
        self._output.post(self._output.on_failed, error)
        self._finish()

    def _finish(self) -> None:
        """No frame matters any more; end the process if there is one."""
        with self._lock:
            if self._over:
                return
            self._over = True
            link, self._link = self._link, None
            self._connected = False
            self._sent.clear()
            self._marks.clear()
            if not self._input_over and self._cause is not None:
                self._input.post(self._input.on_cancelled, self._cause)
            if self._hook is not None:
                self._hook.cancel()
        if link is not None:
            link.kill()

    def _end_with_system(self) -> None:
        with self._lock:
            self._over = True
            link, self._link = self._link, None
        if link is not None:
            link.end_now()
