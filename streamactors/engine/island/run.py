"""A run: one materialization of a blueprint, and what its stages share. The materializer makes it.

Owner: the actor system. It keeps every run until the run's islands have ended. When it shuts down, it fails the runs that are left."""

from __future__ import annotations

import itertools
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from streamactors.actors.futures import UnreadFailure
from streamactors.engine.island.pace import SliceWatch, watch_of
from streamactors.engine.marks.marks import PositionMark, TimerResults
from streamactors.engine.marks.progress import SinkProgress
from streamactors.engine.marks.source_marks import SourceMarks
from streamactors.errors import AbruptTermination
from streamactors.tracing import switch

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.engine.hops.ledger import HopLedger
    from streamactors.engine.island.island import Island
    from streamactors.engine.logic import Logic
    from streamactors.tracing.run_trace import RunTrace
    from streamactors.tracing.spans import Spans

_log = logging.getLogger("streamactors.engine")

_running: weakref.WeakKeyDictionary[ActorSystem, _Runs] = weakref.WeakKeyDictionary()
_running_lock = threading.Lock()
_shared_lock = threading.RLock()
_numbers = itertools.count()

T = TypeVar("T")


class _Runs:
    """The state that the runs of one system share."""

    __slots__ = ("alive", "idle", "meters", "taps", "watch")

    def __init__(self, watch: SliceWatch) -> None:
        self.alive: dict[Run, None] = {}  # in the order of their start
        self.meters: dict[int, Meter] = {}  # while there is one, runs measure their hops
        self.idle: list[Callable[[], object]] = []
        self.taps: list[Callable[[Sequence[Logic]], object]] = []
        self.watch = watch


def _runs_of(system: ActorSystem) -> _Runs:
    runs = _running.get(system)
    if runs is None:
        with _running_lock:
            runs = _running.get(system)
            if runs is None:
                runs = _running[system] = _Runs(watch_of(system.pool))
                alive = runs.alive
                system.on_shutdown(lambda: _abort_all(alive))
                system.streams = lambda: tuple(alive)
    return runs


def runs_of(system: ActorSystem) -> Collection[Run]:
    """Return the runs of a system that have not ended, in the order of their start; the first call hooks into its shutdown."""
    return _runs_of(system).alive.keys()


class Meter:
    """Measures the hops of runs. `ledgers`: those of the newest runs. `every_ms`: how often a source sends a stamp at most."""

    def __init__(self, every_ms: float, runs: int) -> None:
        self.every_ms = every_ms
        self.ledgers: deque[HopLedger] = deque(maxlen=runs)

    def measure(self, run: Run) -> None:
        """Measure the hops of a run from now on."""
        self.ledgers.append(run.measure(self.every_ms))


def measure_runs(system: ActorSystem, meter: Meter) -> None:
    """Measure the hops of the runs of a system, those that begin later included, until `measure_no_more`."""
    runs = _runs_of(system)
    runs.meters[id(meter)] = meter
    for run in list(runs.alive):
        meter.measure(run)


def measure_no_more(system: ActorSystem, meter: Meter) -> None:
    """Undo `measure_runs`. What was measured stays in the meter's ledgers."""
    runs = _runs_of(system)
    runs.meters.pop(id(meter), None)
    if not runs.meters:
        for run in list(runs.alive):
            run.sampled = False


def tap_runs(system: ActorSystem, tap: Callable[[Sequence[Logic]], object]) -> None:
    """Call `tap` with the stages of each run that begins on a system, and of each graph that a stage runs inside, before they start."""
    _runs_of(system).taps.append(tap)


def when_idle(system: ActorSystem, then: Callable[[], object]) -> None:
    """Call `then` each time the last run of a system has ended, on the thread that ended it."""
    _runs_of(system).idle.append(then)


def all_runs() -> list[Run]:
    """Return the runs of all systems of this process that have not ended."""
    with _running_lock:
        return [run for runs in list(_running.values()) for run in list(runs.alive)]


def _abort_all(runs: Collection[Run]) -> None:
    for run in list(runs):
        run.abort(AbruptTermination("the actor system was shut down while the stream was running"))


class Run:
    """The islands of one materialization and what they share."""

    __slots__ = (
        "__weakref__",
        "_ended",
        "_failure",
        "_inside",
        "_left",
        "_lock",
        "_progress",
        "_shared",
        "begins_anew",
        "continues",
        "cut_short",
        "endless",
        "hops",
        "islands",
        "marks_active",
        "may_restart",
        "number",
        "only_traced",
        "plan",
        "restart_because",
        "runs",
        "sampled",
        "source_base",
        "source_of",
        "system",
        "timer_results",
        "trace",
        "why_no_restart",
    )

    def __init__(self, system: ActorSystem) -> None:
        self.system = system
        self.islands: list[Island] = []
        self.number = next(_numbers)  # a later run has a larger one
        self.plan: object = None  # of its blueprint, which keeps it
        self.marks_active = False
        self.only_traced = False  # marks are active for nobody but the traces
        self.continues = ""  # what continues it if the end of the process interrupts it
        self.endless = False  # one of its sources never ends by itself
        self.cut_short = False  # a signal has stopped a source before its end: what a sink has is not the whole
        self.source_base = 0  # added to a plan's node numbers, so that attached graphs have sources of their own
        self.runs = _runs_of(system)
        self._progress: SinkProgress | None = None
        self.hops: HopLedger | None = None
        """The latency of each hop, once it was asked for."""
        self.sampled = False
        """True while sources send stamps."""
        self._shared: dict[type, Any] = {}
        self._ended: list[Callable[[], None]] = []
        self.source_of: dict[object, tuple[int, Any]] = {}
        self.begins_anew = True
        """True if its results are right without those of elements that another run processes: every source emits marks, and no stage remembers
        earlier elements."""
        self.may_restart = False
        """True if the run begins again after an abort for `restart_because` (`engine/materializing/restarted_run.py`)."""
        self.why_no_restart = ""
        """Why a run whose stages ask for restarts cannot have them; empty: it can, or none asks."""
        self.restart_because: BaseException | None = None
        """The error of an abort that a new run repairs. Set before any stage fails of it."""
        self.trace: RunTrace | None = None if switch.installed is None else self._traced(switch.installed)
        """The sampled records of the run; None unless traces are installed."""
        self.timer_results: dict[object, TimerResults] = {}
        """Stage -> its name in the marks of its own results. A stage that was started inside another one has none: no stage
        around that one could tell how far these marks reach."""
        self._inside: dict[object, Sequence[object]] = {}
        self._lock = threading.Lock()
        self._left: list[tuple[Island, BaseException]] = []  # islands that got no turn for their abort
        self._failure: UnreadFailure | None = None
        for meter in list(self.runs.meters.values()):
            meter.measure(self)

    def _traced(self, spans: Spans) -> RunTrace:
        from streamactors.tracing.run_trace import RunTrace

        trace = RunTrace(spans)
        self._ended.append(trace.ended)
        return trace

    @property
    def progress(self) -> SinkProgress:
        """The positions done at each sink. Made when first needed, since most runs have no marks."""
        if self._progress is None:
            with self._lock:
                if self._progress is None:
                    progress = SinkProgress()
                    if self.trace is not None:
                        progress.watch(self.trace.done)
                    self._progress = progress
        return self._progress

    def measure(self, every_ms: float) -> HopLedger:
        """Measure the hops from now on; return where they are noted. A source sends a stamp every `every_ms` at most. Any thread."""
        from streamactors.engine.hops.ledger import HopLedger

        progress = self.progress
        with self._lock:
            if self.hops is None:
                self.hops = progress.hops = HopLedger(self.system.clock, progress, every_ms)
            elif every_ms < self.hops.every_ms or not self.sampled:
                self.hops.every_ms = every_ms
            self.sampled = True
            return self.hops

    def shared(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the one object of a kind that the stages of this run share, made at the first call.

        A table with the run as weak key would leak: most such objects refer to their run, so the key would never be freed."""
        with _shared_lock:
            found = self._shared.get(kind)
            if found is None:
                found = self._shared[kind] = make()
            return cast("T", found)

    def known(self, kind: type[T]) -> T | None:
        """Return the one object of a kind that the stages of this run share; None if no stage has made it."""
        return cast("T | None", self._shared.get(kind))

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def source_marks(self, logic: object) -> SourceMarks | None:
        """Return the marks that a source emits, None when no stage of the run reads marks."""
        known = self.source_of.get(logic)
        if known is None:
            return None
        source, replay = known
        forced = replay.marks_at if replay is not None else ()
        marks = SourceMarks((source, 0), forced)
        if replay is not None and replay.on_done is not None:
            on_done = replay.on_done

            def tell(moved: PositionMark) -> None:
                for _, position in moved.values():
                    on_done(position)

            self.progress.listen(source, tell)
        return marks

    def inside(self, parent: object, logics: Sequence[object]) -> None:
        """The stage `parent` has started an inner graph of these stages. The stage's previous inner graph is forgotten: its sinks no
        longer hold progress back, because the new source emits again the elements that they had not done."""
        for logic in self._inside.get(parent, ()):
            self.source_of.pop(logic, None)
            self.progress.forget(logic)
        self._inside[parent] = logics

    def source_id(self, logic: object) -> int | None:
        """Return the number that marks have for a source, None when no stage of this run reads marks."""
        known = self.source_of.get(logic)
        return None if known is None else known[0]

    def interpreters(self) -> list[Any]:
        """Return the interpreters of the islands that have not ended. Any thread."""
        with self._lock:
            islands = list(self.islands)
        found = [getattr(island, "interpreter", None) for island in islands]  # an island that ends just now has none
        return [each for each in found if each is not None]

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def island_ended(self, island: Island) -> None:
        """All stages of an island have stopped."""
        with self._lock:
            self.islands.remove(island)
            over = not self.islands
        if over:
            self._failure = None
            self.over()

    def over(self) -> None:
        """The run has ended: forget it, and call those who wait for its end."""
        self.runs.alive.pop(self, None)
        for callback in self._ended:
            self._call(callback)
        for then in () if self.runs.alive else self.runs.idle:
            self._call(then)

    @staticmethod
    def _call(callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception:  # noqa: BLE001  # the others have to be called
            _log.exception("a call at the end of a stream raised")

    def unread_failure(self, text: str) -> UnreadFailure:
        """Return the run's failure, which its sinks share: the first one's text is logged if nobody reads it."""
        with self._lock:
            if self._failure is None:
                self._failure = UnreadFailure(text)
            return self._failure

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call `callback` when every stage has stopped, on the thread that ended the last one."""
        self._ended.append(callback)

    def abort(self, error: BaseException) -> None:
        """Fail every stage with `error`."""
        with self._lock:
            islands = list(self.islands)
        for island in islands:
            island.abort(error)

    def end_outside(self, island: Island, error: BaseException) -> None:
        """End an island that gets no more turns. All such islands of a run share one thread, so the shutdown does not wait for them."""
        with self._lock:
            self._left.append((island, error))
            first = len(self._left) == 1
        if first:
            threading.Thread(target=self._end_left, name="the end of a stream", daemon=True).start()

    def _end_left(self) -> None:
        while True:
            island, error = self._left[0]
            try:
                island.end_outside(error)
            except Exception:  # noqa: BLE001  # the other islands must still be ended
                _log.exception("a stage raised while its stream was ended after the shutdown")
            with self._lock:
                del self._left[0]
                if not self._left:
                    return
