"""Marks through substreams: a mark leaves when everything that stems from elements before it has left, or was dropped."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Flow, Sink, Source
from streamactors.engine.marks.marks import BLURS_MEMORY, OPAQUE
from streamactors.stages.substreams.group_by import GroupBy
from streamactors.stages.substreams.split import SplitAfter, SplitWhen
from tests.stages.harness import Bench
from tests.stages.laws import RUNS, Case, check_run
from tests.stages.test_laws_simple import SLOW_OK


def all_elements(received, sent, completed):
    flat = [x for result in received for x in (result if isinstance(result, list) else [result])]
    assert len(flat) == len(set(flat))
    assert set(flat) <= set(sent)
    if completed:
        assert sorted(flat) == sorted(sent)


def case(stage, inner, breadth=None):
    return Case(lambda _: stage().around(inner.module, breadth), verify=all_elements, demand=None, calls=False)


def by_three():
    return GroupBy(lambda x: x % 3, 3)


CASES = {
    "map": case(by_three, Flow.map(lambda x: x)),
    "fold": case(by_three, Flow.fold([], lambda xs, x: [*xs, x])),
    "grouped": case(by_three, Flow.grouped(2)),
    "buffer": case(by_three, Flow.buffer(2)),
    "boundary": case(by_three, Flow.map(lambda x: x).async_boundary().map(lambda x: x)),
    "many keys": case(lambda: GroupBy(lambda x: x, 1_000), Flow.fold([], lambda xs, x: [*xs, x])),
    "evicting": case(lambda: GroupBy(lambda x: x % 4, 2, "evict_idle"), Flow.fold([], lambda xs, x: [*xs, x])),
    "opening again": case(lambda: GroupBy(lambda x: x % 3, 3, recreate=True), Flow.take(2)),
    "opening again within a chunk": case(
        lambda: GroupBy(lambda x: x % 3, 3, recreate=True), Flow.take_until(lambda x: x % 2 == 0)
    ),
    "waiting for room": case(
        lambda: GroupBy(lambda x: x % 3, 1, "evict_idle", True), Flow.take(2).fold([], lambda xs, x: [*xs, x])
    ),
    "split when": case(lambda: SplitWhen(lambda x: x % 4 == 0), Flow.grouped(3)),
    "split after": case(lambda: SplitAfter(lambda x: x % 4 == 0), Flow.fold([], lambda xs, x: [*xs, x]), 1),
    "nested": case(
        lambda: SplitWhen(lambda x: x % 5 == 0), Flow.group_by(lambda x: x % 2, 2).grouped(2).merge_substreams()
    ),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_any_interleaving_keeps_the_laws_of_marks(timeless, name, run):
    assert CASES[name].make(lambda _: None).handling == BLURS_MEMORY
    check_run(CASES[name], timeless, run)


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_substreams_that_cancel_drop_on_purpose(timeless, run):
    def some(received, sent, completed):
        assert set(received) <= set(sent)
        if completed:
            assert Counter(x % 3 for x in received) == {k: min(2, n) for k, n in Counter(x % 3 for x in sent).items()}

    check_run(
        Case(lambda _: by_three().around(Flow.take(2).module, None), verify=some, demand=None, calls=False),
        timeless,
        run,
    )


def test_a_mark_waits_for_the_fold_of_its_substream_and_not_for_others(timeless):
    inner = Flow.grouped(2).module
    with Bench(timeless, GroupBy(lambda x: x % 2, 2).around(inner, None)) as bench:
        bench.request(10)
        bench.send(0, 1)
        bench.mark()
        assert bench.marks == []
        bench.send(2)
        bench.mark()
        assert bench.received == [[0, 2]]
        assert bench.marks == []  # 1 is still inside
        bench.send(3)
        assert bench.marks == [3]
        bench.mark()
        assert bench.marks == [3, 4]
        bench.complete()


def test_a_flow_that_marks_cannot_pass_makes_the_substreams_opaque():
    for inner in (
        Flow.merge(Source.range(3)),
        Flow.also_to(Sink.ignore()),
        Flow.flat_map_concat(Source.single),
        Flow.flat_map_prefix(1, lambda _: Flow.identity()),
    ):
        assert by_three().around(inner.module, None).handling == OPAQUE


@given(n=st.integers(0, 300), keys=st.integers(1, 9), chunk=st.integers(1, 50))
@settings(max_examples=25)
def test_a_replayable_source_hears_what_is_done_behind_substreams(n, keys, chunk):
    done = []
    source = Source.range(n).max_chunk(chunk).with_replay(0, on_done=done.append)
    grouped = source.group_by(lambda x: x % keys, keys).map(lambda x: x + 1).merge_substreams()
    with ActorSystem("replays") as system:
        assert sorted(grouped.run_with(Sink.to_list(), system).result(10)) == list(range(1, n + 1))
    assert done == sorted(done)
    assert done[-1:] == ([n] if n else done[-1:])
