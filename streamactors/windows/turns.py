"""The turns of a windowed stage's rows: what waits for rows of another input, and the marks behind it.

Owner: the stage's island; `revoking` may be called from any thread. Rows of tasks with several inputs are held in
`ordered_inputs` and processed as their turn comes; a position passes when everything before the positions of all inputs
is in the state and nothing else, so that a cut at them has nothing behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.engine.marks import Assigned, EndOfInput, Idle, Key, Position, PositionMark, Signal
from streamactors.windows.changelogs import Provider, TellStands
from streamactors.windows.head_time import MOST_ROWS, NO_LIMIT
from streamactors.windows.ordered_inputs import OrderedInputs

if TYPE_CHECKING:
    from streamactors.windows.window_logic import WindowLogic


class Turns:
    """See the module. False while rows go as they come. `passed`: the positions passed last."""

    def __init__(self, stage: WindowLogic, max_task_idle_ms: int | None) -> None:
        self._stage = stage
        self._ordered = OrderedInputs(max_task_idle_ms)
        self.providers: Mapping[Any, Provider] = {}
        self.passed: PositionMark = {}
        self._unmarked = False  # rows were taken as they came, and their mark is not here yet
        self._marked: PositionMark = {}  # positions that wait until all are exact
        self._target: PositionMark | None = (
            None  # where the run stops: rows before it go, and no input is waited for that has come there
        )
        self._held_back: frozenset[Key] = frozenset()
        self.dropped_from: PositionMark = {}
        """Where the rows begin that were held when the stream was stopped, and are left to the next run."""

    def __bool__(self) -> bool:
        return bool(self._ordered or self._marked)

    @property
    def held(self) -> int:
        """Rows that wait."""
        return self._ordered.size

    @property
    def waits_for(self) -> list[Key]:
        """The inputs they wait for."""
        return self._ordered.waits_for()

    def hold(self, rows: list[Any]) -> list[Any]:
        """Hold rows; return those that go as they come."""
        if self._ordered:
            rows = self._ordered.hold(rows)
        self._unmarked = self._unmarked or bool(rows)
        return rows

    # ── whose turn it is ──────────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> None:
        """Process the rows whose turn has come, and pass what stood behind them."""
        stage, ordered = self._stage, self._ordered
        now_ms = stage.interpreter.now_ms()
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
        self._hold_back()
        due_ms = ordered.deadline_ms()
        if due_ms is not None and not stage.completing:
            stage.schedule_once("held", max(1.0, due_ms - now_ms))

    def _next(self, now_ms: float, most: int) -> list[Any]:
        if self._target is not None:
            return self._ordered.take_before(self._target, most, wait=not self._stage.completing)
        rows = self._ordered.take(now_ms, most)
        if not rows and self._stage.completing:
            for key in self._ordered.keys:  # a stop is no reason to go out of order: the next run reads them again
                if key[0] in self.providers and (place := self._ordered.give_up(key)) is not None:
                    self.dropped_from[key] = place
                    self.providers[key[0]].give_back(key[1], place)
            rows = self._ordered.take(now_ms, most, wait=False)
        return rows

    def stop_at(self, target: PositionMark) -> bool:
        """Take the rows before `target`, held or still on their way here, and no others, in order: the run stops there, so
        rows of nobody are waited for who stands there. False if none are held. Ends with `go_on`."""
        self._target = target
        return self._ordered.holds_before(target)

    def go_on(self) -> None:
        """The run has met."""
        self._target = None

    def _hold_back(self) -> None:
        """Have the sources give nothing more of inputs that are far ahead, so that those waited for can come."""
        far_ahead = self._ordered.far_ahead(self._held_back)
        if far_ahead != self._held_back:
            self._held_back = far_ahead
            for source, provider in self.providers.items():
                provider.hold_back(self, frozenset(key[1] for key in far_ahead if key[0] == source))

    # ── inputs that come and go ───────────────────────────────────────────────────────────────────────────────────

    def assigned(self, signal: Assigned, inputs: frozenset[Key]) -> None:
        """An input comes to those its task has (`inputs`, itself among them)."""
        if self._ordered.size and self._ordered.is_second(signal.key, inputs):
            self._stage.process(self._ordered.take(0, NO_LIMIT, wait=False))
            self._pass_marks()
        provider = self.providers.get(signal.key[0])
        self._ordered.assigned(signal, inputs, self.passed, MOST_ROWS if provider is None else NO_LIMIT)
        if self._ordered and provider is not None:
            provider.read_in_order(self)

    def revoking(self, keys: Sequence[Key], tell_stands: TellStands | None) -> None:
        """Inputs are about to be taken away, and the group waits for what is in flight of them; any thread.

        What waits for its turn would wait for ever: it is given back, for the next owner to read. Where other computations take
        them in order too, all have to meet first: `tell_stands` hears how far this one is, and nothing is taken but to meet them."""
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
        """An input is gone, and what is held of it."""
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
        """So does silence, or the end of an input; it is known at once that nothing more comes."""
        key = signal.key
        if key not in self._ordered:
            self._stage.pass_signal(signal)
            return
        provider = self.providers.get(key[0])
        if isinstance(signal, EndOfInput) or (provider is not None and provider.bounded):
            self._ordered.end(key)  # nobody waits for rows that it does not have yet
        elif isinstance(signal, Idle):
            self._ordered.silent(key)
        self._ordered.mark(key, signal)

    @property
    def is_exact(self) -> bool:
        """True if everything before the positions of all inputs is in the state, and nothing else."""
        if self._unmarked or (self._target is not None and self._ordered.holds_before(self._target)):
            return False
        return not self._ordered or self._ordered.positions() is not None

    def _pass_marks(self) -> None:
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
