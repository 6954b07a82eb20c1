"""Kill switches: code outside a running stream ends it, in the middle.

`shutdown` completes downstream and cancels upstream, `abort` fails both; the first call counts. Elements on their way to the
switch are lost. Owner of the decision: the switch's lock; a message wakes each stage."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT, Mark
from streamactors.engine.stage import FLOW, GraphStage, Shape
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.user_code import shortened

TWO_WAYS = Shape(("in1", "in2"), ("out1", "out2"))


class KillSwitch:
    """Thread-safe; may be used before the stream has started and after it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stages: dict[_KillSwitchLogic, None] = {}  # in the order of their start
        self._decided = False
        self._error: BaseException | None = None
        self._next: KillSwitch | None = None
        self._restarted: dict[
            Callable[[BaseException | None], object], None
        ] = {}  # runs to notify of a use between two runs

    def shutdown(self) -> None:
        """Complete downstream and cancel upstream. Does nothing when the switch was used before."""
        self._decide(None)

    def shutdown_at_signals(self, *signals: int) -> None:
        """Call `shutdown` when the process gets one of `signals`, by default SIGINT and SIGTERM, and then the handler that was set before.

        For servers that wait for open responses before they end, such as uvicorn: call it in the lifespan. Python sets handlers on the main
        thread only; on another one, as in a test client, this does nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in signals or (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:
                signal.signal(number, partial(self._signalled, before))

    def _signalled(self, before: Any, number: int, frame: Any) -> None:
        # on a thread of its own: the handler may have interrupted a holder of the lock that it needs
        threading.Thread(target=self.shutdown, name="kill switch at a signal", daemon=True).start()
        if callable(before):
            before(number, frame)
        elif before is signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def abort(self, error: BaseException) -> None:
        """Fail downstream with `error` and cancel upstream with it. Does nothing when the switch was used before."""
        if not isinstance(error, BaseException):
            raise TypeError(f"abort expects an exception, got {type(error).__name__} {shortened(error, 60)}")
        self._decide(error)

    @property
    def used(self) -> bool:
        """True once shutdown or abort was called."""
        return self._decided

    def _decide(self, error: BaseException | None) -> None:
        with self._lock:
            if self._decided:
                return
            self._error = error
            self._decided = True
            stages, successor, restarted = list(self._stages), self._next, list(self._restarted)
        for tell in restarted:
            tell(error)
        for stage in stages:
            stage.tell.invoke(None)
        if successor is not None:
            successor._decide(error)

    def follower(self, stopped: Callable[[BaseException | None], object]) -> SwitchFollower:
        """Return what keeps this switch in use while its run is restarted; `stopped(error)` is called when it is used."""
        self._restarted[stopped] = None
        return SwitchFollower(self, stopped)

    def _pass_on(self, successor: KillSwitch) -> None:
        """The stage of another run has a switch of its own."""
        if successor is self:
            return
        with self._lock:
            self._next = successor
            decided = self._decided
        if decided:
            successor._decide(self._error)

    def _add(self, stage: _KillSwitchLogic) -> None:
        with self._lock:
            self._stages[stage] = None
        if self._decided:
            stage.end(None)

    def _remove(self, stage: _KillSwitchLogic) -> None:
        with self._lock:
            self._stages.pop(stage, None)


class SwitchFollower:
    """The switch of the first run is the user's; it uses the switch of the current run."""

    failure = None

    def __init__(self, switch: KillSwitch, stopped: Callable[[BaseException | None], object]) -> None:
        self.value = switch
        self._stopped = stopped

    def follow(self, value: KillSwitch) -> None:
        """Another run has begun."""
        self.value._pass_on(value)

    def when_closed(self, then: Callable[[], object]) -> None:
        """Nothing is to be closed."""
        then()

    def over(self) -> None:
        """The last run has ended."""
        self.value._restarted.pop(self._stopped, None)

    def settle(self, error: BaseException | None) -> None:
        """No further run begins."""
        self.over()


class KillSwitchStage(GraphStage):
    """Pass elements on until the switch is used. Without an argument, each run materializes a switch of its own.

    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes, or shutdown is called.   Cancels when: downstream cancels, or the switch is used.
    Fails when: abort is called.
    """

    name = "kill_switch"
    handling = EXACT
    traits = StageTraits(mark_ways=frozenset({(0, 0), (1, 1)}))

    def __init__(self, switch: KillSwitch | None = None, two_ways: bool = False) -> None:
        self._switch = switch
        self.shape = TWO_WAYS if two_ways else FLOW

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        switch = self._switch if self._switch is not None else KillSwitch()
        return _KillSwitchLogic(switch), switch


class _KillSwitchLogic(Logic):
    """Inlet i feeds outlet i."""

    def __init__(self, switch: KillSwitch) -> None:
        self._switch = switch
        self.tell = self.async_callback(self.end)

    def on_start(self) -> None:
        self._switch._add(self)

    def end(self, _: None) -> None:
        """The switch was used."""
        error = self._switch._error
        if error is None:
            self.complete_stage()
        else:
            self.fail_stage(error)

    def on_pull(self, out: Connection) -> None:
        self.inlets[out.out_index].want(out.asked)

    def on_push(self, in_: Connection) -> None:
        out = self.outlets[in_.in_index]
        out.push(in_.grab(out.asked))
        in_.want(out.asked)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self.outlets[in_.in_index].mark(mark)

    def on_complete(self, in_: Connection) -> None:
        self.outlets[in_.in_index].complete()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self.outlets[in_.in_index].fail(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if len(self.outlets) == 1:
            self.cancel_stage(cause)
        else:
            self.inlets[out.out_index].cancel(cause)

    def on_stop(self) -> None:
        self._switch._remove(self)
