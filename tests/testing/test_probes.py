"""The probes: what they wait for, what they report, and what they say when a test is wrong."""

from __future__ import annotations

import pytest

from streamactors import ActorSystem, Flow, Keep, Sink, Source
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.errors import ProtocolError
from streamactors.testing import TestSink, TestSource, VirtualClock
from streamactors.testing.signals import OnComplete

pytestmark = pytest.mark.usefixtures("virtual_clock")  # silence costs no time, and means that all is at rest


def probes(system: ActorSystem, flow=None):
    source = TestSource.probe("5s")
    if flow is not None:
        source = source.via(flow)
    return source.to_mat(TestSink.probe("5s"), Keep.both).run(system)


def test_elements_travel_only_when_both_sides_have_agreed(actor_system):
    source, sink = probes(actor_system)
    sink.request(3)
    assert source.expect_request() == 3
    source.send_next(1, None, 3)
    assert source.pending == 0
    sink.expect_next(1, None).expect_next(3)
    source.send_complete()
    sink.expect_complete()


def test_a_fused_chain_asks_for_no_more_than_was_requested(actor_system):
    source, sink = probes(actor_system, Flow.map(lambda x: x + 1).filter(lambda x: x > 0).map(str))
    sink.request(2)
    assert source.expect_request() == 2
    source.send_next(1)
    sink.expect_next("2")
    source.expect_no_message("20ms")
    sink.request(1)
    assert source.expect_request() == 1


def test_an_error_of_the_source_arrives_as_it_was_sent(actor_system):
    source, sink = probes(actor_system)
    error = ValueError("no more")
    source.send_error(error)
    assert sink.expect_error(ValueError) is error


def test_a_cancellation_carries_its_cause(actor_system):
    source, sink = probes(actor_system)
    error = ValueError("enough")
    sink.cancel(error)
    assert source.expect_cancellation_with_cause(ValueError) is error
    source, sink = probes(actor_system)
    sink.cancel()
    assert isinstance(source.expect_cancellation_with_cause(), NonFailureCancellation)


def test_request_next_and_its_kin(actor_system):
    sink = Source.from_iterable("abcdef").run_with(TestSink.probe(), actor_system)
    assert sink.request_next() == "a"
    sink.request_next("b").request(4)
    assert sink.expect_next_n(2) == ["c", "d"]
    sink.expect_next_unordered("f", "e")
    assert isinstance(sink.expect_next_or_complete(), OnComplete)


def test_receive_while_leaves_the_first_signal_that_does_not_fit(actor_system):
    sink = Source.range(10).run_with(TestSink.probe(), actor_system)
    sink.request(10)
    assert sink.receive_while(lambda x: x < 4) == [0, 1, 2, 3]
    assert sink.receive_while(lambda x: True, messages=2) == [4, 5]
    sink.expect_next(6)
    assert sink.receive_within("5s", messages=3) == [7, 8, 9]
    assert sink.receive_while(lambda x: True) == []
    sink.expect_complete()


def test_to_strict_returns_everything_or_raises_the_error(actor_system):
    assert Source.range(5000).run_with(TestSink.probe(), actor_system).to_strict() == list(range(5000))
    with pytest.raises(ZeroDivisionError):
        Source.range(3).map(lambda x: 1 // (x - 1)).run_with(TestSink.probe(), actor_system).to_strict()


def test_a_stream_without_elements(actor_system):
    Source.empty().run_with(TestSink.probe(), actor_system).expect_subscription_and_complete()
    Source.empty().run_with(TestSink.probe(), actor_system).expect_subscription_and_complete(signal_demand=False)
    error = (
        Source.failed(KeyError("k")).run_with(TestSink.probe(), actor_system).expect_subscription_and_error(KeyError)
    )
    assert error.args == ("k",)


def test_expect_next_where_and_expect_next_or_error(actor_system):
    source, sink = probes(actor_system)
    sink.request(3)
    source.send_next(4)
    assert sink.expect_next_where(lambda x: x % 2 == 0) == 4
    source.send_next(5)
    assert sink.expect_next_or_error(5, ValueError("x")) == 5
    error = ValueError("x")
    source.send_error(error)
    assert sink.expect_next_or_error(6, error) is error


def test_a_wrong_expectation_names_both_sides_and_what_came_before(actor_system):
    sink = Source.from_iterable([1, 2]).run_with(TestSink.probe("1s"), actor_system)
    sink.request(2).expect_next(1)
    with pytest.raises(
        AssertionError, match=r"expected element 3, got element 2 \(before: the subscription, element 1\)"
    ):
        sink.expect_next(3)
    with pytest.raises(AssertionError, match="expected a failure, got completion"):
        sink.expect_error()


def test_waiting_in_vain_ends_with_an_error(actor_system):
    source, sink = TestSource.probe("20ms").to_mat(TestSink.probe("20ms"), Keep.both).run(actor_system)
    with pytest.raises(AssertionError, match="expected an element, but nothing came in time"):
        sink.expect_next()
    with pytest.raises(AssertionError, match="expected a request, but nothing came in time"):
        source.send_next(1)
    with pytest.raises(AssertionError, match=r"took longer|nothing came"), sink.within("10ms"):
        sink.expect_next(timeout="5s")


def test_no_message_is_refuted_by_any_signal(actor_system):
    source, sink = probes(actor_system)
    sink.request(1)
    source.send_next(1)
    with pytest.raises(AssertionError, match="expected nothing for 5s, got element 1"):
        sink.expect_no_message("5s")


def test_an_element_nobody_asked_for_fails_the_source(actor_system):
    source, sink = probes(actor_system)
    source.ensure_subscription().unsafe_send_next(1)
    sink.expect_error(ProtocolError)


@pytest.mark.parametrize("n", [0, -1, True, 1.5])
def test_request_refuses_what_is_no_demand(actor_system, n):
    _, sink = probes(actor_system)
    with pytest.raises(ValueError, match="request expects an integer of at least 1"):
        sink.request(n)
    sink.cancel()


def test_silence_costs_no_real_time_under_a_virtual_clock(actor_system, virtual_clock):
    assert actor_system.clock is virtual_clock
    ticks = Source.tick("1h", "1h", "tick")
    sink = ticks.run_with(TestSink.probe(), actor_system)
    sink.request(3).expect_no_message("59m")
    with pytest.raises(AssertionError, match="advance it if time has to pass"):
        sink.expect_next(timeout="1ms")
    virtual_clock.advance("1m")
    sink.expect_next("tick")
    sink.cancel()


def test_the_fixtures_of_one_test_belong_together(actor_system, virtual_clock):
    assert isinstance(virtual_clock, VirtualClock)
    assert Source.single(1).run_with(Sink.head(), actor_system).result(30) == 1


def test_expect_next_pf_returns_what_the_function_answers(actor_system):
    sink = Source.from_iterable([{"a": 1}, {"b": 2}, {"a": 3}]).run_with(TestSink.probe(), actor_system)
    sink.request(3)
    assert sink.expect_next_pf(lambda element: element["a"]) == 1
    with pytest.raises(AssertionError, match=r"that the function answers.*'b': 2"):
        sink.expect_next_pf(lambda element: element["a"])
    with pytest.raises(AssertionError, match="'a': 3"):
        sink.expect_next_pf(lambda element: element.get("b"))
