"""How a producer's stage raises its demand while acknowledgements come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.engine.attributes import Attributes
from streamactors.kafka import ProducerSettings
from streamactors.kafka.writing.producer_stage import ProducerStage


class Inlet:
    """The connection from upstream: counts how often its demand is raised."""

    def __init__(self) -> None:
        self.due = 0
        self.raised: list[int] = []

    def want(self, n: int) -> None:
        if n > self.due:
            self.raised.append(n)
            self.due = n


def stage_with(parallelism: int) -> tuple[Any, Inlet]:
    settings = ProducerSettings("localhost:1", parallelism=parallelism)
    stage: Any
    stage, _ = ProducerStage("sink", settings, None, envelopes=False, results=False).create(Attributes())
    inlet = Inlet()
    stage.in_, stage.out = inlet, SimpleNamespace(asked=0)
    stage._ready = True
    return stage, inlet


@pytest.mark.parametrize(("parallelism", "steps"), [(1, [1]), (3, [1, 2, 3]), (100, [25, 50, 75, 100])])
def test_acknowledgements_one_by_one_raise_the_demand_in_quarters(parallelism: int, steps: list[int]) -> None:
    # Each acknowledgement was a demand of one element. It became a chunk of one record at the source, and each chunk costs as much as a hundred records.
    stage, inlet = stage_with(parallelism)
    stage._inside = parallelism
    for left in reversed(range(parallelism)):
        stage._inside = left
        stage._move_on()
    assert inlet.raised == steps


def test_elements_that_are_ready_are_taken_as_soon_as_there_is_room() -> None:
    stage, inlet = stage_with(100)
    stage._inside, inlet.due = 99, 50  # 50 elements are asked for or in the queue
    wanted: list[int] = []
    inlet.want = wanted.append  # type: ignore[method-assign]
    stage._move_on()
    assert wanted == [1]
