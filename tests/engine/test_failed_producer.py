"""What a stage gets whose upstream has failed: the elements that it has asked for, and then the error."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from streamactors import Sink, Source
from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.stage import SINK, SOURCE, GraphStage


class PushThenFail(GraphStage):
    """Pushes three elements at the first demand, and fails: at once, or when the sink has been called."""

    shape = SOURCE

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once

    def create(self, attributes: Attributes) -> tuple[Logic, None]:
        return PushThenFailLogic(self), None


class PushThenFailLogic(Logic):
    def __init__(self, stage: PushThenFail) -> None:
        self.stage = stage

    def on_pull(self, out: Connection) -> None:
        out.push(["a", "b", "c"])
        if self.stage.at_once:
            self._fail()
        else:
            self.call_when_idle(self._fail)

    def _fail(self) -> None:
        self.fail_stage(ValueError("it failed"))


class Takes(GraphStage):
    """Asks for three elements at once and takes one. It asks for a further one as often as `again` says."""

    shape = SINK

    def __init__(self, again: int) -> None:
        self.again = again
        self.seen: list[str] = []
        self.stopped = threading.Event()

    def create(self, attributes: Attributes) -> tuple[Logic, None]:
        return TakesLogic(self), None


class TakesLogic(Logic):
    def __init__(self, stage: Takes) -> None:
        self.stage = stage

    def on_start(self) -> None:
        self.inlets[0].want(3)

    def on_push(self, in_: Connection) -> None:
        self.stage.seen += in_.grab(1)
        if self.stage.again:
            self.stage.again -= 1
            in_.want(1)

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self.stage.seen.append(str(error))
        super().on_fail(in_, error)

    def on_stop(self) -> None:
        self.stage.stopped.set()


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("again", [0, 1, 2])
def test_a_stage_gets_no_more_than_it_has_asked_for_before_the_error(
    again: int, at_once: bool, actor_system: Any
) -> None:
    sink = Takes(again)
    Source.from_stage(PushThenFail(at_once=at_once)).to(Sink.from_stage(sink)).run(actor_system)
    assert sink.stopped.wait(30)
    assert sink.seen == [*["a", "b", "c"][: again + 1], "it failed"]
