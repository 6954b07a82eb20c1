"""RestartedRun: a run that begins again in its process, under the same materialized value, when a stage says that only this repairs it.

    RUNNING ──ended, `run.restart_because` is set──► CLOSING ──clients and state are closed──► WAITING ──back-off is over──► RUNNING
       │                                                │                                        │
       └─ended by itself──► OVER ◄── stopped by the user, restarts are used up, or the run cannot be built ──────┘

A stage that commits (Transactional.sink) names the back-off in `restarts`. Each run has new stages; nothing of the aborted one is left but what it
has committed. Followers replace the materialized values of the stages: they hold a failure back until it is known whether another run begins.

Owner: the actor system; between two runs a `WaitingRun` stands for the stream among the system's runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.actors.futures import StreamFuture, UnreadFailure
from streamactors.engine.boundary import BoundaryIn, BoundaryOut
from streamactors.engine.island.run import Run
from streamactors.engine.logic import Logic
from streamactors.engine.planning.plan import Plan
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import NOT_USED, remembers

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

_log = logging.getLogger("streamactors.engine")


class Backoff(Protocol):
    """When a run begins again, and how often: RestartSettings."""

    @property
    def max_restarts(self) -> int | None: ...
    @property
    def within_ms(self) -> float: ...
    def delay_ms(self, restarts: int, /) -> float: ...


class Follower(Protocol):
    """Represents what one stage materializes, across runs."""

    @property
    def value(self) -> Any:
        """The materialized value, the same in each run."""

    def follow(self, value: Any, /) -> None:
        """A run is built, whose stage has materialized `value`."""

    def when_closed(self, then: Callable[[], object], /) -> None:
        """Call `then` when everything behind the last value is closed; any thread."""

    @property
    def failure(self) -> BaseException | None:
        """The error of the closing, if no restart repairs it."""

    def over(self) -> None:
        """The last run has ended by itself."""

    def settle(self, error: BaseException | None, /) -> None:
        """No further run begins, although the last one was aborted: with `error`, or because the user has stopped it."""


class Phase(Enum):
    """What a RestartedRun does."""

    RUNNING = "a run is there"
    CLOSING = "the run was aborted; its clients and its state are being closed"
    WAITING = "the back-off before the next run"
    OVER = "no further run begins"


class WaitingRun(Run):
    """Stands for a stream between two of its runs. It has no island."""

    __slots__ = ("_on_abort",)

    def __init__(self, system: ActorSystem, endless: bool, on_abort: Callable[[BaseException], None]) -> None:
        super().__init__(system)
        self.endless = endless
        self._on_abort = on_abort

    def abort(self, error: BaseException) -> None:
        self._on_abort(error)


Built = Callable[[Run, list[Any], list[Logic]], Any]
"""Called with a run that is built and not started, its values and its logics; returns the materialized value."""


class RestartedRun:
    """Runs a plan, and runs it again when a run was aborted for a restart. `begin(plan, system, built)` starts a run."""

    def __init__(
        self, plan: Plan, backoff: Backoff, system: ActorSystem, begin: Callable[[Plan, ActorSystem, Built], Any]
    ) -> None:
        self._plan = plan
        self._backoff = backoff
        self._system = system
        self._begin = begin
        self._followers: list[Follower] = []
        self._waiting = WaitingRun(system, plan.endless, self._abort)
        self._phase = Phase.RUNNING
        self._restarts = 0
        self._began_ms = 0.0
        self._stopped = False
        self._stopped_with: BaseException | None = None
        self._run: Run | None = None
        self._timer: Any = None
        self._unread: UnreadFailure | None = None
        self._lock = threading.Lock()

    def start(self) -> Any:
        """Begin the first run; return the materialized value."""
        return self._begin(self._plan, self._system, self._first)

    def _first(self, run: Run, values: list[Any], logics: list[Logic]) -> Any:
        why_not = why_not_restarted(self._plan, values, logics)
        if why_not:
            run.why_no_restart = why_not
            return self._plan.evaluate(values)
        self._followers = [self._follower(value) for value in values]
        self._follow(run, values)
        return self._plan.evaluate([follower.value for follower in self._followers])

    def _follower(self, value: Any) -> Follower:
        if value is NOT_USED:
            return _NOTHING
        if isinstance(value, StreamFuture):
            return _FutureFollower(self, value.name)
        follower: Follower = value.follower(self.stop)
        return follower

    def _follow(self, run: Run, values: Sequence[Any]) -> None:
        self._began_ms = self._system.clock.now_ms()
        with self._lock:
            self._run = run
            run.may_restart = True
            if self._stopped:
                run.why_no_restart = "it is being stopped"
        run.when_ended(lambda: self._ended(run))
        for follower, value in zip(self._followers, values, strict=True):
            if isinstance(follower, _FutureFollower):
                follower.run = run
            follower.follow(value)

    def _next(self, run: Run, values: list[Any], _: list[Logic]) -> None:
        with self._lock:
            self._phase = Phase.RUNNING
        self._follow(run, values)
        self._waiting.runs.alive.pop(self._waiting, None)

    def unread(self, text: str) -> UnreadFailure:
        """Return the failure of the stream, which its futures share. It is logged if it is never read."""
        if self._unread is None:
            self._unread = UnreadFailure(text)
        return self._unread

    # ── the end of a run; on the thread that ends its last island ─────────────────────────────────────────────────

    def _ended(self, run: Run) -> None:
        error = run.restart_because
        if error is None:
            with self._lock:
                self._phase = Phase.OVER
            for follower in self._followers:
                follower.over()
            return
        with self._lock:
            self._phase = Phase.CLOSING
            run.runs.alive[self._waiting] = None
        self._when_closed(0, error)

    def _when_closed(self, n: int, error: BaseException) -> None:
        """Continue when the followers from number `n` on are closed."""
        if n < len(self._followers):
            self._followers[n].when_closed(lambda: self._when_closed(n + 1, error))
        else:
            self._wait(error)

    def _wait(self, error: BaseException) -> None:
        """The aborted run is closed: begin another one after the back-off, or end."""
        failure = next((each.failure for each in self._followers if each.failure is not None), None)
        if failure is not None:
            self._finish(failure)
            return
        backoff = self._backoff
        if self._system.clock.now_ms() - self._began_ms > backoff.within_ms:
            self._restarts = 0
        if backoff.max_restarts is not None and self._restarts >= backoff.max_restarts:
            error.add_note(f"the run was restarted {self._restarts} times in a row, which is the limit")
            self._finish(error)
            return
        with self._lock:
            if self._phase is Phase.OVER:
                return
            stopped = self._stopped
            if not stopped:
                delay_ms = backoff.delay_ms(self._restarts)
                self._restarts += 1
                limit = "" if backoff.max_restarts is None else f" of at most {backoff.max_restarts} in a row"
                _log.warning("%s; restart %d%s of the run in %.0f ms", error, self._restarts, limit, delay_ms)
                self._phase = Phase.WAITING
                try:
                    self._timer = self._system.timers.call_later(delay_ms, self._again)
                except DispatcherStopped:
                    pass  # the system's shutdown aborts the waiting run
        if stopped:
            _log.warning("%s; the run is being stopped and does not begin again", error)
            self._finish(self._stopped_with)

    def _again(self) -> None:
        with self._lock:
            if self._phase is not Phase.WAITING:
                return
            self._phase = Phase.RUNNING
        try:
            self._begin(self._plan, self._system, self._next)
        except BaseException as error:  # noqa: BLE001  # the result fails with it
            self._finish(error)

    # ── the end of the stream; any thread ─────────────────────────────────────────────────────────────────────────

    def stop(self, error: BaseException | None = None) -> None:
        """The user has stopped the stream, or has it fail with `error`. A running one ends by itself; after an abort no other one begins."""
        with self._lock:
            self._stopped, self._stopped_with = True, error
            if self._run is not None and self._run.restart_because is None:
                # what is in flight is to be committed: an abort is the end of the stream, and not a success
                self._run.why_no_restart = "it is being stopped"
            if self._phase is not Phase.WAITING:
                return
            self._phase = Phase.OVER
            if self._timer is not None:
                self._timer.cancel()
        self._finish(error)

    def _abort(self, error: BaseException) -> None:
        """The system shuts down between two runs."""
        with self._lock:
            if self._phase is Phase.OVER:
                return
            self._phase = Phase.OVER
            if self._timer is not None:
                self._timer.cancel()
        self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        with self._lock:
            self._phase = Phase.OVER
        for follower in self._followers:
            follower.settle(error)
        self._waiting.over()


class _Nothing:
    """Follows a stage that materializes nothing."""

    value = NOT_USED
    failure = None

    def follow(self, value: Any) -> None: ...
    def when_closed(self, then: Callable[[], object]) -> None:
        then()

    def over(self) -> None: ...
    def settle(self, error: BaseException | None) -> None: ...


_NOTHING = _Nothing()


class _FutureFollower:
    """Follows the future of a stage."""

    failure = None

    def __init__(self, owner: RestartedRun, name: str) -> None:
        self._owner = owner
        self.value: StreamFuture[Any] = StreamFuture(name)
        self.run: Run | None = None
        self._text: str | None = None  # what is logged if the failure that is held back is never read

    def follow(self, value: StreamFuture[Any]) -> None:
        mine = self.value
        mine.run = value.run
        if value.stop_stream is not None:
            mine.stop_stream = lambda: self._cancel(value)
            if mine.cancelled():
                value.cancel()
        run = self.run
        value.add_done_callback(lambda _: self._done(value, run))

    def _cancel(self, value: StreamFuture[Any]) -> None:
        self._owner.stop()
        value.cancel()

    def _done(self, value: StreamFuture[Any], run: Run | None) -> None:
        self.value.run = None
        if value.cancelled():
            self.value.cancel()
            return
        error = value.exception(0)
        if error is None:
            self.value.stop_stream = None
            self.value.try_complete(value.result(0))
            return
        self._text = None if value.failure is None else value.failure.text
        if run is None or run.restart_because is None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.value.stop_stream = None
        unread = self._owner.unread(self._text) if self._text is not None else None
        self.value.try_fail_of(unread, error)

    def when_closed(self, then: Callable[[], object]) -> None:
        then()

    def over(self) -> None: ...
    def settle(self, error: BaseException | None) -> None:
        if error is None:
            self.value.try_complete(None)
        else:
            self._fail(error)


def why_not_restarted(plan: Plan, values: Sequence[Any], logics: Sequence[Logic]) -> str:
    """Return why a run that begins again would not continue where this one was aborted; empty if it would."""
    for node, value, logic in zip(plan.nodes, values, logics, strict=True):
        stage, label = node.stage, node.label
        if isinstance(stage, BoundaryIn | BoundaryOut):
            continue
        if not stage.shape.inlets and not stage.traits.emits_marks:
            return f"source '{label}' cannot continue from a position"
        if remembers(stage) and not stage.traits.restores_state:
            return f"stage '{label}' remembers earlier elements, and forgets them at a restart"
        if not stage.shape.outlets and not _sees_each_element_alone(logic):
            return f"the result of sink '{label}' stems from all elements"
        if value is not NOT_USED and not isinstance(value, StreamFuture) and not hasattr(type(value), "follower"):
            return f"'{label}' materializes a {type(value).__name__}, which belongs to one run"
    return ""


def _sees_each_element_alone(logic: Logic) -> bool:
    return isinstance(logic, SinkLogic) and not logic.done_at_end and type(logic).result is SinkLogic.result
