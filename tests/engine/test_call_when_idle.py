"""`call_when_idle`: the handler runs once, behind everything else that the island can do, and may end its stage."""

from __future__ import annotations

import threading
from typing import Any

from streamactors import Sink, Source
from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.stage import SINK, GraphStage
from streamactors.testing import TestSource
from tests.actors.eventually import eventually


class LastWords(GraphStage):
    """A sink that stays when its input has ended, and ends when the island is idle. `seen`: what it did."""

    shape = SINK

    def __init__(self, *, raises: bool = False) -> None:
        self.seen: list[str] = []
        self.raises = raises
        self.stopped = threading.Event()

    def create(self, attributes: Attributes) -> tuple[Logic, None]:
        return LastWordsLogic(self), None


class LastWordsLogic(Logic):
    keep_going = True

    def __init__(self, stage: LastWords) -> None:
        self.stage = stage
        self.seen = stage.seen

    def on_start(self) -> None:
        self.inlets[0].want(1)

    def on_push(self, in_: Connection) -> None:
        for element in in_.grab(1):
            self.seen.append(f"got {element}")
            self.call_when_idle(lambda element=element: self.seen.append(f"idle behind {element}"))  # type: ignore[misc]
        in_.want(1)

    def on_complete(self, in_: Connection) -> None:
        self.seen.append("upstream finished")
        self.call_when_idle(self._end)

    def _end(self) -> None:
        self.seen.append("idle at the end")
        self.call_when_idle(lambda: self.seen.append("a stage that has stopped was called"))
        if self.stage.raises:
            raise ValueError("raised when idle")
        self.complete_stage()

    def on_stop(self) -> None:
        self.seen.append("stopped")
        self.stage.stopped.set()


def test_a_handler_waits_for_every_event_of_the_island_and_its_stage_ends_there(actor_system: Any) -> None:
    """No event comes behind the handler. The stage must be stopped all the same, or the run never ends."""
    sink = LastWords()
    Source.range(0, 3).to(Sink.from_stage(sink)).run(actor_system)
    assert sink.stopped.wait(30)
    assert sink.seen == [
        *("got 0", "got 1", "got 2", "upstream finished"),
        *("idle behind 0", "idle behind 1", "idle behind 2", "idle at the end", "stopped"),
    ]


def test_a_handler_that_raises_fails_its_stage(actor_system: Any) -> None:
    sink = LastWords(raises=True)
    Source.range(0, 1).to(Sink.from_stage(sink)).run(actor_system)
    assert sink.stopped.wait(30)
    assert sink.seen[-2:] == ["idle at the end", "stopped"]


def test_an_island_that_waits_for_its_source_is_idle(actor_system: Any) -> None:
    sink = LastWords()
    probe: Any = TestSource.probe().to(Sink.from_stage(sink)).run(actor_system)
    probe.send_next("a")
    eventually(lambda: "idle behind a" in sink.seen, 30)
    probe.send_next("b")
    eventually(lambda: "idle behind b" in sink.seen, 30)
    probe.send_complete()
    assert sink.stopped.wait(30)
    assert sink.seen.index("idle behind a") < sink.seen.index("got b")
