"""What a stage says of itself in a snapshot: what it holds and what it waits for, for whoever looks at a run that stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors import Flow, RestartFlow, RestartSettings, Source
from streamactors.actors.system import ActorSystem
from streamactors.engine.blueprint.modules import Module
from streamactors.engine.snapshot import snapshots
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


def fails_at(failing: int) -> Callable[[int], int]:
    def fn(n: int) -> int:
        if n == failing:
            raise ValueError(n)
        return n

    return fn


HOUR = RestartSettings("1h", "1h")
IN_A_FLOW: dict[str, tuple[Callable[[], Any], str, list[Any], str, str]] = {
    # the flow, the name of its stage, what is sent, and what the stage says before and after
    "prefix_and_tail": (
        lambda: Flow.prefix_and_tail(3),
        "prefix_and_tail",
        [1, 2],
        "0 of 3 elements",
        "2 of 3 elements",
    ),
    "prefix_and_tail, full": (
        lambda: Flow.prefix_and_tail(2).flat_map_concat(lambda pair: Source.never()),
        "prefix_and_tail",
        [1, 2],
        "0 of 2 elements",
        "0 asked for by the reader",
    ),
    "flat_map_prefix": (
        lambda: Flow.flat_map_prefix(3, lambda prefix: Flow.map(str)),
        "flat_map_prefix",
        [1, 2],
        "0 of 3 elements",
        "2 of 3 elements",
    ),
    "flat_map_prefix, begun": (
        lambda: Flow.flat_map_prefix(2, lambda prefix: Flow.map(str)),
        "flat_map_prefix",
        [1, 2, 3],
        "0 of 2 elements",
        "runs its inner part",
    ),
    "grouped_weighted": (
        lambda: Flow.grouped_weighted(9, lambda n: n),
        "grouped_weighted",
        [1, 2],
        "0 elements",
        "2 elements",
    ),
    "initial_delay": (
        lambda: Flow.initial_delay("1h"),
        "initial_delay",
        [1],
        "waits for its delay to be over",
        "waits for its delay to be over",
    ),
    "recover_with": (
        lambda: Flow.map(fails_at(2)).recover_with(lambda error: Source.never()),
        "recover_with",
        [1, 2],
        "",
        "1 failures handled",
    ),
    "group_by": (
        lambda: Flow.group_by(lambda n: n % 3, 5).map(str).merge_substreams(),
        "group_by",
        [1, 2, 3, 4],
        "0 substreams, 0 elements pending, 0 without demand",
        "3 substreams, 0 elements pending, 0 without demand",
    ),
    "retry": (lambda: Flow.map(fails_at(2)).retry(3, "1h"), "retry", [1, 2], "", "attempt 2"),
    "restart": (
        lambda: RestartFlow.with_backoff(HOUR, lambda: Flow.map(fails_at(2))),
        "restart_flow",
        [1, 2],
        "restarted 0 times",
        "waits for restart 1",
    ),
}


@pytest.mark.expects_log("restart_flow: failed")
@pytest.mark.parametrize("flow", IN_A_FLOW)
def test_a_stage_of_a_flow_says_what_it_holds(timeless: ActorSystem, flow: str) -> None:
    make, name, elements, before, after = IN_A_FLOW[flow]
    module: Module = make().module
    with Bench(timeless, module) as bench:
        assert snapshots(timeless)[0].stage(name).state == before
        bench.request(9)
        bench.send(*elements)
        assert snapshots(timeless)[0].stage(name).state == after


def test_a_delay_that_is_over_is_not_told(timeless: ActorSystem) -> None:
    with Bench(timeless, Flow.initial_delay("1h").module) as bench:
        bench.advance("1h")
        assert snapshots(timeless)[0].stage("initial_delay").state == ""


@pytest.mark.expects_log("restart_flow: failed")
def test_a_restarted_flow_says_how_often(timeless: ActorSystem) -> None:
    with Bench(timeless, RestartFlow.with_backoff(HOUR, lambda: Flow.map(fails_at(2))).module) as bench:
        bench.request(9)
        bench.send(2)
        bench.advance("2h")
        assert snapshots(timeless)[0].stage("restart_flow").state == "restarted 1 times"
