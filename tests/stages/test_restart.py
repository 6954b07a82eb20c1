"""Restarting parts (case 36 of the acceptance list), under virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import (
    Flow,
    GraphStage,
    Keep,
    RestartFlow,
    RestartSettings,
    RestartSink,
    RestartSource,
    Sink,
    Source,
    Stage,
)
from streamactors.engine.marks import EndOfInput, Needs
from streamactors.engine.stage import SINK
from streamactors.errors import BuildError
from streamactors.testing import TestSink, TestSource, assert_all_stages_stopped

QUICK = RestartSettings("1s", "8s", random_factor=0)


@pytest.fixture
def clock(virtual_clock, actor_system):
    return virtual_clock


class Factory:
    """Makes parts from a script, the last one again and again, and counts."""

    def __init__(self, *parts):
        self.parts = list(parts)
        self.made = 0

    def __call__(self):
        part = self.parts[min(self.made, len(self.parts) - 1)]
        self.made += 1
        if isinstance(part, BaseException):
            raise part
        return part


def start(system, source):
    return source.run_with(TestSink.probe(), system)


def failing(*elements, error=None):
    """Emits the elements, then fails."""

    def step(i):
        if i == len(elements):
            raise error or ValueError("inner")
        return i + 1, elements[i]

    return Source.unfold(0, step)


# ── source ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_36_a_source_that_completes_is_made_again_after_the_wait(actor_system, clock):
    make = Factory(Source.from_iterable("ab"))
    sink = start(actor_system, RestartSource.with_backoff(QUICK, make))
    sink.request(10).expect_next("a", "b").expect_no_message("999ms")
    assert make.made == 1
    clock.advance("1ms")
    sink.expect_next("a", "b")
    assert make.made == 2
    sink.cancel()


def test_36_a_source_that_fails_is_made_again_and_the_wait_doubles_to_its_bound(actor_system, clock):
    settings = RestartSettings("1s", "8s", random_factor=0, max_restarts_within="1h")
    make = Factory(failing("a"))
    sink = start(actor_system, RestartSource.with_backoff(settings, make))
    sink.request(100).expect_next("a")
    for wait_s in (1, 2, 4, 8, 8):
        sink.expect_no_message(wait_s * 1000 - 1)
        clock.advance(1)
        sink.expect_next("a")
    assert make.made == 6
    sink.cancel()


def test_36_cancelling_while_it_waits_ends_it_for_good(actor_system, clock):
    make = Factory(Source.single("a"))
    with assert_all_stages_stopped(actor_system):
        sink = start(actor_system, RestartSource.with_backoff(QUICK, make))
        sink.request(5).expect_next("a").cancel()
        clock.settle()
    clock.advance("1h")
    assert make.made == 1


def test_36_at_the_limit_it_ends_as_the_source_did(actor_system, clock):
    settings = RestartSettings("1s", "8s", random_factor=0, max_restarts=1, max_restarts_within="1m")
    make = Factory(Source.single("a"))
    sink = start(actor_system, RestartSource.with_backoff(settings, make))
    sink.request(5).expect_next("a")
    clock.advance("1s")
    sink.expect_next("a").expect_complete()
    assert make.made == 2
    error = ValueError("again")
    sink = start(actor_system, RestartSource.with_backoff(settings, Factory(failing("a", error=error))))
    sink.request(5).expect_next("a")
    clock.advance("1s")
    sink.expect_next("a")
    assert sink.expect_error() is error


def test_36_one_that_ran_longer_than_the_window_starts_the_count_and_the_waits_anew(actor_system, clock):
    settings = RestartSettings("1s", "100s", random_factor=0, max_restarts=2, max_restarts_within="10s")
    slow = Source.tick("11s", "1h", "t").take(1)
    make = Factory(Source.single("a"), Source.single("b"), slow, slow, slow, slow)
    sink = start(actor_system, RestartSource.with_backoff(settings, make))
    sink.request(50).expect_next("a")
    clock.advance("1s")
    sink.expect_next("b")
    clock.advance("2s")  # the second wait was doubled
    for _ in range(4):  # more restarts than the limit, but each source ran long enough
        clock.advance("11s")
        sink.expect_next("t").expect_no_message("999ms")
        clock.advance("1ms")
    sink.cancel()


def test_36_an_error_that_is_not_worth_a_restart_fails_it(actor_system, clock):
    settings = RestartSettings("1s", "8s", random_factor=0, restart_on=lambda error: not isinstance(error, KeyError))
    make = Factory(failing("a"), failing("b", error=KeyError("fatal")))
    sink = start(actor_system, RestartSource.with_backoff(settings, make))
    sink.request(5).expect_next("a")
    clock.advance("1s")
    sink.expect_next("b").expect_error(KeyError)


def test_on_failures_only_completion_completes(actor_system, clock):
    make = Factory(failing("a"), Source.single("b"))
    sink = start(actor_system, RestartSource.on_failures_with_backoff(QUICK, make))
    sink.request(5).expect_next("a")
    clock.advance("1s")
    sink.expect_next("b").expect_complete()


def test_a_source_that_cannot_even_be_made_counts_as_failed(actor_system, clock):
    make = Factory(OSError("no connection"), Source.single("a"))
    sink = start(actor_system, RestartSource.on_failures_with_backoff(QUICK, make))
    sink.request(5).expect_no_message("999ms")
    clock.advance("1ms")
    sink.expect_next("a").expect_complete()


def test_what_is_no_source_is_an_error_when_it_is_run(actor_system, clock):
    with pytest.raises(BuildError, match=r"returns a Source, it returned list \[1, 2\]"):
        start(actor_system, RestartSource.with_backoff(QUICK, Factory([1, 2])))
    sink = start(actor_system, RestartSource.with_backoff(QUICK, Factory(Source.single("a"), [1, 2])))
    sink.request(5).expect_next("a")
    clock.advance("1s")
    sink.expect_error(BuildError)


def test_demand_is_kept_over_a_restart_and_never_exceeded(actor_system, clock):
    sink = start(actor_system, RestartSource.with_backoff(QUICK, Factory(Source.from_iterable([1, 2, 3]))))
    sink.request(4).expect_next(1, 2, 3)
    clock.advance("1s")
    sink.expect_next(1).expect_no_message("1h")
    sink.request(1).expect_next(2)
    sink.cancel()


def test_cancelling_reaches_the_running_source(actor_system, clock):
    probes = []
    inner = TestSource.probe().map_materialized_value(probes.append)
    with assert_all_stages_stopped(actor_system):
        sink = start(actor_system, RestartSource.with_backoff(QUICK, lambda: inner))
        sink.ensure_subscription().cancel()
        probes[0].expect_cancellation()


# ── flow ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def through(system, flow):
    return TestSource.probe().via(flow).to_mat(TestSink.probe(), Keep.both).run(system)


def test_a_flow_that_fails_is_made_again_and_only_what_was_inside_is_lost(actor_system, clock):
    make = Factory(Flow.map(lambda x: 10 // x))
    source, sink = through(actor_system, RestartFlow.with_backoff(QUICK, make))
    sink.request(10)
    source.send_next(1, 2)
    sink.expect_next(10, 5)
    source.send_next(0)
    sink.expect_no_message("999ms")
    source.send_next(5)
    sink.expect_no_message(0.5)
    clock.advance(1)
    sink.expect_next(2)
    assert make.made == 2
    source.send_complete()
    sink.expect_complete()
    assert make.made == 2


def test_what_a_flow_emitted_before_it_failed_arrives(actor_system, clock):
    source, sink = through(actor_system, RestartFlow.with_backoff(QUICK, Factory(Flow.map(lambda x: 10 // x))))
    sink.request(10)
    source.send_next(1, 2, 0)
    sink.expect_next(10, 5).expect_no_message("500ms")
    sink.cancel()


def test_a_flow_that_completes_is_made_again_unless_only_failures_count(actor_system, clock):
    source, sink = through(actor_system, RestartFlow.with_backoff(QUICK, Factory(Flow.take(1))))
    sink.request(10)
    source.send_next("a")
    sink.expect_next("a")
    clock.advance("1s")
    source.send_next("b")
    sink.expect_next("b")
    sink.cancel()
    source.expect_cancellation()
    source, sink = through(actor_system, RestartFlow.on_failures_with_backoff(QUICK, Factory(Flow.take(1))))
    sink.request(10)
    source.send_next("a")
    sink.expect_next("a").expect_complete()
    source.expect_cancellation()


def test_a_flow_that_cancels_is_given_a_moment_to_say_why(actor_system, clock):
    end = TestSource.probe()
    probes = []
    inner = Flow.from_sink_and_source(Sink.cancelled(), end.map_materialized_value(probes.append))
    error = KeyError("said later")
    settings = RestartSettings("1s", "8s", random_factor=0, restart_on=lambda e: e is not error)
    _, sink = through(actor_system, RestartFlow.with_backoff(settings, Factory(inner)))
    sink.ensure_subscription().expect_no_message("49ms")
    probes[0].send_error(error)
    assert sink.expect_error() is error


def test_the_end_of_upstream_reaches_the_flow_and_nothing_is_restarted(actor_system, clock):
    make = Factory(Flow.fold(0, lambda a, b: a + b))
    source, sink = through(actor_system, RestartFlow.with_backoff(QUICK, make))
    sink.request(5)
    source.send_next(1, 2).send_complete()
    sink.expect_next(3).expect_complete()
    source, sink = through(actor_system, RestartFlow.with_backoff(QUICK, make))
    error = ValueError("upstream")
    sink.request(1)
    source.send_error(error)
    assert sink.expect_error() is error
    assert make.made == 2


def test_upstream_may_end_while_the_flow_waits(actor_system, clock):
    with assert_all_stages_stopped(actor_system):
        source, sink = through(actor_system, RestartFlow.with_backoff(QUICK, Factory(Flow.map(lambda x: 1 // x))))
        sink.request(5)
        source.send_next(0)
        clock.settle()
        source.send_complete()
        sink.expect_complete()


# ── sink ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def into(system, sink):
    return TestSource.probe().to(sink).run(system)


def test_a_sink_that_fails_or_cancels_is_made_again(actor_system, clock):
    seen = []

    def see(x):
        if x == "bad":
            raise ValueError(x)
        seen.append(x)

    make = Factory(Sink.foreach(see), Sink.head(), Sink.foreach(see))
    source = into(actor_system, RestartSink.with_backoff(QUICK, make))
    source.send_next("a", "bad")
    clock.advance("999ms")
    assert make.made == 1
    clock.advance("1ms")
    source.send_next("for head")
    clock.advance("2s")
    source.send_next("b")
    clock.settle()
    assert seen == ["a", "b"]
    source.send_complete()
    clock.settle()
    assert make.made == 3


def test_a_sink_beyond_its_limit_cancels_upstream_with_the_error(actor_system, clock):
    error = ValueError("sink")

    def explode(_):
        raise error

    settings = RestartSettings("1s", "8s", random_factor=0, max_restarts=0)
    source = into(actor_system, RestartSink.with_backoff(settings, Factory(Sink.foreach(explode))))
    source.send_next(1)
    assert source.expect_cancellation_with_cause() is error
    source = into(actor_system, RestartSink.on_failures_with_backoff(settings, Factory(Sink.cancelled())))
    source.expect_cancellation()


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 200), st.floats(0, 2), st.integers(1, 1000), st.integers(0, 100_000))
def test_the_wait_doubles_up_to_its_bound_and_the_random_part_comes_on_top(restarts, factor, least, more):
    settings = RestartSettings(least, least + more, random_factor=factor)
    bounded = min(least + more, least * 2**restarts)
    assert bounded <= settings.delay_ms(restarts) <= bounded * (1 + factor) * 1.000001


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RestartSettings(0, 1), "min_backoff must be more than 0"),
        (lambda: RestartSettings("2s", "1s"), "max_backoff '1s' is shorter than min_backoff '2s'"),
        (lambda: RestartSettings(1, 2, -1), "random_factor must be a number of at least 0, got -1"),
        (lambda: RestartSettings(1, 2, max_restarts=-1), "max_restarts must be at least 0"),
        (lambda: RestartSettings(1, 2, restart_on=3), "restart_on expects a function"),
        (lambda: RestartSource.with_backoff(3, list), "RestartSource expects RestartSettings, got int 3"),
        (lambda: RestartFlow.with_backoff(QUICK, Flow.identity()), "RestartFlow expects a function, got Flow"),
    ],
)
def test_mistakes_are_errors_at_their_line(make, message):
    with pytest.raises(BuildError, match=message):
        make()


@pytest.mark.parametrize(
    "graph",
    [
        lambda s: s.via(RestartFlow.with_backoff(QUICK, Flow.identity)).to(Sink.ignore()),
        lambda s: s.to(RestartSink.with_backoff(QUICK, Sink.ignore)),
    ],
    ids=["flow", "sink"],
)
def test_K_20_a_run_that_reads_marks_refuses_flows_and_sinks_that_restart(actor_system, graph):
    graph(Source.range(3)).run(actor_system)
    with pytest.raises(BuildError, match=r"stage 'restart_(flow|sink)' loses what is inside.*RestartSource"):
        graph(Source.range(3).with_replay(on_done=print)).run(actor_system)


# ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Committed:
    """A source of 0 … n - 1 that starts where it was committed, as a Kafka source does, and fails once at each of some elements."""

    def __init__(self, n, *fails):
        self.n = n
        self.fails = list(fails)
        self.position = 0
        self.starts = []

    def make(self):
        start = self.position
        self.starts.append(start)

        def check(x):
            if self.fails and x == self.fails[0]:
                self.fails.pop(0)
                raise ValueError(f"at {x}")
            return x

        return Source.range(self.n).with_replay(start, on_done=self.done).map(check)

    def done(self, position):
        assert position >= self.position, "went back"
        self.position = position

    def source(self):
        return RestartSource.on_failures_with_backoff(QUICK, self.make)


def test_K_20_a_restarted_source_begins_at_what_is_done_and_loses_nothing(actor_system, clock):
    inside = Committed(100, 30, 60)
    seen = []
    done = inside.source().max_chunk(4).async_boundary(8).run_with(Sink.foreach(seen.append), actor_system)
    for _ in range(4):
        clock.advance("2s")
    done.result(5)
    assert sorted(set(seen)) == list(range(100))
    assert inside.position == 100
    assert len(inside.starts) == 3
    assert inside.starts == sorted(inside.starts)
    assert inside.starts[1] > 0


def test_a_sink_that_failed_inside_gets_again_what_it_had_not_done(actor_system, clock):
    committed, stored, fails = [0], [], [7]

    def store(x):
        if fails and x == fails[0]:
            fails.clear()
            raise ValueError("store")
        stored.append(x)

    def make():
        source = Source.range(20).with_replay(committed[-1], on_done=committed.append)
        return source.max_chunk(3).also_to(Sink.foreach(store))

    RestartSource.on_failures_with_backoff(QUICK, make).run_with(Sink.ignore(), actor_system)
    clock.settle()
    assert max(committed) <= 7
    clock.advance("2s")
    assert sorted(set(stored)) == list(range(20))
    assert committed[-1] == 20


def test_marks_of_a_restarted_source_pass_junctions_around_and_inside_it(actor_system, clock):
    positions = []

    def make():
        numbers = Source.range(50).with_replay(on_done=positions.append)
        return numbers.also_to(Sink.ignore()).via(Flow.identity()).merge(Source.empty())

    source = RestartSource.on_failures_with_backoff(QUICK, make).merge(Source.from_iterable("ab"))
    result = source.run_with(Sink.combine([Sink.ignore(), Sink.ignore()]), actor_system)
    assert result is not None
    clock.settle()
    assert positions[-1] == 50


def test_the_end_of_input_passes_only_when_there_is_no_restart(actor_system, clock):
    settings = RestartSettings("1s", "8s", random_factor=0, max_restarts=1, max_restarts_within="1h")
    make = Factory(Source.range(3).with_replay())
    sink = start(actor_system, RestartSource.with_backoff(settings, make))
    sink.request(10).expect_next(0, 1, 2).expect_no_message("500ms")
    assert not [mark for mark in sink.marks if isinstance(mark, EndOfInput)]
    clock.advance("1s")
    sink.expect_next(0, 1, 2).expect_complete()
    assert isinstance(sink.marks[-1], EndOfInput)
    positions = [position for mark in sink.marks if isinstance(mark, dict) for position in mark.values()]
    assert positions == sorted(positions), "the second source has the later epoch"
    assert len({key for mark in sink.marks if isinstance(mark, dict) for key in mark}) == 1


def test_the_source_inside_is_known_when_the_run_is_built(actor_system):
    class Opaque(Stage):
        def logic(self):
            raise AssertionError("never runs")

    class Exact(GraphStage):
        """A sink that reads marks and needs all of them."""

        shape = SINK
        reads_marks = True
        needs = Needs("the exact sink", exact=True)

    replayed = RestartSource.with_backoff(QUICK, lambda: Source.range(3).with_replay())
    with pytest.raises(BuildError, match="restart_flow"):
        replayed.via(RestartFlow.with_backoff(QUICK, Flow.identity)).to(Sink.ignore()).run(actor_system)
    with pytest.raises(BuildError, match="the exact sink cannot follow its elements through stage 'opaque'"):
        replayed.via(Flow.from_stage(Opaque())).to(Sink.from_stage(Exact())).run(actor_system)


def test_a_source_that_reads_marks_is_refused_where_nobody_can_follow_it(actor_system, clock):
    inner = Source.range(3).with_replay(on_done=print)
    for source in (
        Source.single(1).flat_map_concat(lambda _: inner),
        Source.single(1).flat_map_merge(2, lambda _: inner),
        Source.lazy_source(lambda: inner),
    ):
        error = start(actor_system, source).expect_subscription_and_error(BuildError)
        assert "put it into a RestartSource, or run it apart" in str(error)
