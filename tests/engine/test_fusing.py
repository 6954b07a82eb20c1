"""The generated loops: the order of the steps, the zeros of scans, supervision inside, and the check of fused sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.actors.system import ActorSystem
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import Attributed, StageModule
from streamactors.engine.fusing.loop import CAN_REFILL, FusedLoop, Op, Refilled, generate
from streamactors.engine.marks.marks import EXACT, Needs
from streamactors.engine.materializing.materializer import materialize
from streamactors.engine.planning.plan import plan_of
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.supervision import restarting
from streamactors.errors import BuildError
from streamactors.stages.fold.fold import Scan
from streamactors.stages.sinks.values import Ignore, ToList
from streamactors.stages.sources.iterables import FromIterable
from streamactors.stages.transform.mapping import Collect, Filter, FilterNot, Map
from tests.engine.graphs import chain


@pytest.fixture(scope="module")
def system():
    with ActorSystem("fused") as system:
        yield system


STEPS = {
    "map": (lambda: Map(lambda x: x + 1), lambda xs: [x + 1 for x in xs]),
    "filter": (lambda: Filter(lambda x: x % 3), lambda xs: [x for x in xs if x % 3]),
    "filter_not": (lambda: FilterNot(lambda x: x % 5 == 0), lambda xs: [x for x in xs if x % 5]),
    "filter_true": (lambda: Filter(None), lambda xs: [x for x in xs if x]),
    "collect": (lambda: Collect(lambda x: x if x % 7 else None), lambda xs: [x for x in xs if x % 7]),
    "scan": (lambda: Scan(2, lambda a, b: (a + b) % 1_000), lambda xs: scanned(xs)),
}


def scanned(xs):
    made = [2]
    for x in xs:
        made.append((made[-1] + x) % 1_000)
    return made


@given(
    elements=st.lists(st.integers(0, 100), max_size=20),
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6),
    max_chunk=st.sampled_from([None, 1, 3]),
)
def test_any_row_of_steps_behind_a_source_equals_the_row_of_models(system, elements, names, max_chunk):
    expected = elements
    stages = []
    for name in names:
        stage, model = STEPS[name]
        stages.append(stage())
        expected = model(expected)
    row = Attributed(chain(FromIterable(elements), *stages), Attributes(max_chunk=max_chunk))
    assert len(plan_of(chain(row, ToList())).nodes) == 2, "all of it is one stage"
    assert materialize(chain(row, ToList()), system).result(30) == expected


def test_the_loop_of_map_filter_and_scan_reads_as_a_hand_written_one():
    loop, _, steps = generate(("map", "filter", "scan", "map"))
    out: list[int] = []
    state = [None, None, 100, None]
    loop(iter([1, 2, 3]), out, [], state, lambda x: x * 10, lambda x: x != 20, lambda a, x: a + x, str)
    assert out == ["110", "140"]
    assert state[2] == 140
    assert sorted(steps.values()) == [(0, "x"), (1, "x"), (2, "x"), (3, "x")]


class Wrapper:
    __slots__ = ("item",)


REFILLED = Refilled(Wrapper, ("r.item = m",))


def ops(*steps):
    return tuple(Op(kind, fn, kind, Attributes()) for kind, fn in steps)


@pytest.mark.skipif(not CAN_REFILL, reason="references are not counted here")
def test_a_wrapper_that_nobody_holds_serves_all_elements_and_one_that_is_held_keeps_its_own():
    kept, ids = [], []

    def look(wrapper):
        ids.append(id(wrapper))
        if wrapper.item % 10 == 0:
            kept.append(wrapper)
        return wrapper.item

    loop = FusedLoop(ops(("map", look))).refilling(REFILLED)
    out = []
    assert loop(iter(range(30)), out, [], loop.fresh()) is None
    assert out == list(range(30))
    assert [wrapper.item for wrapper in kept] == [0, 10, 20]
    assert ids[1] == ids[10] != ids[0], "filled anew until somebody keeps it"
    assert len({id(wrapper) for wrapper in kept}) == 3


HOLDERS = {
    "the results": lambda kept: (("filter", lambda w: w.item % 2),),
    "the results of a map that gives it back": lambda kept: (("filter", lambda w: w.item % 2), ("map", lambda w: w)),
    "a scan's state": lambda kept: (("filter", lambda w: w.item % 2), ("scan", lambda state, w: (*(state or ()), w))),
    "a generator that has begun": lambda kept: (("filter", lambda w: w.item % 2), ("map", begun)),
    "a function for later": lambda kept: (("filter", lambda w: w.item % 2), ("collect", lambda w: lambda: w)),
    "somebody outside": lambda kept: (("filter_not", lambda w: w.item % 2 == 0), ("map", lambda w: kept.append(w))),
}


def begun(wrapper):
    def items():
        yield None
        yield wrapper

    iterator = items()
    next(iterator)
    return iterator


@pytest.mark.parametrize("holder", HOLDERS)
def test_whoever_holds_a_wrapper_holds_its_element_for_good(holder):
    kept = []
    loop = FusedLoop(ops(*HOLDERS[holder](kept))).refilling(REFILLED)
    out = []
    assert loop(iter(range(20)), out, [], loop.fresh()) is None
    if holder == "a scan's state":
        out = out[-1]
    elif holder == "a generator that has begun":
        out = [next(iterator) for iterator in out]
    elif holder == "a function for later":
        out = [function() for function in out]
    elif holder == "somebody outside":
        out = kept
    assert [wrapper.item for wrapper in out] == list(range(1, 20, 2))


def test_the_element_named_in_an_error_is_what_the_failing_step_was_given():
    Wrapper.__repr__ = lambda self: f"<wrapped {self.item}>"
    for steps, named in (
        ((("map", lambda w: 1 // (w.item - 3)),), "<wrapped 3>"),
        (
            (("filter", lambda w: w.item % 3 == 0), ("map", lambda w: w.item), ("map", lambda n: 1 // (n - 3))),
            "element 3",
        ),
    ):
        loop = FusedLoop(ops(*steps)).refilling(REFILLED)
        error = loop(iter(range(9)), [], [], loop.fresh())
        assert isinstance(error, ZeroDivisionError)
        assert named in error.__notes__[0]


@pytest.mark.expects_log("skipped: ")
def test_restart_sends_the_zero_of_a_scan_through_the_steps_behind_it(system):
    stages = (Scan(0, lambda a, x: a + 10 // x), Map(lambda x: -x))
    row = Attributed(chain(FromIterable([1, 2, 0, 5]), *stages), Attributes(decider=restarting))
    assert materialize(chain(row, ToList()), system).result(30) == [0, -10, -15, 0, -2]


def test_a_zero_that_the_next_step_cannot_take_fails_the_stream(system):
    row = chain(FromIterable([1]), Scan(0, lambda a, x: a + x), Map(lambda x: 1 // x), ToList())
    with pytest.raises(ZeroDivisionError) as raised:
        materialize(row, system).result(30)
    assert "in stage map, element 0" in raised.value.__notes__[0]


def test_each_run_of_a_scan_has_its_own_zero(system):
    def append(acc, x):
        acc.append(x)
        return acc

    row = chain(FromIterable([1, 2]), Scan([], append), Map(list), ToList())
    for _ in range(2):
        assert materialize(row, system).result(30)[-1] == [1, 2]


class Forgetful(Ignore):
    """A sink that replays ranges, and so needs stages without memory."""

    handling = EXACT
    traits = StageTraits(needs=Needs("a sink that replays", exact=True, no_memory=True), reads_marks=True)


def test_a_scan_fused_into_its_source_is_still_seen_by_a_reader_that_needs_stages_without_memory():
    plan_of(chain(FromIterable([1]), Map(lambda x: x), Forgetful()))
    with pytest.raises(BuildError, match=r"scan.*remembers"):
        plan_of(chain(FromIterable([1]), Map(lambda x: x), Scan(0, lambda a, x: x), StageModule(Forgetful())))
