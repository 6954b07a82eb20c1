"""Every synchronous RxPY operator that makes sense on a finite stream gives, as a stage, what RxPY alone gives, however
the elements are cut into chunks."""

from __future__ import annotations

from operator import add

import pytest
import reactivex as rx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.subject import Subject

from streamactors.actors.system import ActorSystem
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import AsyncBoundary, StageModule
from streamactors.engine.materializing.materializer import materialize
from streamactors.stages.rx.handling import FORGETFUL, REMEMBERING, handling_of, names_of
from streamactors.stages.rx.pipeline import Rx
from streamactors.stages.sources.iterables import FromIterable
from tests.engine.graphs import Collect, chain

PIPELINES = {
    "all": (ops.all(lambda x: x < 8),),
    "as_observable": (ops.as_observable(),),
    "average": (ops.average(),),
    "buffer_with_count": (ops.buffer_with_count(3),),
    "buffer_with_count_skip": (ops.buffer_with_count(3, 2),),
    "catch": (ops.map(lambda x: 10 // x), ops.catch(lambda error, _: rx.of(-1))),
    "combine_latest": (ops.combine_latest(rx.of("a")),),
    "concat": (ops.concat(rx.of(1, 2)),),
    "concat_map": (ops.concat_map(lambda x: rx.of(x, x)),),
    "concat_all": (ops.map(lambda x: rx.of(x, x)), ops.concat_all()),
    "contains": (ops.contains(5),),
    "count": (ops.count(),),
    "count_where": (ops.count(lambda x: x % 2 == 0),),
    "default_if_empty": (ops.default_if_empty(-1),),
    "dematerialize": (ops.materialize(), ops.dematerialize()),
    "distinct": (ops.distinct(),),
    "distinct_until_changed": (ops.distinct_until_changed(lambda x: x // 2),),
    "do_action": (ops.do_action(lambda x: None),),
    "element_at": (ops.element_at(3),),
    "element_at_or_default": (ops.element_at_or_default(3, -1),),
    "exclusive": (ops.map(lambda x: rx.of(x)), ops.exclusive()),
    "expand": (ops.expand(lambda x: rx.of(x // 2) if x > 1 else rx.empty()),),
    "filter": (ops.filter(lambda x: x % 3),),
    "filter_indexed": (ops.filter_indexed(lambda x, i: i % 2 == 0),),
    "finally_action": (ops.finally_action(lambda: None),),
    "find": (ops.find(lambda x, i, s: x > 4),),
    "find_index": (ops.find_index(lambda x, i, s: x > 4),),
    "first": (ops.first(),),
    "first_where": (ops.first(lambda x: x > 4),),
    "first_or_default": (ops.first_or_default(lambda x: x > 4, -1),),
    "flat_map": (ops.flat_map(lambda x: rx.of(x, -x)),),
    "flat_map_indexed": (ops.flat_map_indexed(lambda x, i: rx.of(x, i)),),
    "flat_map_latest": (ops.flat_map_latest(lambda x: rx.of(x, x)),),
    "group_by": (ops.group_by(lambda x: x % 3), ops.flat_map(lambda g: g.pipe(ops.scan(add, 0)))),
    "ignore_elements": (ops.ignore_elements(),),
    "is_empty": (ops.is_empty(),),
    "last": (ops.last(),),
    "last_or_default": (ops.last_or_default(-1),),
    "map": (ops.map(lambda x: x + 1),),
    "map_indexed": (ops.map_indexed(lambda x, i: (x, i)),),
    "materialize": (ops.materialize(), ops.map(str)),
    "max": (ops.max(),),
    "max_by": (ops.max_by(lambda x: x % 4),),
    "merge": (ops.merge(rx.of(100)),),
    "merge_all": (ops.map(lambda x: rx.of(x)), ops.merge_all()),
    "min": (ops.min(),),
    "min_by": (ops.min_by(lambda x: x % 4),),
    "on_error_resume_next": (ops.map(lambda x: 10 // x), ops.on_error_resume_next(rx.of(-1))),
    "pairwise": (ops.pairwise(),),
    "pluck": (ops.map(lambda x: {"k": x}), ops.pluck("k")),
    "pluck_attr": (ops.pluck_attr("real"),),
    "reduce": (ops.reduce(add, 0),),
    "reduce_unseeded": (ops.reduce(add),),
    "scan": (ops.scan(add, 0),),
    "scan_unseeded": (ops.scan(add),),
    "sequence_equal": (ops.sequence_equal([1, 2, 3]),),
    "share": (ops.share(),),
    "single": (ops.single(),),
    "single_or_default": (ops.single_or_default(lambda x: x == 5, -1),),
    "skip": (ops.skip(3),),
    "skip_last": (ops.skip_last(2),),
    "skip_until": (ops.skip_until(rx.of(1)),),
    "skip_while": (ops.skip_while(lambda x: x < 5),),
    "skip_while_indexed": (ops.skip_while_indexed(lambda x, i: i < 2),),
    "slice": (ops.slice(1, 6, 2),),
    "some": (ops.some(lambda x: x > 7),),
    "starmap": (ops.map(lambda x: (x, 1)), ops.starmap(add)),
    "starmap_indexed": (ops.map(lambda x: (x, 1)), ops.starmap_indexed(lambda a, b, i: a + b + i)),
    "start_with": (ops.start_with(7, 8, 9),),
    "sum": (ops.sum(),),
    "switch_latest": (ops.map(lambda x: rx.of(x, x)), ops.switch_latest()),
    "switch_map": (ops.switch_map(lambda x: rx.of(x, x)),),
    "take": (ops.take(3),),
    "take_zero": (ops.take(0),),
    "take_last": (ops.take_last(3),),
    "take_last_buffer": (ops.take_last_buffer(3),),
    "take_until": (ops.take_until(rx.never()),),
    "take_while": (ops.take_while(lambda x: x < 6),),
    "take_while_inclusive": (ops.take_while(lambda x: x < 6, inclusive=True),),
    "take_while_indexed": (ops.take_while_indexed(lambda x, i: i < 4),),
    "tap": (ops.tap(lambda x: None),),
    "to_dict": (ops.to_dict(lambda x: x),),
    "to_iterable": (ops.to_iterable(),),
    "to_list": (ops.to_list(),),
    "to_set": (ops.to_set(),),
    "window_with_count": (ops.window_with_count(2), ops.flat_map(lambda w: w.pipe(ops.to_list()))),
    "with_latest_from": (ops.with_latest_from(rx.of("a")),),
    "zip": (ops.zip(rx.of(*"abcdef")),),
    "zip_with_iterable": (ops.zip_with_iterable("abcdef"),),
    "raising_map": (ops.map(lambda x: 10 // x),),
    "raising_filter": (ops.filter(lambda x: 10 // x),),
    "several": (ops.map(lambda x: x * 2), ops.filter(lambda x: x % 3), ops.scan(add, 0), ops.pairwise(), ops.take(4)),
}


def rx_alone(elements, operators):
    """Return (results, error) of RxPY without us, fed from a subject."""
    subject: Subject = Subject()
    results: list[object] = []
    errors: list[Exception] = []
    try:
        subject.pipe(*operators).subscribe(results.append, errors.append)
        for element in elements:
            subject.on_next(element)
        subject.on_completed()
    except Exception as error:  # an operator that lets its function's error through
        errors.append(error)
    return results, errors[0] if errors else None


@pytest.fixture(scope="module")
def system():
    with ActorSystem("rx") as system:
        yield system


CHUNKS = st.sampled_from([1, 2, 3, None])
SLOW_OK = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@pytest.mark.parametrize("name", PIPELINES)
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW_OK)
@given(elements=st.lists(st.integers(0, 9), max_size=12), chunk=CHUNKS, buffer=st.sampled_from([None, 1, 4, 16]))
def test_a_stage_gives_what_rx_alone_gives(system, name, elements, chunk, buffer):
    operators = PIPELINES[name]
    expected, failure = rx_alone(elements, operators)
    got: list[object] = []
    source = StageModule(FromIterable(elements), Attributes(max_chunk=chunk))
    stream = chain(source, Rx(*operators), AsyncBoundary(buffer), Collect(got))
    future = materialize(stream, system)
    error = future.exception(10)
    if failure is None:
        assert error is None
        assert got == expected
    else:
        assert type(error) is type(failure)
        assert got == expected[: len(got)], (
            "what came before the error is a prefix; the boundary lets an error overtake"
        )


@pytest.mark.parametrize("name", [name for name, pipeline in PIPELINES.items() if len(pipeline) == 1])
def test_operators_said_to_hold_nothing_emit_at_once(name):
    """What the tables call FORGETFUL or REMEMBERING owes nothing after an element: completing adds no result."""
    operators = PIPELINES[name]
    names = [n for operator in operators for n in names_of(operator)]
    assert None not in names, "RxPY's operator was not recognised"
    if not all(n in FORGETFUL or n in REMEMBERING for n in names):
        handling, why, followed = handling_of(operators, None)
        assert followed if handling.passes else why
        return
    assert handling_of(operators, None)[0].passes
    for elements in ([], [1], [3, 3, 5], [0, 9, 4, 4, 4, 7, 1, 2], list(range(10))):
        subject: Subject = Subject()
        results: list[object] = []
        subject.pipe(*operators).subscribe(results.append, lambda _: None)
        for element in elements:
            subject.on_next(element)
        before = len(results)
        subject.on_completed()
        told_at_the_end = {"all", "some", "contains", "is_empty", "default_if_empty", "find", "find_index"}
        defaults = {"element_at_or_default", "first_or_default", "materialize"}
        if name not in told_at_the_end | defaults:
            assert len(results) == before, f"{name} held {results[before:]} back"


@pytest.mark.parametrize("name", sorted(FORGETFUL & {n.split("_skip")[0] for n in PIPELINES}))
def test_operators_said_to_forget_do_not_depend_on_what_came_before(name):
    operators = PIPELINES[name]
    for before in ([], [1, 2, 3], [5]):
        for after in ([], [4], [3, 3, 8]):
            whole, _ = rx_alone(before + after, operators)
            first, _ = rx_alone(before, operators)
            second, _ = rx_alone(after, operators)
            ends = 1 if name == "materialize" else 0  # the completion it turns into an element
            assert whole == first[: len(first) - ends] + second
