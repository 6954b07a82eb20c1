"""Flow.retry: a failed element is tried again by a new flow; what every attempt fails for becomes a FailedElement at the dead letters."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, FailedElement, Flow, RestartSettings, Sink, Source, VirtualClock
from streamactors.errors import BuildError

LAW = settings(max_examples=40, deadline=None)
QUICK = RestartSettings("1ms", "1ms", random_factor=0)


@pytest.fixture(scope="module")
def system():
    with ActorSystem("retrying", clock=VirtualClock()) as system:
        yield system


def finish(future, system):
    while not future.done():
        system.clock.advance("1ms")
    return future


class Fails:
    """A function that fails for element (name, failures, results) so often, and then emits so many results."""

    def __init__(self):
        self.tried = Counter()

    def __call__(self, element):
        name, failures, results = element
        self.tried[name] += 1
        if self.tried[name] <= failures:
            yield (name, "never seen")
            raise ValueError(f"{name} failed")
        for i in range(results):
            yield (name, i)


def _flow(kind, fails):
    flow = Flow.map_concat(fails)
    return {
        "plain": flow,
        "boundary": flow.async_boundary().filter(lambda x: True),
        "later": Flow.map_async(2, lambda x: x).map_concat(fails),
    }[kind]


@pytest.mark.expects_log("retry runs one element at a time", again=True)
@given(
    plan=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=10),
    attempts=st.integers(1, 4),
    size=st.integers(1, 5),
    kind=st.sampled_from(["plain", "boundary", "later"]),
)
@LAW
def test_results_of_the_successful_attempt_come_once_and_in_order_and_the_rest_are_dead_letters(
    system, plan, attempts, size, kind
):
    fails, dead, done = Fails(), [], []
    elements = [(name, *each) for name, each in enumerate(plan)]
    flow = _flow(kind, fails).retry(attempts, QUICK, dead_letters=Sink.foreach(dead.append))
    source = Source.from_iterable(elements).max_chunk(size).with_replay(on_done=done.append).via(flow)
    got = finish(source.run_with(Sink.to_list(), system), system).result(0)
    assert got == [(name, i) for name, failures, results in elements if failures < attempts for i in range(results)]
    assert [(letter.element, letter.attempts) for letter in dead] == [
        (each, attempts) for each in elements if each[1] >= attempts
    ]
    assert all(type(letter) is FailedElement and isinstance(letter.error, ValueError) for letter in dead)
    assert dict(fails.tried) == {name: min(failures + 1, attempts) for name, failures, _ in elements}


def test_an_element_is_done_when_its_last_attempt_is_and_not_before(system):
    done, fails = [], Fails()
    seen = []

    def look(element):
        seen.append((element[0], list(done)))
        return fails(element)

    flow = Flow.map_concat(look).retry(3, QUICK, dead_letters=Sink.ignore())
    source = Source.from_iterable([(0, 0, 1), (1, 2, 1), (2, 9, 0)]).max_chunk(1).with_replay(on_done=done.append)
    finish(source.via(flow).run_with(Sink.ignore(), system), system).result(0)
    for name, positions in seen:
        assert max(positions, default=0) <= name, "a position was done although its element was still tried"
    finish_position = max(done)
    assert finish_position == 3


def test_attempts_wait_for_a_delay_that_doubles(system):
    at = []

    def fail(x):
        at.append(system.clock.now_ms())
        raise ValueError(x)

    settings_ = RestartSettings("10ms", "40ms", random_factor=0)
    result = Source.single("a").via(Flow.map(fail).retry(5, settings_)).run_with(Sink.ignore(), system)
    with pytest.raises(ValueError, match="a") as caught:
        finish(result, system).result(0)
    assert "retry: attempt 5 of 5" in caught.value.__notes__
    assert [t - at[0] for t in at] == [0, 10, 30, 70, 110]


def test_an_error_that_is_not_chosen_fails_the_stream_at_its_first_attempt(system):
    tried = []

    def fail(x):
        tried.append(x)
        raise KeyError(x)

    flow = Flow.map(fail).retry(5, QUICK, on=ValueError, dead_letters=Sink.ignore())
    with pytest.raises(KeyError):
        finish(Source.single(1).via(flow).run_with(Sink.ignore(), system), system).result(0)
    assert tried == [1]


def test_a_sink_inside_the_flow_gets_the_completion(system):
    inside = []
    flow = Flow.map(lambda x: x + 1).also_to(Sink.foreach(inside.append)).retry(2, QUICK)
    assert finish(Source.range(4).via(flow).run_with(Sink.to_list(), system), system).result(0) == [1, 2, 3, 4]
    assert inside == [1, 2, 3, 4]


def test_what_cannot_be_retried_is_refused_when_the_graph_is_built():
    with pytest.raises(BuildError, match="a source does not give an element again"):
        Source.range(3).map(str).retry(3, "1s")
    with pytest.raises(BuildError, match="a source does not give an element again"):
        Source.range(3).group_by(str, max_substreams=3).map(str).retry(3, "1s")
    with pytest.raises(BuildError, match="remembers earlier elements"):
        Flow.grouped(3).retry(3, "1s")
    with pytest.raises(BuildError, match="attempts"):
        Flow.map(str).retry(0, "1s")
    with pytest.raises(BuildError, match="on must be"):
        Flow.map(str).retry(1, "1s", on=3)
