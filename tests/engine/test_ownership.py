"""Owned sources: they begin where the owner of their positions says, and not before."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from streamactors import ActorSystem, Source
from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EndOfInput, Mark, Needs
from streamactors.engine.marks.ownership import SourceHandle, own
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import SINK, GraphStage
from streamactors.engine.stage_traits import StageTraits


class Owner(SinkLogic):
    """Collects elements and positions; tells the source where to begin when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []
        self.handle: SourceHandle | None = None
        self.claimed = threading.Event()

    def bind(self) -> None:
        super().bind()
        own(self.interpreter.island.run, self.in_.carries, self)

    def claim(self, source: Any, handle: SourceHandle) -> None:
        self.handle = handle
        self.claimed.set()

    def on_chunk(self, chunk: list[Any]) -> None:
        self.seen += chunk

    def on_mark(self, in_: Any, mark: Mark) -> None:
        if isinstance(mark, dict):
            ((_, position),) = mark.values()
            self.seen.append(f"mark {position}")
        elif isinstance(mark, EndOfInput):
            self.seen.append("end of input")

    def result(self) -> list[Any]:
        return self.seen


class OwnerStage(GraphStage):
    shape = SINK
    traits = StageTraits(reads_marks=True, needs=Needs("the owner", replays=True), owns_positions="the test")

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = Owner()
        return logic, logic


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("start", "until", "first", "marks"),
    [({}, None, 0, []), ({"0": 7}, None, 7, []), ({"0": 2}, {"0": 5}, 2, ["mark 5"]), ({"0": 99}, None, 99, [])],
)
def test_a_source_begins_where_its_owner_says_with_marks_at_the_ends_it_names(
    actor_system: ActorSystem, fused: bool, start: dict[str, int], until: Any, first: int, marks: list[str]
) -> None:
    from streamactors import Keep, Sink

    source: Source[int, Any] = Source.range(0, 10)
    if fused:
        source = source.map(lambda n: n + 0)
    owner = source.to_mat(Sink.from_stage(OwnerStage()), Keep.right).run(actor_system)
    assert owner.claimed.wait(30)
    assert owner.seen == []
    assert owner.handle.initial() == {"0": 0}
    assert (owner.handle.bounded, owner.handle.label, owner.handle.ends()) == (True, "range", {})
    owner.handle.begin(start, until, skip_lost=False)
    seen = owner.future.result(30)
    assert [element for element in seen if isinstance(element, int)] == list(range(first, 10))
    for mark in marks:
        at = seen.index(mark)
        assert seen[at - 1] == until["0"] - 1
        assert seen[at + 1] == until["0"]
    assert seen[-1] == "end of input"
