"""The watchdog of a system: finds runs in which nothing has moved for a while although elements or demand wait, and says why.

Owner: the caller. It looks on the system's timer thread, four times per `stall_after`, at counters that the connections keep anyway."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Final

from streamactors.durations import Duration, duration_ms
from streamactors.engine.island.run import Run, runs_of
from streamactors.engine.stalls.diagnosis import Cause, Stall, diagnose
from streamactors.errors import BuildError
from streamactors.living import Living

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

_log = logging.getLogger("streamactors.stalls")

LOOKS: Final = 4
"""Looks per `stall_after`."""
WATCHDOGS: Final[Living[Watchdog]] = Living()
"""The watchdogs of this process, for its metrics."""


class Watchdog:
    """Watch the streams of a system until `stop()`, or for the length of a `with` block.

    A stream in which nothing moves for `stall_after` (seconds, a timedelta or a string) is logged once, with its cause and the stage, or for a blocked
    function its Python stack: as a warning, as information if it only waits for its source. Then `on_stall(stall)` is called, on the
    system's timer thread: it must not block. `stalled` has the streams that make no progress now."""

    def __init__(
        self,
        system: ActorSystem,
        stall_after: Duration = "30s",
        on_stall: Callable[[Stall], object] | None = None,
    ) -> None:
        self._after_ms = duration_ms(stall_after, "Watchdog: stall_after")
        if self._after_ms <= 0:
            raise BuildError(f"Watchdog: stall_after must be more than 0, got {stall_after!r}")
        self.system = system
        self.stalled: dict[Run, Stall] = {}
        self.count = 0
        self._on_stall = on_stall
        self._seen: weakref.WeakKeyDictionary[Run, tuple[int, float]] = weakref.WeakKeyDictionary()
        self._stopped = False
        WATCHDOGS.add(self)
        self._hook = system.on_shutdown(self.stop)
        self._arm()

    def _arm(self) -> None:
        self._timer = self.system.timers.call_later(self._after_ms / LOOKS, self._look)

    def stop(self) -> None:
        """End the watch."""
        self._stopped = True
        self._timer.cancel()
        self.stalled = {}
        WATCHDOGS.discard(self)

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._hook is not None:
            self._hook.cancel()

    def _look(self) -> None:
        if self._stopped:
            return
        try:
            self._compare()
        except AttributeError:
            _log.debug("a stream ended while it was looked at", exc_info=True)
        finally:
            self._arm()

    def _compare(self) -> None:
        now_ms = self.system.clock.now_ms()
        runs = set(runs_of(self.system))
        standing = {run: stall for run, stall in self.stalled.items() if run in runs}
        for run in runs:
            moved = sum(_moves(run))
            before = self._seen.get(run)
            if before is None or before[0] != moved:
                self._seen[run] = (moved, now_ms)
                standing.pop(run, None)
            elif run not in standing and now_ms - before[1] >= self._after_ms:
                stall = diagnose(run, now_ms - before[1])
                if stall is not None:
                    standing[run] = stall
                    self._report(stall)
        self.stalled = standing

    def _report(self, stall: Stall) -> None:
        self.count += 1
        level = logging.INFO if stall.cause is Cause.SOURCE else logging.WARNING
        _log.log(level, "nothing has moved for %.0f s: %s", stall.silent_ms / 1000, stall)
        if self._on_stall is not None:
            try:
                self._on_stall(stall)
            except Exception:  # noqa: BLE001  # the user's function; the watch must continue
                _log.exception("on_stall raised")


def _moves(run: Run) -> Iterator[int]:
    """Yield counters that change whenever something moves in a run."""
    interpreters = run.interpreters()
    yield -len(interpreters)
    for interpreter in interpreters:
        yield interpreter.slice_no
        for logic in list(interpreter.logics):
            for inlet in list(logic.inlets):
                yield inlet.elements + inlet.chunks
