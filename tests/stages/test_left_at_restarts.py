"""RestartFlow and RestartSink: the next part gets what the last one has not taken, however the elements were cut into chunks."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Flow, RestartFlow, RestartSettings, RestartSink, Sink, Source
from streamactors.testing import assert_all_stages_stopped
from tests.actors.eventually import eventually

pytestmark = pytest.mark.expects_log("restart_")

LAW = settings(max_examples=30, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
AT_ONCE = RestartSettings("0.001ms", "0.001ms", random_factor=0)
N = 300
BAD = st.sets(st.integers(0, N - 1), max_size=6)
CHUNKS = st.sampled_from([None, 1, 7, 64])


@pytest.fixture(scope="module")
def system():
    with ActorSystem("left at restarts") as system:
        yield system


def elements(chunk):
    source = Source.range(N)
    return source if chunk is None else source.max_chunk(chunk).async_boundary()


def check(bad):
    def good(x):
        if x in bad:
            raise ValueError(f"at {x}")
        return x

    return good


@given(bad=BAD | st.just({N - 2, N - 1}), chunk=CHUNKS)
@LAW
def test_a_flow_that_fails_loses_the_element_it_failed_at(system, bad, chunk):
    make = RestartFlow.on_failures_with_backoff(AT_ONCE, lambda: Flow.map(check(bad)))
    stream = (
        elements(chunk).via(make).on_error_complete()
    )  # a failure at the last element has nothing to be made again for
    assert stream.run_with(Sink.to_list(), system).result(30) == [x for x in range(N) if x not in bad]


@given(ends=BAD, chunk=CHUNKS)
@LAW
def test_a_flow_that_ends_early_loses_nothing(system, ends, chunk):
    make = RestartFlow.with_backoff(AT_ONCE, lambda: Flow.take_until(lambda x: x in ends))
    assert elements(chunk).via(make).run_with(Sink.to_list(), system).result(30) == list(range(N))


@given(bad=BAD | st.just({N - 3}), chunk=CHUNKS)
@LAW
def test_a_sink_that_fails_loses_the_element_it_failed_at(system, bad, chunk):
    seen, good = [], check(bad)
    make = RestartSink.with_backoff(AT_ONCE, lambda: Sink.foreach(lambda x: seen.append(good(x))))
    expected = [x for x in range(N) if x not in bad]
    with assert_all_stages_stopped(system):
        elements(chunk).to(make).run(system)
        eventually(lambda: len(seen) == len(expected))
    assert seen == expected
