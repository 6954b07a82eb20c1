"""RetryFlow: an element is tried again until it is well, waits for its back-off, and keeps its context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import Flow, FlowWithContext, RestartSettings, RetryFlow, Sink, Source
from streamactors.errors import BuildError, StreamError
from tests.stages.nested_runs import LAW, probes, run

QUICK = RestartSettings("10ms", "40ms", random_factor=0)


@given(elements=st.lists(st.integers(0, 4), max_size=12), most=st.integers(0, 5), size=st.integers(1, 5))
@LAW
def test_retry_tries_each_element_until_it_is_well_or_the_retries_are_used_up(timeless, elements, most, size):
    settings_ = RestartSettings("1ms", "2ms", random_factor=0, max_restarts=most)
    flow = RetryFlow.with_backoff(settings_, Flow.map(lambda x: x - 1), lambda x, y: y if y > 0 else None)
    source = Source.from_iterable(elements).max_chunk(size).via(flow)
    result = source.run_with(Sink.to_list(), timeless)
    while not result.done():
        timeless.clock.advance("1ms")
    assert result.result(0) == [x - 1 if x < 1 else max(0, x - 1 - most) for x in elements]


def test_a_retry_waits_for_a_back_off_that_doubles(timeless):
    tried = []
    flow = Flow.map(lambda x: tried.append((x, timeless.clock.now_ms())) or x)
    source, sink, _ = probes(RetryFlow.with_backoff(QUICK, flow, lambda x, y: x if len(tried) < 5 else None), timeless)
    sink.request(1)
    source.send_next("a")
    timeless.clock.settle()
    start = timeless.clock.now_ms()
    for _ in range(130):
        timeless.clock.advance("1ms")
    sink.expect_next("a")
    assert [at - start for _, at in tried] == [0, 10, 30, 70, 110]
    source.send_complete()
    sink.expect_complete()


def test_a_flow_that_is_not_one_to_one_fails_with_what_it_did(timeless):
    def through(flow):
        return run(Source.range(3).via(RetryFlow.with_backoff(QUICK, flow, lambda x, y: None)), timeless)

    with pytest.raises(StreamError, match="exactly one"):
        through(Flow.map_concat(lambda x: [x, x]))
    with pytest.raises(StreamError, match="it must emit one result for each element"):
        through(Flow.take(1))
    with pytest.raises(ZeroDivisionError):
        through(Flow.map(lambda x: 1 // x))
    with pytest.raises(BuildError, match="RestartSettings"):
        RetryFlow.with_backoff(3, Flow.identity(), lambda x, y: None)


def test_retry_with_context_sees_pairs(timeless):
    flow = FlowWithContext.identity().map(lambda x: x * 10)
    retry = RetryFlow.with_backoff_and_context(
        RestartSettings("1ms", "1ms", random_factor=0), flow, lambda a, b: (a[0] + 1, a[1]) if b[0] < 30 else None
    )
    result = (
        Source.from_iterable([1, 5]).with_context(lambda x: f"at {x}").via(retry).run_with(Sink.to_list(), timeless)
    )
    while not result.done():
        timeless.clock.advance("1ms")
    assert result.result(0) == [(30, "at 1"), (50, "at 5")]
