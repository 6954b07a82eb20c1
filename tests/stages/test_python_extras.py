"""What Python users look for: distinct in bounded memory, sample, debounce, meters, quantiles; names of composed operators in errors."""

from __future__ import annotations

import math
import random
import sys

import pytest

from streamactors import ActorSystem, Directive, Flow, Keep, Sink, Source, VirtualClock
from streamactors.errors import BuildError
from streamactors.testing import TestSink, TestSource


@pytest.fixture(scope="module")
def system():
    with ActorSystem("extras", clock=VirtualClock()) as system:
        yield system


def run(source, system):
    return source.run_with(Sink.to_list(), system).result(10)


def probes(flow, system):
    (source, value), sink = TestSource.probe().via_mat(flow, Keep.both).to_mat(TestSink.probe(), Keep.both).run(system)
    return source, sink, value


def test_distinct_forgets_the_key_seen_longest_ago(system):
    assert run(Source.from_iterable([1, 2, 1, 3, 1, 2]).distinct(2), system) == [1, 2, 3, 2]
    assert run(Source.from_iterable(["a", "B", "A", "b"]).distinct(key=str.lower), system) == ["a", "B"]
    with pytest.raises(TypeError, match="unhashable"):
        run(Source.single([]).distinct(), system)


def test_sample_emits_the_latest_element_of_each_interval(system):
    source, sink, _ = probes(Flow.sample("100ms"), system)
    sink.request(5)
    source.send_next(1, 2)
    system.clock.advance("100ms")
    sink.expect_next(2)
    system.clock.advance("300ms")
    source.send_next(3)
    system.clock.advance("100ms")
    sink.expect_next(3)
    source.send_next(4)
    source.send_complete()
    sink.expect_next(4)
    sink.expect_complete()


def test_debounce_waits_for_silence(system):
    source, sink, _ = probes(Flow.debounce("100ms"), system)
    sink.request(5)
    for i in range(5):
        source.send_next(i)
        system.clock.advance("99ms")
    sink.expect_no_message(0)
    system.clock.advance("1ms")
    sink.expect_next(4)
    source.send_next(5)
    system.clock.advance("100ms")
    sink.expect_next(5)
    source.send_complete()
    sink.expect_complete()


def test_sample_and_debounce_keep_the_element_until_there_is_demand(system):
    for flow in (Flow.sample("10ms"), Flow.debounce("10ms")):
        source, sink, _ = probes(flow, system)
        sink.ensure_subscription()
        source.send_next(1)
        system.clock.advance("50ms")
        sink.request(1)
        sink.expect_next(1)
        source.send_complete()
        sink.expect_complete()


def test_a_meter_counts_and_knows_the_rate_of_its_window(system):
    source, sink, meter = probes(Flow.meter("1s"), system)
    assert meter.rate == 0
    sink.request(1_000)
    for _ in range(10):
        source.send_next(*range(20))
        system.clock.advance("100ms")
    assert meter.count == 200
    assert meter.rate == pytest.approx(200, rel=0.06)
    system.clock.advance("2s")
    assert meter.rate == 0
    assert repr(meter) == "<RateMeter 200 elements, 0.0/s>"
    sink.cancel()


def test_grouped_weighted_within_emits_when_its_time_is_over(system):
    source, sink, _ = probes(Flow.grouped_weighted_within(10, "100ms", len), system)
    sink.request(5)
    source.send_next("aa", "bb")
    system.clock.advance("99ms")
    sink.expect_no_message(0)
    system.clock.advance("1ms")
    sink.expect_next(["aa", "bb"])
    source.send_next("c" * 20)
    sink.expect_next(["c" * 20])
    sink.cancel()


def test_aggregate_with_boundary_emits_by_its_timer(system):
    flow = Flow.aggregate_with_boundary(
        list, lambda part, x: ([*part, x], len(part) == 2), sum, emit_on_timer=(lambda part: len(part) > 1, "100ms")
    )
    source, sink, _ = probes(flow, system)
    sink.request(5)
    source.send_next(1, 2, 3)
    sink.expect_next(6)
    source.send_next(4)
    system.clock.advance("100ms")
    sink.expect_no_message(0)
    source.send_next(5)
    system.clock.advance("100ms")
    sink.expect_next(9)
    sink.cancel()


def test_delay_with_delays_each_element_by_its_own_time_and_keeps_the_order(system):
    source, sink, _ = probes(Flow.delay_with(lambda: lambda x: x), system)
    sink.request(5)
    source.send_next("100ms", 0.01)
    system.clock.advance("99ms")
    sink.expect_no_message(0)
    system.clock.advance("1ms")
    sink.expect_next_n(["100ms", 0.01])
    sink.cancel()
    with pytest.raises(BuildError, match="delay_with: delay_of") as caught:
        run(Source.single("soon").delay_with(lambda: lambda x: x), system)
    assert any("element 'soon'" in note for note in caught.value.__notes__)


def test_quantiles_of_a_stream_and_of_its_substreams(system):
    numbers = list(range(100_001))
    random.Random(7).shuffle(numbers)
    (found,) = run(Source.from_iterable(numbers).quantiles([0, 0.5, 0.99, 1]), system)
    assert (found[0], found[1]) == (0, 100_000)
    assert found[0.5] == pytest.approx(50_000, abs=2_500)
    assert found[0.99] == pytest.approx(99_000, abs=2_500)
    by_key = Source.range(20).group_by(lambda x: x % 2, 2).quantiles([1.0], value=float).merge_substreams()
    assert sorted(x[1.0] for x in run(by_key, system)) == [18, 19]
    assert run(Source.empty().quantiles([0.5]), system) == [{}]
    with pytest.raises(ValueError, match="NaN"):
        run(Source.single(math.nan).quantiles([0.5]), system)
    for wrong in ([], [2], ["a"]):
        with pytest.raises(BuildError, match="quantiles"):
            Source.empty().quantiles(wrong)


def test_quantiles_without_the_package_say_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(BuildError, match=r"streamactors\[sketches\]"):
        Source.empty().quantiles([0.5])


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("accumulate", lambda source, fail: source.accumulate(lambda a, b: fail(b))),
        ("stateful_map_concat", lambda source, fail: source.stateful_map_concat(lambda: lambda x: [fail(x)])),
        ("collect", lambda source, fail: source.collect(fail, when=int)),
        ("collect_first", lambda source, fail: source.collect_first(lambda x: fail(x) and None)),
        ("collect_while", lambda source, fail: source.collect_while(fail)),
        ("fold_async", lambda source, fail: source.fold_async(0, lambda a, b: fail(b))),
        ("quantiles", lambda source, fail: source.quantiles([0.5], value=fail)),
    ],
)
def test_errors_of_composed_operators_name_the_operator_that_the_user_wrote(system, name, make):
    def fail(x):
        return 1 // (x - 1)

    with pytest.raises(ZeroDivisionError) as caught:
        run(make(Source.from_iterable([0, 1, 2]), fail), system)
    assert any(note.startswith(f"in stage {name}, element 1") for note in caught.value.__notes__), (
        caught.value.__notes__
    )


@pytest.mark.expects_log("skipped: ")
def test_an_error_of_the_function_of_on_error_continue_names_it(system):
    def report(error):
        raise KeyError("no log")

    with pytest.raises(KeyError) as caught:
        run(Source.from_iterable([1, 0]).map(lambda x: 1 // x).on_error_continue(report), system)
    assert any("on_error_continue" in note for note in caught.value.__notes__)
    assert run(Source.from_iterable([1, 0]).map(lambda x: 1 // x).on_error_continue(), system) == [1]
    assert Directive.RESUME
