"""What a stage says of itself in a snapshot: what it holds and what it waits for, for whoever looks at a run that stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors import Source
from streamactors.actors.system import ActorSystem
from streamactors.engine.stage import GraphStage
from streamactors.stages.fold.grouped_within import GroupedWithin
from streamactors.stages.fold.grouping import Grouped
from streamactors.stages.framing.delimiter import FramesByDelimiter
from streamactors.stages.framing.json_objects import FramesOfJson
from streamactors.stages.framing.length_field import FramesByLength
from streamactors.stages.limit.counting import Drop, Limit, Take
from streamactors.stages.limit.distinct import Distinct
from streamactors.stages.rate.conflate import Batch
from streamactors.stages.rate.extrapolating import Expand
from streamactors.stages.rate.throttle import Throttle
from streamactors.stages.substreams.flat_map import FlatMapMerge
from streamactors.stages.substreams.switch_map import SwitchMap
from streamactors.stages.timing.sampling import Debounce
from streamactors.stages.transform.expanding import MapConcat
from tests.stages.harness import Bench

SAYS: dict[str, tuple[Callable[[], GraphStage], int, list[Any], str, str]] = {
    # the stage, the demand, what is sent, and what the stage says before and after
    "take": (lambda: Take(5), 9, [1, 2], "5 to go", "3 to go"),
    "drop": (lambda: Drop(3), 9, [1], "3 to drop", "2 to drop"),
    "drop, all of them": (lambda: Drop(1), 9, [1, 2], "1 to drop", ""),
    "limit": (lambda: Limit(5), 9, [1, 2], "5 to go", "3 to go"),
    "distinct": (lambda: Distinct(), 9, [1, 2, 1], "0 keys known", "2 keys known"),
    "grouped": (lambda: Grouped(4), 9, [1, 2, 3], "0 of 4 elements", "3 of 4 elements"),
    "grouped_within": (lambda: GroupedWithin(4, "1h"), 9, [1, 2], "0 of 4 elements", "2 of 4 elements"),
    "map_concat": (lambda: MapConcat(lambda x: [x] * 3), 2, [7], "", "emits an iterable"),
    "frames_by_delimiter": (
        lambda: FramesByDelimiter(b"\n", 100),
        9,
        [b"one\ntw"],
        "",
        "2 bytes of an unfinished frame",
    ),
    "frames_by_length": (lambda: FramesByLength(1, 100), 9, [b"\x03ab"], "", "3 bytes of an unfinished frame"),
    "frames_of_json": (lambda: FramesOfJson(100), 9, [b'{"a": 1} {"b"'], "", "4 bytes of an unfinished object"),
    "batch": (lambda: Batch(9, lambda x: [x], lambda xs, x: [*xs, x]), 0, [1, 2], "", "a result waits for demand"),
    "expand": (
        lambda: Expand(lambda x: iter([x, x, x])),
        2,
        [1],
        "",
        "makes up results while upstream is silent",
    ),
    "throttle": (lambda: Throttle(1, "1s", burst=1), 9, [1, 2], "", "waits for tokens"),
    "debounce": (lambda: Debounce("1s"), 9, [1, 2], "", "an element waits"),
    "flat_map_merge": (
        lambda: FlatMapMerge(3, lambda x: Source.never()),
        9,
        [1, 2],
        "0 of 3 inner sources",
        "2 of 3 inner sources",
    ),
    "switch_map": (lambda: SwitchMap(lambda x: Source.never()), 9, [1], "waits for an element", "runs a source"),
}


@pytest.mark.parametrize("stage", SAYS)
def test_a_stage_says_what_it_holds(timeless: ActorSystem, stage: str) -> None:
    make, demand, elements, before, after = SAYS[stage]
    with Bench(timeless, make()) as bench:
        assert bench.logic.snapshot_state() == before
        bench.request(demand)
        bench.send(*elements)
        assert bench.logic.snapshot_state() == after
