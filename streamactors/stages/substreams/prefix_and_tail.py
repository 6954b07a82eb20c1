"""prefix_and_tail: the first elements of a stream as a list, and the rest as a source, which runs wherever the user runs it.

The rest goes through a ChunkReader, as from any stream that is read in another run. The reader's demand begins when the source starts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from streamactors.engine.blueprint.modules import Module, StageModule
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.marks.marks import OPAQUE, Mark
from streamactors.engine.stage import In, Stage
from streamactors.errors import StreamTimeout
from streamactors.stages.bases.pull import ChunkReader, PullLogic
from streamactors.stages.checks import at_least
from streamactors.stages.sources.hand_over import HandOver
from streamactors.stages.sources.simple import Empty

START_WITHIN_MS: Final = 5_000.0
"""How long the rest of the stream waits for its source to be run."""


class PrefixAndTail(Stage[In, tuple[list[In], Any]]):
    """The stage of `Source.prefix_and_tail`."""

    handling = OPAQUE  # the tail is a source of its own, which the user may run in another run

    def __init__(self, n: int, source: Callable[[Module], Any]) -> None:
        self.n = at_least("prefix_and_tail", "n", n, 0)
        self.source = source


class _Tail(HandOver):
    """The rest of the stream. Cancelled if it is not started in time."""

    name = "tail"

    def __init__(self, reader: ChunkReader[Any], begin: Callable[[], None]) -> None:
        super().__init__(reader)
        self._begin = begin
        self._guard = threading.Lock()
        self._started = self._late = False

    def logic(self) -> Logic:
        with self._guard:
            if self._late:
                raise StreamTimeout(
                    "prefix_and_tail: the source of the rest was not started within 5 s, so the stream was cancelled; "
                    "run it at once, for example in flat_map_concat"
                )
            self._started = True
        logic = super().logic()
        self._begin()
        return logic

    def give_up(self) -> bool:
        """Refuse to start from now on; False when it has started."""
        with self._guard:
            self._late = not self._started
            return self._late


@logic_of(PrefixAndTail)
class _PrefixLogic(PullLogic):
    """A PullLogic, once the pair has been emitted."""

    passes_marks = False

    def __init__(self, stage: PrefixAndTail[Any]) -> None:
        super().__init__(ChunkReader(None, "prefix_and_tail"))
        self.stage = stage
        self._window, self._credit = self._credit, 0
        self._prefix: list[Any] = []
        self._tail: _Tail | None = None
        self._upstream_done = False
        self._begin = self.async_callback(self._begun)

    def on_start(self) -> None:
        self._collect()

    def on_pull(self, out: Connection) -> None:
        self._collect()

    def _collect(self) -> None:
        out = self.outlets[0]
        if self._tail is not None or not out.asked:
            return
        missing = self.stage.n - len(self._prefix)
        if missing and not self._upstream_done:
            self.inlets[0].want(missing)
            return
        self._tail = tail = _Tail(self._reader, lambda: self._begin.invoke(None))
        rest = StageModule(Empty()) if self._upstream_done else StageModule(tail)
        out.push([(self._prefix, self.stage.source(rest))])
        if self._upstream_done:
            self.complete_stage()
        else:
            self.schedule_once("start", START_WITHIN_MS)
            out.complete()

    def on_timer(self, key: object) -> None:
        assert self._tail is not None
        if self._tail.give_up():
            self._ended = True
            self.complete_stage()

    def _begun(self, _: None) -> None:
        self.cancel_timer("start")
        self._granted(self._window)

    def on_push(self, in_: Connection) -> None:
        if self._tail is not None:
            super().on_push(in_)
        else:
            self._prefix += in_.grab(self.stage.n - len(self._prefix))
            self._collect()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        """Marks stop here."""

    def on_complete(self, in_: Connection) -> None:
        if self._tail is not None:
            super().on_complete(in_)
        else:
            self._upstream_done = True
            self._collect()

    def snapshot_state(self) -> str:
        if self._tail is None:
            return f"{len(self._prefix)} of {self.stage.n} elements"
        return super().snapshot_state()
