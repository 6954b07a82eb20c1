"""What each source emits, when it ends, and what it gives back."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import Flow, Sink, Source
from streamactors.engine.supervision import Directive, restarting, resuming
from streamactors.errors import FramingError
from streamactors.testing import TestSink

pytestmark = pytest.mark.usefixtures("virtual_clock")  # silence costs no time, and means that all is at rest


def elements(system, source):
    return source.run_with(Sink.to_list(), system).result(10)


# ── iterables ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.expects_log("is iterated: its elements are")
@pytest.mark.parametrize(
    "iterable",
    [
        [1, None, "x"],
        (1, 2),
        range(5),
        "text",
        {1: 2, 3: 4},
        {5},
        b"bytes",
        collections.deque([1, 2]),
        [],
        np.arange(4),
    ],
    ids=lambda x: type(x).__name__,
)
def test_any_iterable_gives_its_elements(actor_system, iterable):
    source = Source.from_iterable(iterable)
    assert elements(actor_system, source) == list(iterable)
    assert elements(actor_system, source.map(lambda x: [x])) == [[x] for x in iterable]


def test_a_generator_is_read_on_demand_and_closed_when_the_stream_ends_early(actor_system):
    made, closed = [], threading.Event()

    def generator():
        try:
            for i in range(1_000_000):
                made.append(i)
                yield i
        finally:
            closed.set()

    sink = Source.from_iterable(generator()).run_with(TestSink.probe(), actor_system)
    sink.request(3).expect_next_n([0, 1, 2])
    assert made == [0, 1, 2]
    sink.cancel()
    assert closed.wait(30)


@pytest.mark.expects_log("is iterated: its elements are")
def test_an_iterable_with_a_length_completes_with_its_last_element(actor_system):
    for iterable in ([1, 2], {1, 2}, {1: 0, 2: 0}, np.array([1, 2])):
        sink = Source.from_iterable(iterable).run_with(TestSink.probe(), actor_system)
        sink.request(2).expect_next_n([1, 2])
        sink.expect_complete()


def test_what_an_iterable_gave_before_it_raised_goes_out_first(actor_system):
    def broken():
        yield 1
        yield 2
        raise OSError("disk")

    sink = Source.from_iterable(broken()).run_with(TestSink.probe(), actor_system)
    sink.request(10).expect_next_n([1, 2])
    sink.expect_error(OSError)


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5).filter(bool))
def test_range_is_pythons(start, stop, step):
    assert Source.range(start, stop, step).run_with(Sink.to_list()).result(30) == list(range(start, stop, step))


def test_lines_of_a_file(actor_system, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes("one\n\nthree\r\nvier äöü".encode())
    assert elements(actor_system, Source.from_lines(path)) == ["one", "", "three", "vier äöü"]
    assert elements(actor_system, Source.from_lines(str(path)).with_replay(2)) == ["three", "vier äöü"]
    with pytest.raises(FileNotFoundError):
        elements(actor_system, Source.from_lines(tmp_path / "none"))
    path.write_bytes(b"ok\n\xff")
    with pytest.raises(FramingError, match=r"lines\.txt, line 2: the bytes are not utf-8 text"):
        elements(actor_system, Source.from_lines(path))


def test_single_empty_failed_never(actor_system):
    assert elements(actor_system, Source.single(None)) == [None]
    sink = Source.empty().run_with(TestSink.probe(), actor_system)
    sink.expect_subscription_and_complete(signal_demand=False)
    error = KeyError("gone")
    sink = Source.failed(error).run_with(TestSink.probe(), actor_system)
    assert sink.expect_subscription_and_error(signal_demand=False) is error
    sink = Source.never().run_with(TestSink.probe(), actor_system)
    sink.request(1).expect_no_message("20ms").cancel()


def test_repeat_and_cycle_go_on_for_ever(actor_system):
    assert Source.repeat("x").run_with(TestSink.probe(), actor_system).request(3000).expect_next_n(3000) == ["x"] * 3000
    sink = Source.cycle([1, 2, 3]).map(lambda x: x * 10).run_with(TestSink.probe(), actor_system)
    sink.request(7).expect_next_n([10, 20, 30, 10, 20, 30, 10])
    calls = []

    def fresh():
        calls.append(1)
        return iter("ab")

    Source.cycle(fresh).run_with(TestSink.probe(), actor_system).request(5).expect_next_n("ababa")
    assert len(calls) == 3


def test_cycle_over_nothing_fails_instead_of_spinning(actor_system):
    Source.cycle([]).run_with(TestSink.probe(), actor_system).request(1).expect_error(ValueError)


# ── computed ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 50), st.sampled_from([None, 1, 3]))
def test_unfold_equals_its_loop_for_every_chunking(n, max_chunk):
    source = Source.unfold((0, 1), lambda ab: ((ab[1], ab[0] + ab[1]), ab[0]) if ab[0] < n else None)
    expected, a, b = [], 0, 1
    while a < n:
        expected.append(a)
        a, b = b, a + b
    if max_chunk:
        source = source.max_chunk(max_chunk)
    assert source.run_with(Sink.to_list()).result(30) == expected


@pytest.mark.parametrize("error", [ValueError("x"), StopIteration("x")])
def test_unfold_gives_what_it_has_before_an_error(actor_system, error):
    def step(n):
        if n == 3:
            raise error
        return n + 1, n

    sink = Source.unfold(0, step).run_with(TestSink.probe(), actor_system)
    sink.request(10).expect_next_n([0, 1, 2])
    assert sink.expect_error() is error


def test_unfold_says_what_its_function_must_return(actor_system):
    sink = Source.unfold(0, lambda n: n).run_with(TestSink.probe(), actor_system)
    assert "must return (next state, element) or None, got 0" in str(sink.request(1).expect_error(TypeError))


def test_unfold_async_takes_coroutines_and_futures_one_at_a_time(actor_system):
    running = []

    async def step(n):
        assert not running
        running.append(n)
        await asyncio.sleep(0)
        running.remove(n)
        return (n + 1, n) if n < 5 else None

    assert elements(actor_system, Source.unfold_async(0, step)) == [0, 1, 2, 3, 4]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        source = Source.unfold_async(0, lambda n: pool.submit(lambda: (n + 1, n) if n < 3 else None))
        assert elements(actor_system, source) == [0, 1, 2]


def test_unfold_async_fails_with_its_future_and_cancels_what_runs(actor_system):
    async def broken(n):
        if n == 2:
            raise ValueError("two")
        return n + 1, n

    sink = Source.unfold_async(0, broken).run_with(TestSink.probe(), actor_system)
    sink.request(5).expect_next_n([0, 1])
    sink.expect_error(ValueError)
    sink = Source.unfold_async(0, lambda n: n).run_with(TestSink.probe(), actor_system)
    assert "must return a future or be a coroutine function" in str(sink.request(1).expect_error(TypeError))

    cancelled = threading.Event()

    async def hangs(_):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    sink = Source.unfold_async(0, hangs).run_with(TestSink.probe(), actor_system)
    sink.request(1).expect_no_message("20ms").cancel()
    assert cancelled.wait(30)


class Resource:
    """Something to open, read and close, that writes down what happens to it."""

    def __init__(self, *items, close_error=None):
        self.items = items
        self.log = []
        self.closed = threading.Event()
        self.close_error = close_error

    def open(self):
        self.log.append("open")
        return iter(self.items)

    def read(self, items):
        item = next(items, None)
        if isinstance(item, Exception):
            raise item
        return item

    def close(self, _):
        self.log.append("close")
        self.closed.set()
        if self.close_error:
            raise self.close_error

    def source(self):
        return Source.unfold_resource(self.open, self.read, self.close)


def test_a_resource_is_closed_when_it_ends_fails_or_is_cancelled(actor_system):
    resource = Resource(1, 2)
    assert elements(actor_system, resource.source()) == [1, 2]
    assert resource.log == ["open", "close"]

    resource = Resource(1, ValueError("bad"), 2)
    sink = resource.source().run_with(TestSink.probe(), actor_system)
    sink.request(5).expect_next(1)
    sink.expect_error(ValueError)
    assert resource.closed.wait(30)
    assert resource.log == ["open", "close"]

    resource = Resource(*range(1, 100))
    sink = resource.source().run_with(TestSink.probe(), actor_system)
    sink.request(1).expect_next(1)
    assert resource.log == ["open"]
    sink.cancel()
    assert resource.closed.wait(30)
    assert resource.log == ["open", "close"]


def test_an_error_while_opening_or_closing_fails_the_stream(actor_system):
    def cannot():
        raise OSError("open")

    sink = Source.unfold_resource(cannot, print, print).run_with(TestSink.probe(), actor_system)
    sink.expect_subscription_and_error(OSError)
    sink = Resource(1, close_error=OSError("close")).source().run_with(TestSink.probe(), actor_system)
    sink.request(5).expect_next(1)
    sink.expect_error(OSError)


def test_a_resource_under_supervision(actor_system):
    resource = Resource(1, ValueError("bad"), 2)
    assert elements(actor_system, resource.source().with_attributes(decider=resuming)) == [1, 2]
    assert resource.log == ["open", "close"]
    resource = Resource(1, ValueError("bad"), 2)
    left = [restarting, lambda _: Directive.STOP]
    source = resource.source().with_attributes(decider=lambda error: left.pop(0)(error))
    sink = source.run_with(TestSink.probe(), actor_system)
    sink.request(5).expect_next_n([1, 1])
    sink.expect_error(ValueError)
    assert resource.log[:3] == ["open", "close", "open"]


# ── async iterables ───────────────────────────────────────────────────────────────────────────────────────────────────


# ── combined ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_combine_joins_sources_in_any_junction(actor_system):
    from streamactors import Concat

    three = [Source.range(3), Source.range(10, 13), Source.single(99)]
    assert sorted(elements(actor_system, Source.combine(three))) == [0, 1, 2, 10, 11, 12, 99]
    assert elements(actor_system, Source.combine(three, Concat)) == [0, 1, 2, 10, 11, 12, 99]


def test_a_stage_of_ones_own_is_a_source(actor_system):
    from streamactors import GraphStageLogic
    from streamactors.engine.stage import SOURCE, GraphStage

    class Countdown(GraphStage):
        shape = SOURCE

        def logic(self):
            class Logic(GraphStageLogic):
                left = 3

                def on_pull(self, outlet):
                    self.push(outlet, self.left)
                    self.left -= 1
                    if not self.left:
                        self.complete_stage()

            return Logic()

    assert elements(actor_system, Source.from_stage(Countdown()).via(Flow.map(str))) == ["3", "2", "1"]
