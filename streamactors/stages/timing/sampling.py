"""sample, debounce: few elements of a fast stream, chosen by time.

Both ask upstream for as much as comes, like conflate, and drop on purpose. Marks pass after the element that was emitted last, or at once
when nothing is held."""

from __future__ import annotations

from typing import Any

from streamactors.durations import Duration
from streamactors.engine.island.connection import MAX_ASKED, Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, Mark
from streamactors.engine.stage import In, Stage
from streamactors.stages.bases.emitting import EmittingLogic, keep
from streamactors.stages.checks import span_ms

_NOTHING: Any = object()


class Sample(Stage[In, In]):
    """The stage of `Source.sample`."""

    handling = BLURS_MEMORY

    def __init__(self, interval: Duration) -> None:
        self.span_ms = span_ms("sample", "interval", interval)


class Debounce(Stage[In, In]):
    """The stage of `Source.debounce`."""

    handling = BLURS_MEMORY

    def __init__(self, span: Duration) -> None:
        self.span_ms = span_ms("debounce", "span", span)


class _LatestLogic(EmittingLogic):
    """Keeps the latest element, and emits it when it is due."""

    stage: Any
    _latest: Any = _NOTHING
    _due = False

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self._held: list[Mark] = []

    def on_start(self) -> None:
        self.in_.want(MAX_ASKED)

    def on_pull(self, out: Connection) -> None:
        if self._end is not None:
            super().on_pull(out)
        elif self._due:
            self._emit_latest()

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(MAX_ASKED)
        if chunk:
            self._latest = chunk[-1]
            self.came()
        in_.want(MAX_ASKED)

    def came(self) -> None:
        """Elements have come."""

    def _emit_latest(self) -> None:
        """Emit the latest element if there is demand, else with the next demand."""
        self._due = not self.out.asked
        if self._due or self._latest is _NOTHING:
            return
        latest, self._latest = self._latest, _NOTHING
        self.out.push([latest])
        for mark in self._held:
            self.out.mark(mark)
        self._held.clear()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self._latest is _NOTHING:
            self.out.mark(mark)
        else:
            keep(self._held, mark)

    def on_complete(self, in_: Connection) -> None:
        latest = [] if self._latest is _NOTHING else [self._latest]
        self.emit_and_end(latest, self._held)

    def snapshot_state(self) -> str:
        return "" if self._latest is _NOTHING else "an element waits"


@logic_of(Sample)
class _SampleLogic(_LatestLogic):
    def on_start(self) -> None:
        super().on_start()
        self.schedule_periodically("sample", self.stage.span_ms, self.stage.span_ms)

    def on_timer(self, key: object) -> None:
        if self._latest is not _NOTHING and self._end is None:
            self._emit_latest()


@logic_of(Debounce)
class _DebounceLogic(_LatestLogic):
    """The timer is checked when it fires, so a busy stream sets few timers."""

    _due_ms = 0.0

    def came(self) -> None:
        self._due = False
        self._due_ms = self.interpreter.now_ms() + self.stage.span_ms
        if not self.is_timer_active("silence"):
            self.schedule_once("silence", self.stage.span_ms)

    def on_timer(self, key: object) -> None:
        if self._latest is _NOTHING or self._end is not None:
            return
        left_ms = self._due_ms - self.interpreter.now_ms()
        if left_ms > 0:
            self.schedule_once("silence", left_ms)
        else:
            self._emit_latest()
