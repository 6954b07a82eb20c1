"""Who holds whom back, from shares of time alone: laws on made-up graphs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamactors.dashboard.culprit import StageTime, causes, culprits

Edges = list[tuple[int, int]]


def chain(n: int) -> Edges:
    return [(i, i + 1) for i in range(n - 1)]


def waits(id_: int, demand: float, elements: float, works: float = 0.0, **more: object) -> StageTime:
    return StageTime(id_, f"stage{id_}", works, demand, elements, active=works, **more)  # type: ignore[arg-type]


@st.composite
def chains_with_one_slow_stage(draw: st.DrawFn) -> tuple[list[StageTime], int]:
    n = draw(st.integers(2, 40))
    slow = draw(st.integers(0, n - 1))
    share = draw(st.floats(0.55, 1.0))
    noise = st.floats(0.0, 1 - share).map(lambda x: x * 0.5)
    stages = []
    for i in range(n):
        if i == slow:
            rest = draw(noise)
            stages.append(waits(i, rest, 0.0, share, is_sink=i == n - 1))
        else:
            works = draw(noise)
            waiting = 1 - works
            stages.append(
                waits(i, waiting, 0.0, works) if i < slow else waits(i, 0.0, waiting, works, is_sink=i == n - 1)
            )
    return stages, slow


@given(chains_with_one_slow_stage())
def test_of_a_chain_with_one_slow_stage_the_slow_stage_is_the_culprit_and_no_victim_is(
    given_: tuple[list[StageTime], int],
) -> None:
    stages, slow = given_
    found = causes(stages, chain(len(stages)))
    assert [cause.stage for cause in found] == [slow]
    assert culprits(found, stages) == {slow}
    assert found[0].cause == ("sink" if slow == len(stages) - 1 else "works")
    upstream, downstream = slow, len(stages) - 1 - slow
    text = found[0].sentence
    assert text.startswith(f"stage{slow} works ")
    assert (f"{upstream} stage{'s' if upstream > 1 else ''} upstream" in text) == bool(upstream)
    stages_ = "" if upstream else " stage" if downstream == 1 else " stages"
    assert (f"{downstream}{stages_} downstream" in text) == bool(downstream)


@given(chains_with_one_slow_stage(), st.randoms())
def test_the_order_in_which_stages_are_read_changes_nothing(
    given_: tuple[list[StageTime], int], random: object
) -> None:
    stages, _ = given_
    shuffled = list(stages)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert causes(shuffled, chain(len(stages))) == causes(stages, chain(len(stages)))


def test_two_busy_neighbours_are_no_cycle_and_neither_is_marked() -> None:
    # Each waits for the other in turn, since one thread runs both.
    stages = [waits(0, 0.55, 0.0, 0.45), waits(1, 0.0, 0.57, 0.43, is_sink=True)]
    found = causes(stages, chain(2))
    assert [cause.cause for cause in found] in ([], ["works"])
    assert culprits(found, stages) == set()


def test_a_sink_that_takes_nothing_holds_elements_for_effects_outside() -> None:
    stages = [waits(0, 1.0, 0.0), waits(1, 1.0, 0.0), StageTime(2, "write", 0.97, 0.0, 0.03, 0.01, is_sink=True)]
    (cause,) = causes(stages, chain(3))
    assert (cause.stage, cause.cause) == (2, "sink")
    assert "write holds elements 97%" in cause.sentence


def test_a_stage_whose_calls_are_outside_and_that_keeps_up_is_no_cause() -> None:
    # Spark's sink has always a batch outside; while nobody waits for its demand it holds nothing back.
    stages = [waits(0, 0.0, 1.0), waits(1, 0.0, 1.0), StageTime(2, "spark", 1.0, 0.0, 0.0, 0.0, is_sink=True)]
    assert [cause.cause for cause in causes(stages, chain(3))] == ["source"]


def test_stages_that_wait_for_their_turn_wait_for_the_stage_whose_code_runs() -> None:
    # A sink that works on the island of map_async was not named: map_async seemed to hold elements, its calls had returned long ago.
    busy = StageTime(2, "store", 0.95, 0.0, 0.0, 0.95, is_sink=True, island=7)
    held = StageTime(1, "look up", 0.02, 0.0, 0.08, 0.0, waits_for_turn=0.9, island=7)
    stages = [waits(0, 1.0, 0.0), held, busy]
    (cause,) = causes(stages, chain(3))
    assert (cause.stage, cause.cause) == (2, "sink")
    assert "1 stage upstream waits for its demand" in cause.sentence
    assert "1 stage of the same island waits for its turn" in cause.sentence


def test_a_stage_that_slows_the_stream_on_purpose_is_a_limit_and_not_marked() -> None:
    limit = StageTime(1, "throttle", 0.97, 0.0, 0.03, 0.01, limit="lets 100 elements a second pass")
    stages = [waits(0, 1.0, 0.0), limit, waits(2, 0.0, 1.0, is_sink=True)]
    (cause,) = causes(stages, chain(3))
    assert (cause.stage, cause.cause) == (1, "limit")
    assert "lets 100 elements a second pass, as it was told to" in cause.sentence
    assert culprits([cause], stages) == set()


def test_what_the_elements_wait_for_outside_is_said() -> None:
    write = StageTime(
        1, "write", 0.97, 0.0, 0.03, 0.01, is_sink=True, outside="until the broker acknowledges its records"
    )
    (cause,) = causes([waits(0, 1.0, 0.0), write], chain(2))
    assert "write holds elements 97% of the time, until the broker acknowledges its records" in cause.sentence


def test_a_source_without_elements_is_named_but_not_marked() -> None:
    stages = [waits(i, 0.0, 1.0) for i in range(4)]
    (cause,) = causes(stages, chain(4))
    assert (cause.stage, cause.cause) == (0, "source")
    assert culprits([cause], stages) == set()


def test_partitions_that_the_user_has_paused_are_the_cause() -> None:
    stages = [waits(0, 0.0, 1.0, paused=("flights-0",)), waits(1, 0.0, 1.0), waits(2, 0.0, 1.0, is_sink=True)]
    (cause,) = causes(stages, chain(3))
    assert cause.cause == "paused"
    assert "flights-0" in cause.sentence
    assert culprits([cause], stages) == {0}


def test_a_cycle_of_stages_that_wait_for_each_other_is_found() -> None:
    # broadcast has no demand on one branch; zip has no elements on the other
    stages = [waits(0, 1.0, 0.0), waits(1, 1.0, 0.0), waits(2, 0.0, 1.0), waits(3, 0.0, 1.0), waits(4, 0.0, 1.0)]
    found = causes(stages, [(0, 1), (1, 2), (1, 3), (2, 3), (3, 4)])
    assert [cause.cause for cause in found] == ["cycle"]
    assert "wait for each other" in found[0].sentence


def test_two_ends_of_one_connection_that_wait_for_each_other_are_no_cycle() -> None:
    # Elements are on their way into another process: no demand at one end yet, no elements at the other. The stage that works is the cause.
    stages = [waits(0, 1.0, 0.0), waits(1, 0.0, 1.0), waits(2, 0.0, 0.0, 0.97), waits(3, 0.0, 0.9, 0.02, is_sink=True)]
    assert [(cause.cause, cause.stage) for cause in causes(stages, chain(4))] == [("works", 2)]
    twice = [waits(0, 1.0, 0.0), waits(1, 0.0, 1.0)]
    assert [cause.cause for cause in causes(twice, [(0, 1), (0, 1)])] == ["cycle"], "over two connections it is one"
    assert causes(twice, chain(2)) == ()


def test_a_function_that_does_not_return_is_blocked() -> None:
    stages = [waits(0, 1.0, 0.0), waits(1, 0.0, 0.0, 1.0, blocked_s=12.0), waits(2, 0.0, 1.0, is_sink=True)]
    (cause,) = causes(stages, chain(3))
    assert (cause.stage, cause.cause) == (1, "blocked")
    assert "12 s" in cause.sentence


def test_a_full_pool_comes_first() -> None:
    stages = [waits(0, 1.0, 0.0), waits(1, 0.0, 0.0, 0.9, is_sink=True)]
    first, *_ = causes(stages, chain(2), pool_full=0.9)
    assert first.cause == "pool"
    assert culprits([first], stages) == set()


def test_a_graph_without_samples_has_no_cause() -> None:
    assert causes([waits(i, 0.0, 0.0) for i in range(3)], chain(3)) == ()
    assert causes([], []) == ()
