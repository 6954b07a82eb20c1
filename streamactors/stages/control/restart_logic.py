"""RestartLogic: runs an inner source, flow or sink inside a stage, and starts another when it has ended.

What the inner part has not taken when it ends waits for the next one, so the size of the chunks does not decide what is lost. Upstream's
end waits after it: a part that ends early is made again as long as elements are left.

Owner: the stage, in whose island the inner part runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from streamactors.engine.blueprint.modules import Module
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.marks.marks import EndOfInput, Mark
from streamactors.engine.materializing.materializer import attach
from streamactors.errors import BuildError
from streamactors.log_limit import alike, log_limited
from streamactors.stages.bases.inner import AroundInner
from streamactors.stages.restart_settings import NoMoreRestarts, RestartSettings

log = logging.getLogger("streamactors.stages.restart")

END_MAY_FOLLOW_MS = 50.0
"""How long the stage waits for the completion or failure of a flow that has cancelled its upstream."""


class RestartLogic(AroundInner):
    """The logic of the three stages; their ports tell them apart. `_into` and `_from` are the connections of the running inner part."""

    gives_left = True
    """True: the next part gets what the last one has not taken."""

    def __init__(self, settings: RestartSettings, make: Callable[[], Module], only_on_failures: bool) -> None:
        self._settings = settings
        self._make = make
        self._only_on_failures = only_on_failures
        self._restarts = 0  # in a row
        self.restarted = 0  # since the start
        self._began_ms = 0.0
        self._given = False  # the running part has got an element
        self._worked = False  # it has emitted an element or a mark; a sink: it has asked again after its first elements
        self._finishing = False  # upstream has failed or downstream has ended: no restart any more
        self._upstream_over = False
        self._left: list[Any] = []  # what the part that ended last has not taken
        self._waiting = False
        self._cancelled_with: BaseException | None = None
        self._ends: list[Mark] = []

    def bind(self) -> None:
        """Called when the connections are known."""
        self._in = self.inlets[0] if self.inlets else None
        self._out = self.outlets[0] if self.outlets else None

    # ── the inner part ────────────────────────────────────────────────────────────────────────────────────────────

    def on_start(self) -> None:
        self.keep_going = self._out is None  # what a sink leaves is known after its inlet has completed
        self._begin()

    def _begin(self) -> None:
        self._waiting = False
        self._ends.clear()
        self._given = self._worked = False
        self._began_ms = self.interpreter.now_ms()
        try:
            module = self._make()
        except BuildError:
            raise  # a mistake in the graph, which no restart would repair
        except NoMoreRestarts:
            self._finishing = True
            self._ended(None)
            return
        except BaseException as error:  # noqa: BLE001  # the user's function raised
            self._ended(error)
            return
        inputs, outputs = self.run_inside(module)
        self._into = inputs[0] if inputs else None
        self._from = outputs[0] if outputs else None
        if self._into is not None and self.gives_left:
            self._into.keep_left()
        if self._from is not None and self._out is not None:
            self._from.want(self._out.asked)

    def run_inside(self, module: Module) -> tuple[list[Connection], list[Connection]]:
        """Start the inner part; return the connections into it and out of it."""
        inputs, outputs, _ = attach(self, module)
        return inputs, outputs

    def _ended(self, error: BaseException | None) -> None:
        """The inner part has ended: it failed with `error`, or it completed or cancelled."""
        self._let_go(error)
        settings = self._settings
        if self._ran_well(error):
            self._restarts = 0
        finishing = self._finishing or self._is_over()
        enough = settings.max_restarts is not None and self._restarts >= settings.max_restarts
        if error is None:
            if finishing or enough or self._only_on_failures:
                for mark in self._ends if self._out is not None else ():
                    self._out.mark(mark)  # type: ignore[union-attr]
                self.complete_stage()
                return
        elif finishing or enough or (settings.restart_on is not None and not settings.restart_on(error)):
            self.fail_stage(error)
            return
        delay_ms = settings.delay_ms(self._restarts)
        self._restarts += 1
        self.restarted += 1
        self._waiting = True
        log_limited(
            log,
            logging.DEBUG if error is None else logging.WARNING,
            (self.name, alike(error)),
            "%s: %s, restart %d%s in %.0f ms",
            self.name,
            "ended" if error is None else f"failed with {type(error).__name__}: {error}",
            self._restarts,
            "" if settings.max_restarts is None else f" of at most {settings.max_restarts} in a row",
            delay_ms,
        )
        self.schedule_once("restart", delay_ms)

    def _ran_well(self, error: BaseException | None) -> bool:
        """Whether the part that has ended resets the count: it ran longer than the window, and not in vain.

        An attempt to connect may take longer than the window. So a part that has done nothing yet must have run longer than the longest
        back-off, too, and an error from before its start never resets."""
        if getattr(error, "at_start", False):
            return False
        window_ms = self._settings.within_ms
        if not self._worked:
            window_ms = max(window_ms, self._settings.longest_ms)
        return self.interpreter.now_ms() - self._began_ms > window_ms

    def _is_over(self) -> bool:
        """True when a further part would get no element."""
        return self._upstream_over and not self._left

    def _let_go(self, error: BaseException | None) -> None:
        """Close the connections of the inner part."""
        self.cancel_timer("cancelled")
        super()._let_go(error)
        into, self._into, self._from = self._into, None, None
        if into is not None:
            self._left[:0] = [element for chunk in into.take_back() if type(chunk) is list for element in chunk]

    def on_timer(self, key: object) -> None:
        if key == "restart":
            self._begin()
        else:
            self._ended(self._cancelled_with)  # neither completion nor failure has followed the cancellation

    # ── elements ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        if out is self._out:
            if self._from is not None:
                self._from.want(out.asked)
        elif out is self._into and self._in is not None:
            self._worked = self._worked or (self._given and self._from is None)
            self._give_left(out)
            self._in.want(out.asked)

    def _give_left(self, into: Connection) -> None:
        """Push what the last part has left, as far as there is demand, and then the end of upstream."""
        n = into.asked
        if self._left and n:
            self._given = True
            into.push(self._left[:n])
            del self._left[:n]
        if self._is_over():
            into.complete()

    def on_push(self, in_: Connection) -> None:
        if in_ is self._in and self._left:
            return  # shown again when the part asks for more than what is left
        target = self._into if in_ is self._in else self._out
        if target is not None and (in_ is self._in or in_ is self._from):
            chunk = in_.grab(target.asked)
            if chunk:
                self._given = True
                self._worked = self._worked or in_ is self._from
                target.push(chunk)
            in_.want(target.asked)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if in_ is not self._from or self._out is None:
            return
        self._worked = True
        if isinstance(mark, EndOfInput):
            self._ends.append(mark)  # emitted only if there is no restart
        else:
            self._out.mark(mark)

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_complete(self, in_: Connection) -> None:
        if in_ is self._in:
            self._upstream_over = True
            if self._left:
                return  # for the part that runs or comes
            if self._into is not None:
                self._into.complete()
            else:
                self.complete_stage()
        elif in_ is self._from:
            self._ended(None)

    def on_taken(self, out: Connection) -> None:
        if out is self._into and self._from is None:
            self.complete_stage()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        if in_ is self._in:
            self._finishing = True
            if self._into is None:
                self.fail_stage(error)
                return
            if self.gives_left:
                self.keep_going = False
            self._into.fail(error)
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
            else:  # wait for the elements and the end of the flow
                self._cancelled_with = error
                self.schedule_once("cancelled", END_MAY_FOLLOW_MS)

    def snapshot_state(self) -> str:
        return f"waits for restart {self._restarts}" if self._waiting else f"restarted {self._restarts} times"
