"""Kill switches (case 35 of the acceptance list)."""

from __future__ import annotations

import signal
import threading

import pytest

from streamactors import Flow, GraphDSL, Keep, KillSwitches, Sink, Source
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.errors import BuildError
from streamactors.testing import TestSink, TestSource, assert_all_stages_stopped

pytestmark = pytest.mark.usefixtures("virtual_clock")  # silence costs no time, and means that all is at rest


def run(system, flow):
    graph = TestSource.probe().via_mat(flow, Keep.both).to_mat(TestSink.probe(), Keep.both)
    (source, switch), sink = graph.run(system)
    return source, switch, sink


def test_35_shutdown_completes_downstream_and_cancels_upstream(actor_system):
    with assert_all_stages_stopped(actor_system):
        source, switch, sink = run(actor_system, KillSwitches.single())
        sink.request(2)
        source.send_next("x")
        sink.expect_next("x")
        switch.shutdown()
        sink.expect_complete()
        assert isinstance(source.expect_cancellation_with_cause(), NonFailureCancellation)


def test_35_abort_fails_both_sides_with_the_error(actor_system):
    source, switch, sink = run(actor_system, KillSwitches.single())
    error = ValueError("enough")
    switch.abort(error)
    assert sink.expect_subscription_and_error(signal_demand=False) is error
    assert source.expect_cancellation_with_cause() is error


@pytest.mark.parametrize("first", ["shutdown", "abort"])
def test_35_the_first_call_counts(actor_system, first):
    _, switch, sink = run(actor_system, KillSwitches.single())
    if first == "shutdown":
        switch.shutdown()
        switch.abort(ValueError())
        sink.expect_subscription_and_complete(signal_demand=False)
    else:
        switch.abort(KeyError())
        switch.shutdown()
        switch.abort(ValueError())
        sink.expect_subscription_and_error(KeyError, signal_demand=False)
    assert switch.used


def test_35_each_run_has_a_switch_of_its_own_and_two_in_series_are_independent(actor_system):
    flow = KillSwitches.single().via_mat(KillSwitches.single(), Keep.both)
    source, (upper, lower), sink = run(actor_system, flow)
    other_source, other_switches, other_sink = run(actor_system, flow)
    upper.shutdown()
    source.expect_cancellation()
    sink.expect_subscription_and_complete(signal_demand=False)
    other_sink.request(1)
    other_source.send_next("still")
    other_sink.expect_next("still")
    assert not lower.used
    other_switches[1].abort(ValueError("lower"))
    assert str(other_source.expect_cancellation_with_cause(ValueError)) == "lower"


def test_35_a_shared_switch_ends_every_stream_and_those_that_start_later_end_at_once(actor_system):
    switch = KillSwitches.shared("all")
    with assert_all_stages_stopped(actor_system):
        runs = [run(actor_system, switch.flow()) for _ in range(3)]
        for source, value, sink in runs:
            assert value is switch
            sink.request(1)
            source.send_next(1)
            sink.expect_next(1)
        error = ValueError("all of you")
        switch.abort(error)
        for source, _, sink in runs:
            assert sink.expect_error() is error
            assert source.expect_cancellation_with_cause() is error
        late, _, sink = run(actor_system, switch.flow())
        assert sink.expect_subscription_and_error(signal_demand=False) is error
        late.expect_cancellation()
    assert repr(switch) == "<SharedKillSwitch 'all', used>"


def test_one_shared_switch_may_stand_in_a_graph_twice(actor_system):
    switch = KillSwitches.shared("both")
    flow = switch.flow().via(Flow.map(str)).via(switch.flow())
    source, _, sink = run(actor_system, flow)
    switch.shutdown()
    source.expect_cancellation()
    sink.expect_subscription_and_complete(signal_demand=False)


def test_without_use_a_switch_only_passes_elements_on(actor_system):
    assert Source.range(5000).via(KillSwitches.single()).run_with(Sink.to_list(), actor_system).result(30) == list(
        range(5000)
    )
    source, switch, sink = run(actor_system, KillSwitches.single())
    sink.ensure_subscription().cancel(KeyError("mine"))
    source.expect_cancellation_with_cause(KeyError)
    switch.shutdown()  # too late for anything


def test_a_switch_forgets_streams_that_have_ended(actor_system):
    switch = KillSwitches.shared()
    with assert_all_stages_stopped(actor_system):
        for _ in range(10):
            Source.range(3).via(switch.flow()).run_with(Sink.ignore(), actor_system).result(30)
    assert not switch._stages


def test_a_bidi_switch_ends_both_ways_together(actor_system):
    with GraphDSL() as g:
        switch = g.add(KillSwitches.single_bidi(), keep=True)
        for way in (0, 1):
            g.add(TestSource.probe(), keep=True) >> switch.in_(way)
            switch.out(way) >> g.add(TestSink.probe(), keep=True)
    switch, there, end, back, home = g.to_runnable().run(actor_system)
    for source, sink in ((there, end), (back, home)):
        sink.request(1)
        source.send_next("x")
        sink.expect_next("x")
    there.send_complete()
    end.expect_complete()
    home.request(1)
    back.send_next("the other way goes on")
    home.expect_next("the other way goes on")
    switch.shutdown()
    back.expect_cancellation()
    home.expect_complete()


def test_mistakes(actor_system):
    _, switch, sink = run(actor_system, KillSwitches.single())
    with pytest.raises(TypeError, match="abort expects an exception, got str 'stop'"):
        switch.abort("stop")
    sink.cancel()
    with pytest.raises(BuildError, match="name must be a string"):
        KillSwitches.shared("")


def test_what_a_switch_cut_off_is_not_done(actor_system):
    positions = []
    source = Source.range(10).with_replay(marks_at=range(11), on_done=positions.append).max_chunk(1)
    switch, sink = (
        source.via_mat(KillSwitches.single(), Keep.right).to_mat(TestSink.probe(), Keep.both).run(actor_system)
    )
    sink.request(3).expect_next(0, 1, 2)
    switch.shutdown()
    sink.expect_complete()
    assert positions == [1, 2, 3]


def test_a_signal_shuts_the_switch_down_and_then_calls_the_handler_that_was_there(actor_system):
    # uvicorn waits for open responses before it ends the lifespan, so a response without an end held the process up
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        switch = KillSwitches.shared("browsers")
        switch.shutdown_at_signals(signal.SIGTERM)
        ended = Source.repeat(1).via(switch.flow()).run_with(Sink.ignore(), actor_system)
        signal.raise_signal(signal.SIGTERM)
        ended.result(timeout=10)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_signals_are_left_alone_on_other_threads_and_where_they_are_ignored():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        KillSwitches.shared("browsers").shutdown_at_signals(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        other = threading.Thread(target=KillSwitches.shared("others").shutdown_at_signals)
        other.start()
        other.join()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
