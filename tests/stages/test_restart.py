"""Restarting parts (case 36 of the acceptance list), under virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import (
    Flow,
    Keep,
    RestartFlow,
    RestartSettings,
    RestartSink,
    RestartSource,
    Sink,
    Source,
)
from streamactors.errors import BuildError
from streamactors.testing import TestSink, TestSource, assert_all_stages_stopped
from tests.stages.restarting import QUICK, Factory, failing, start, virtual_time  # noqa: F401

pytestmark = pytest.mark.expects_log("restart_source: failed")


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
        sink.expect_no_message(wait_s - 0.001)
        clock.advance("1ms")
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


@pytest.mark.expects_log("restart_flow: failed")
def test_a_flow_that_fails_is_made_again_and_only_what_was_inside_is_lost(actor_system, clock):
    make = Factory(Flow.map(lambda x: 10 // x))
    source, sink = through(actor_system, RestartFlow.with_backoff(QUICK, make))
    sink.request(10)
    source.send_next(1, 2)
    sink.expect_next(10, 5)
    source.send_next(0)
    sink.expect_no_message("999ms")
    source.send_next(5)
    sink.expect_no_message("0.5ms")
    clock.advance("1ms")
    sink.expect_next(2)
    assert make.made == 2
    source.send_complete()
    sink.expect_complete()
    assert make.made == 2


@pytest.mark.expects_log("restart_flow: failed")
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


@pytest.mark.expects_log("restart_flow: failed")
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


@pytest.mark.expects_log("restart_sink: failed")
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
    settings = RestartSettings(f"{least}ms", f"{least + more}ms", random_factor=factor)
    bounded = min(least + more, least * 2**restarts)
    assert bounded <= settings.delay_ms(restarts) <= bounded * (1 + factor) * 1.000001


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RestartSettings(0, "1ms"), "min_backoff must be more than 0"),
        (lambda: RestartSettings("2s", "1s"), "max_backoff '1s' is shorter than min_backoff '2s'"),
        (lambda: RestartSettings("1ms", "2ms", -1), "random_factor must be a number of at least 0, got -1"),
        (lambda: RestartSettings("1ms", "2ms", max_restarts=-1), "max_restarts must be at least 0"),
        (lambda: RestartSettings("1ms", "2ms", restart_on=3), "restart_on expects a function"),
        (lambda: RestartSource.with_backoff(3, list), "RestartSource expects RestartSettings, got int 3"),
        (lambda: RestartFlow.with_backoff(QUICK, Flow.identity()), "RestartFlow expects a function, got Flow"),
    ],
)
def test_mistakes_are_errors_at_their_line(make, message):
    with pytest.raises(BuildError, match=message):
        make()
