"""The turns of a windowed stage's rows: which rows wait for rows of another input, and when the marks behind them pass.

Rows of tasks with several inputs are held in `ordered_inputs` and processed when their turn comes. A position passes when the state has
everything before the positions of all inputs and nothing else, so that a cut at this position contains no later row.

Owner: the stage's island; `revoking` may be called from any thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

from streamactors.engine.marks.marks import Assigned, EndOfInput, Idle, Key, Position, PositionMark, Signal
from streamactors.gauges import Gauge
from streamactors.windows.operators.task_ids import TaskIds
from streamactors.windows.stage.head_time import FAR_AHEAD, MOST_ROWS, NO_LIMIT
from streamactors.windows.stage.ordered_inputs import OrderedInputs
from streamactors.windows.state.changelogs import Provider, TellStands


class OrderedStage(Protocol):
    """The windowed stage as its turns see it."""

    completing: bool

    @property
    def now_ms(self) -> float: ...
    @property
    def may_process(self) -> bool: ...
    @property
    def has_failed(self) -> bool: ...
    @property
    def room(self) -> int: ...
    def process(self, rows: list[Any], /) -> None: ...
    def hand_out(self) -> None: ...
    def drain(self) -> None: ...
    def pass_position(self, mark: PositionMark, /) -> None: ...
    def pass_signal(self, mark: Signal, /) -> None: ...
    def schedule_once(self, key: Hashable, delay_ms: float, /) -> None: ...
    def async_callback(self, handler: Callable[[Any], None], /) -> Any: ...


class Turns:
    """See the module. False while rows are processed in the order of arrival. `passed`: the positions passed last."""

    def __init__(self, stage: OrderedStage, max_task_idle_ms: int | None, ids: TaskIds) -> None:
        self._stage = stage
        self.max_task_idle_ms = max_task_idle_ms
        self._ordered = OrderedInputs(max_task_idle_ms, ids)
        self.gauge = Gauge(
            "windows: rows that wait for another topic",
            unit="rows",
            bounded_by=f"a pause of each input at {FAR_AHEAD} rows, or no wait of a task with {MOST_ROWS}",
        )
        self.providers: Mapping[Any, Provider] = {}
        self.passed: PositionMark = {}
        self._unmarked = False  # rows were processed as they arrived, and their mark has not arrived yet
        self._marked: PositionMark = {}  # positions that wait until all are exact
        self._target: PositionMark | None = None  # where the run stops: only rows before it are processed
        self._held_back: frozenset[Key] = frozenset()
        self.dropped_from: PositionMark = {}
        """The first position of the rows that were held when the stream was stopped; the next run reads them again."""

    def __bool__(self) -> bool:
        return bool(self._ordered or self._marked)

    @property
    def held(self) -> int:
        """Number of rows that wait."""
        return self._ordered.size

    @property
    def waits_for(self) -> list[Key]:
        """The inputs that the held rows wait for."""
        return self._ordered.waits_for()

    def hold(self, rows: list[Any]) -> list[Any]:
        """Hold rows; return those that need not wait."""
        if self._ordered:
            rows = self._ordered.hold(rows)
        self._unmarked = self._unmarked or bool(rows)
        return rows

    # ── whose turn it is ──────────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> None:
        """Process the rows whose turn has come, and pass the marks behind them."""
        stage, ordered = self._stage, self._ordered
        now_ms = stage.now_ms
        while stage.may_process:
            most = stage.room
            rows = self._next(now_ms, most) if most else []
            if rows:
                stage.process(rows)
            elif not most:
                ordered.not_asked()
            self._pass_marks()
            stage.hand_out()
            if not rows:
                break
        self.gauge.reached(ordered.size)
        self._hold_back()
        due_ms = ordered.deadline_ms()
        if due_ms is not None and not stage.completing:
            stage.schedule_once("held", max(1.0, due_ms - now_ms))

    def _next(self, now_ms: float, most: int) -> list[Any]:
        if self._target is not None:
            return self._ordered.take_before(self._target, most, wait=not self._stage.completing)
        rows = self._ordered.take(now_ms, most)
        if not rows and self._stage.completing:
            for (
                key
            ) in self._ordered.keys:  # the stream was stopped: rows keep their order, so the next run reads them again
                if key[0] in self.providers and (place := self._ordered.give_up(key)) is not None:
                    self.dropped_from[key] = place
                    self.providers[key[0]].give_back(key[1], place)
            rows = self._ordered.take(now_ms, most, wait=False)
        return rows

    def stop_at(self, target: PositionMark) -> bool:
        """Process only rows before `target`, in order, until `go_on`: the run stops there. An input that has reached `target` is not waited
        for; the rows that others lack are on their way. False if no row before `target` is held."""
        self._target = target
        return self._ordered.holds_before(target)

    def go_on(self) -> None:
        """The stage has stopped at a mark that is not before the target."""
        self._target = None

    def _hold_back(self) -> None:
        """Have the sources pause inputs of which many rows are held, so that demand serves the inputs that these rows wait for."""
        far_ahead = self._ordered.far_ahead(self._held_back)
        if far_ahead != self._held_back:
            self._held_back = far_ahead
            for source, provider in self.providers.items():
                provider.hold_back(self, frozenset(key[1] for key in far_ahead if key[0] == source))

    def close(self) -> None:
        """The stage has stopped."""
        for provider in self.providers.values():
            provider.forget(self)

    # ── inputs that come and go ───────────────────────────────────────────────────────────────────────────────────

    def assigned(self, signal: Assigned, inputs: frozenset[Key]) -> None:
        """An input joins those of its task (`inputs`, itself among them)."""
        if self._ordered.size and self._ordered.is_second(signal.key, inputs):
            self._stage.process(self._ordered.take_all(signal.key))
            self._pass_marks()
        provider = self.providers.get(signal.key[0])
        self._ordered.assigned(signal, inputs, self.passed, MOST_ROWS if provider is None else NO_LIMIT)
        if self._ordered and provider is not None:
            provider.read_in_order(self)

    def revoking(self, keys: Sequence[Key], tell_stands: TellStands | None) -> None:
        """Inputs are about to be revoked, and the group waits for the commit of their records in flight; any thread.

        Held rows might wait for rows that are not delivered here any more, so they are given back for the next owner to read. Where other
        stages order the same inputs, all must stop at one position first: this stage reports its own by `tell_stands`, and processes only
        rows before the position where all stop."""
        self._stage.async_callback(self._on_revoking).invoke((keys, tell_stands))

    def _on_revoking(self, revoking: tuple[Sequence[Key], TellStands | None]) -> None:
        keys, tell_stands = revoking
        for key in keys:
            self._ordered.leave(key)
            place = self._ordered.give_up(key) if tell_stands is None else None
            if place is not None:
                self.providers[key[0]].give_back(key[1], place)
        if tell_stands is not None and all(key in self._ordered for key in keys):
            tell_stands({key: self._ordered.stand(key) for key in keys})
        self._stage.drain()

    def revoked(self, key: Key, task_gone: bool) -> None:
        """An input was revoked: drop its held rows."""
        self._ordered.revoked(key, task_gone)

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def position(self, mark: PositionMark) -> None:
        """A position passes when the rows before it have gone."""
        self._unmarked = False
        if not self._ordered:
            self._pass(mark)
            return
        for key, place in mark.items():
            if key in self._ordered:
                self._ordered.mark(key, place)
            else:
                self._marked[key] = place

    def signal(self, signal: Signal) -> None:
        """A signal passes when the rows before it have gone. The order learns at once that an input is silent, or at its end."""
        key = signal.key
        if key not in self._ordered:
            self._stage.pass_signal(signal)
            return
        provider = self.providers.get(key[0])
        if isinstance(signal, EndOfInput) or (provider is not None and provider.bounded):
            self._ordered.end(key)  # no row behind the end exists yet, so nothing waits for it
        elif isinstance(signal, Idle):
            self._ordered.silent(key)
        self._ordered.mark(key, signal)

    @property
    def is_exact(self) -> bool:
        """True if the state has everything before the positions of all inputs, and nothing else."""
        if self._unmarked or (self._target is not None and self._ordered.holds_before(self._target)):
            return False
        return not self._ordered or self._ordered.positions() is not None

    def _pass_marks(self) -> None:
        if self._stage.has_failed:
            return  # a row that was taken has not been processed, and the next run must read it again
        signals = self._ordered.pass_marks(self._target or {})
        if self.is_exact:
            at: dict[Key, Position] = self._ordered.positions() or {}
            moved = {key: place for key, place in at.items() if place != self.passed.get(key)} | self._marked
            self._marked = {}
            if moved:
                self._pass(moved)
        for signal in signals:
            self._stage.pass_signal(signal)

    def _pass(self, mark: PositionMark) -> None:
        self.passed.update(mark)
        self._stage.pass_position(mark)
