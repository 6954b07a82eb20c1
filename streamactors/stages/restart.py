"""Restarting parts: a source, flow or sink that is made anew, after a wait, when it has failed (or ended).

Owner: the stage, in whose island the inner part runs. What is inside the part when it ends is lost, so RestartFlow and RestartSink
refuse runs that read marks. A flow that cancels its upstream is given 50 ms to complete or fail as well, with what it still emits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint import Module
from streamactors.engine.causes import NO_MORE_ELEMENTS, NonFailureCancellation
from streamactors.engine.connection import Connection
from streamactors.engine.graph import Node
from streamactors.engine.logic import Logic
from streamactors.engine.marks import EndOfInput, Mark, Needs
from streamactors.engine.plan import plan_of
from streamactors.engine.run import attach
from streamactors.engine.stage import FLOW, NOT_USED, SINK, SOURCE, GraphStage
from streamactors.engine.user_code import blame, shortened
from streamactors.errors import BuildError
from streamactors.stages.checks import plain_function
from streamactors.stages.restart_settings import RestartSettings

log = logging.getLogger("streamactors.stages.restart")

END_MAY_FOLLOW_MS = 50.0


class _Restarting(GraphStage):
    """Base of the three stages."""

    what = ""
    ports = (0, 0)

    def __init__(self, settings: RestartSettings, make: Callable[[], Any], only_on_failures: bool) -> None:
        if not isinstance(settings, RestartSettings):
            raise BuildError(
                f"{self.what} expects RestartSettings, got {type(settings).__name__} {shortened(settings, 60)}"
            )
        self._settings = settings
        self._make = plain_function(self.what, make)
        self._only_on_failures = only_on_failures
        self._lock = threading.Lock()
        self._nodes: list[Node] | None = None  # of the first inner part
        self._first: Module | BaseException | None = None

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _RestartLogic(self._settings, self._module, self._only_on_failures), NOT_USED

    def _module(self) -> Module:
        try:
            part = self._make()
        except BaseException as error:
            blame(error, self.label, function=self._make)
            raise
        module = getattr(part, "module", part)
        if isinstance(module, Module) and (len(module.shape.inlets), len(module.shape.outlets)) == self.ports:
            return module
        raise BuildError(
            f"{self.what} expects a function that returns a {self.what.removeprefix('Restart')}, it returned "
            f"{type(part).__name__} {shortened(part, 60)}"
        )


class RestartingSource(_Restarting):
    """Emit what a source emits; make it anew when it has failed or completed.

    Emits when: the source does.                  Backpressures when: downstream does; nothing comes while it waits.
    Completes when: restarts are used up and the source completed.   Cancels when: downstream cancels.
    Fails when: restarts are used up, or not wanted, and the source failed.
    """

    shape = SOURCE
    name = "restart_source"
    what = "RestartSource"
    ports = (0, 1)

    # What its marks are like has to be known before it runs: then the first source is made already, and kept for the first start.

    @property
    def emits_marks(self) -> bool:  # type: ignore[override]
        """True when the source inside does."""
        return any(node.stage.emits_marks for node in self._inside())

    @property
    def reads_marks(self) -> bool:  # type: ignore[override]
        """True when the source inside does."""
        return any(node.stage.reads_marks or node.attributes.replay is not None for node in self._inside())

    @property
    def needs(self) -> Needs | None:  # type: ignore[override]
        """What the source inside needs."""
        return next((node.stage.needs for node in self._inside() if node.stage.emits_marks), None)

    def _inside(self) -> list[Node]:
        with self._lock:
            if self._nodes is None:
                try:
                    self._first = module = super()._module()
                    self._nodes = plan_of(module).nodes
                except BuildError:
                    raise
                except BaseException as error:  # noqa: BLE001  # the user's function: it counts as the first start's failure
                    self._first = error
                    self._nodes = []
                sources = [node.label for node in self._nodes if node.stage.emits_marks]
                if len(sources) > 1 and any(node.stage.reads_marks for node in self._nodes):
                    raise BuildError(
                        f"RestartSource can follow the elements of one source, and there are {' and '.join(sources)} inside; "
                        "put a RestartSource around each"
                    )
            return self._nodes

    def _module(self) -> Module:
        with self._lock:
            first, self._first = self._first, None
        if first is None:
            return super()._module()
        if isinstance(first, BaseException):
            raise first
        return first


class RestartingFlow(_Restarting):
    """Send elements through a flow; make it anew when it has failed, completed or cancelled. Elements inside are lost.

    Emits when: the flow does.                    Backpressures when: the flow does, and while it waits.
    Completes when: upstream does and the flow completes, or restarts are used up.   Cancels when: downstream cancels.
    Fails when: restarts are used up, or not wanted, and the flow failed.
    """

    shape = FLOW
    name = "restart_flow"
    what = "RestartFlow"
    ports = (1, 1)
    no_marks = "loses what is inside it at a restart"


class RestartingSink(_Restarting):
    """Send elements to a sink; make it anew when it has failed or cancelled. Elements inside are lost.

    Backpressures when: the sink does, and while it waits.
    Cancels when: restarts are used up, or not wanted, and the sink failed or cancelled.
    """

    shape = SINK
    name = "restart_sink"
    what = "RestartSink"
    ports = (1, 0)
    no_marks = "loses what is inside it at a restart"


class _RestartLogic(Logic):
    """One of the three, by its ports. `_into` and `_from` are the connections of the running inner part."""

    def __init__(self, settings: RestartSettings, make: Callable[[], Module], only_on_failures: bool) -> None:
        self._settings = settings
        self._make = make
        self._only_on_failures = only_on_failures
        self._restarts = 0
        self._began_ms = 0.0
        self._into: Connection | None = None
        self._from: Connection | None = None
        self._finishing = False  # the end has come from outside: no restart any more
        self._waiting = False
        self._cancelled_with: BaseException | None = None
        self._ends: list[Mark] = []

    def bind(self) -> None:
        """Called when the connections are known."""
        self._in = self.inlets[0] if self.inlets else None
        self._out = self.outlets[0] if self.outlets else None

    # ── the inner part ────────────────────────────────────────────────────────────────────────────────────────────

    def on_start(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._waiting = False
        self._ends.clear()
        self._began_ms = self.interpreter.now_ms()
        try:
            module = self._make()
        except BuildError:
            raise  # not a failure of the part: it never is one
        except BaseException as error:  # noqa: BLE001  # the part could not even be made
            self._ended(error)
            return
        inputs, outputs, _ = attach(self, module)
        self._into = inputs[0] if inputs else None
        self._from = outputs[0] if outputs else None
        if self._from is not None and self._out is not None:
            self._from.want(self._out.asked)

    def _ended(self, error: BaseException | None) -> None:
        """The inner part is over: with an error, or because it completed or cancelled."""
        self._let_go(error)
        settings = self._settings
        now = self.interpreter.now_ms()
        if now - self._began_ms > settings.within_ms:
            self._restarts = 0
        enough = settings.max_restarts is not None and self._restarts >= settings.max_restarts
        if error is None:
            if self._finishing or enough or self._only_on_failures:
                for mark in self._ends if self._out is not None else ():
                    self._out.mark(mark)  # type: ignore[union-attr]
                self.complete_stage()
                return
        elif self._finishing or enough or (settings.restart_on is not None and not settings.restart_on(error)):
            self.fail_stage(error)
            return
        delay_ms = settings.delay_ms(self._restarts)
        self._restarts += 1
        self._waiting = True
        log.log(
            logging.DEBUG if error is None else logging.WARNING,
            "%s: %s, restart %d in %.0f ms",
            self.name,
            "ended" if error is None else f"failed with {type(error).__name__}: {error}",
            self._restarts,
            delay_ms,
        )
        self.schedule_once("restart", delay_ms)

    def _let_go(self, error: BaseException | None) -> None:
        """Close what is still open of the inner part, and hear no more of it."""
        self.cancel_timer("cancelled")
        into, self._into = self._into, None
        out_of, self._from = self._from, None
        if out_of is not None and not out_of.in_closed:
            out_of.cancel(NO_MORE_ELEMENTS if error is None else error)
        if into is not None and not into.out_closed:
            if error is None:
                into.complete()
            else:
                into.fail(error)

    def on_timer(self, key: object) -> None:
        if key == "restart":
            self._begin()
        else:
            self._ended(self._cancelled_with)  # nothing has followed the cancellation

    # ── elements ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        if out is self._out:
            if self._from is not None:
                self._from.want(out.asked)
        elif out is self._into and self._in is not None:
            self._in.want(out.asked)

    def on_push(self, in_: Connection) -> None:
        target = self._into if in_ is self._in else self._out
        if target is not None and (in_ is self._in or in_ is self._from):
            chunk = in_.grab(target.asked)
            if chunk:
                target.push(chunk)
            in_.want(target.asked)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if in_ is not self._from or self._out is None:
            return
        if isinstance(mark, EndOfInput):
            self._ends.append(mark)  # true only if there is no restart
        else:
            self._out.mark(mark)

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_complete(self, in_: Connection) -> None:
        if in_ is self._in:
            self._finishing = True
            if self._into is not None:
                self._into.complete()
            else:
                self.complete_stage()
        elif in_ is self._from:
            self._ended(None)

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        if in_ is self._in:
            self._finishing = True
            if self._into is not None:
                self._into.fail(error)
            else:
                self.fail_stage(error)
        elif in_ is self._from:
            self._ended(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if out is self._out:
            self._finishing = True
            self._let_go(None if isinstance(cause, NonFailureCancellation) else cause)
            self.cancel_stage(cause)
        elif out is self._into:
            error = None if isinstance(cause, NonFailureCancellation) else cause
            if self._from is None:
                self._ended(error)
            else:  # what it has emitted comes first, and then its end
                self._cancelled_with = error
                self.schedule_once("cancelled", END_MAY_FOLLOW_MS)

    def fail_stage(self, error: BaseException) -> None:
        self._let_go(error)
        super().fail_stage(error)

    def complete_stage(self) -> None:
        self._let_go(None)
        super().complete_stage()

    def snapshot_state(self) -> str:
        return f"waits for restart {self._restarts}" if self._waiting else f"restarted {self._restarts} times"
