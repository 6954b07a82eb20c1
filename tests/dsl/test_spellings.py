"""Two ways to say the same, where people who come from Akka or from Python expect either."""

from __future__ import annotations

import pytest
from thespian.actors import Actor

import streamactors
from streamactors import (
    BuildError,
    Concat,
    Flow,
    Keep,
    KillSwitches,
    OverflowStrategy,
    RateExceeded,
    Sink,
    Source,
    ThrottleMode,
)
from streamactors import errors as all_errors


def listed(source, system):
    return source.run_with(Sink.to_list(), system).result(30)


def test_sources_are_combined_one_by_one_or_as_a_list(actor_system):
    a, b = Source.range(0, 2), Source.range(5, 7)
    for combined in (
        Source.combine(a, b, strategy=Concat),
        Source.combine([a, b], strategy=Concat),
        Source.combine([a, b], Concat),
        Source.combine((source for source in (a, b)), Concat),
    ):
        assert listed(combined, actor_system) == [0, 1, 5, 6]
    with pytest.raises(BuildError, match="expected a list and a strategy"):
        Source.combine([a], b, Concat)


def test_sinks_are_combined_one_by_one_or_as_a_list(actor_system):
    for combine in (lambda *sinks: Sink.combine(*sinks), lambda *sinks: Sink.combine(sinks)):
        ends = []
        both = [Sink.to_list().map_materialized_value(ends.append) for _ in range(2)]
        Source.range(0, 3).to(combine(*both)).run(actor_system)
        assert [end.result(30) for end in ends] == [[0, 1, 2], [0, 1, 2]]


def test_intersperse_takes_start_separator_end_in_a_row(actor_system):
    expected = ["[", 0, ",", 1, "]"]
    assert listed(Source.range(0, 2).intersperse("[", ",", "]"), actor_system) == expected
    assert listed(Source.range(0, 2).intersperse(",", start="[", end="]"), actor_system) == expected
    with pytest.raises(BuildError, match="start, separator, end"):
        Source.range(0, 2).intersperse("[", ",")


@pytest.mark.parametrize("flow_of", [lambda switch: switch.flow, lambda switch: switch.flow()])
def test_the_flow_of_a_shared_switch_needs_no_call(flow_of, actor_system):
    switch = KillSwitches.shared("stop")
    done = Source.never().via(flow_of(switch)).run_with(Sink.to_list(), actor_system)
    switch.shutdown()
    assert done.result(30) == []


def test_a_queue_with_backpressure_can_be_asked_for_by_its_strategy(actor_system):
    queue, taken = Source.queue(1, OverflowStrategy.backpressure).to_mat(Sink.to_list(), Keep.both).run(actor_system)
    assert queue.offer("a").result(30)
    queue.complete()
    assert taken.result(30) == ["a"]
    with pytest.raises(BuildError, match="backpressure"):
        Source.queue(1, "explode")


@pytest.mark.parametrize("strategy", [s for s in OverflowStrategy if s != OverflowStrategy.drop_new])
def test_a_strategy_is_a_member_or_its_text(strategy, actor_system):
    assert getattr(OverflowStrategy, strategy.upper()) is strategy
    for spelt in (strategy, str(strategy)):
        assert listed(Source.range(0, 3).buffer(10, spelt), actor_system) == [0, 1, 2]


def test_throttle_takes_the_mode_behind_the_burst(actor_system):
    for mode in (ThrottleMode.enforcing, "enforcing"):
        with pytest.raises(RateExceeded):
            listed(Source.range(0, 9).throttle(1, "1h", 1, mode), actor_system)


class Doubler(Actor):
    def receiveMessage(self, message, sender):
        if isinstance(message, int):
            self.send(sender, message * 2)


def test_ask_has_one_order_of_arguments_and_its_error_says_it(actor_system):
    actor = actor_system.create_actor(Doubler)
    numbers = Source.range(0, 3)
    for asked in (numbers.ask(actor, "30s", 2), numbers.via(Flow.ask(actor, parallelism=2, timeout="30s"))):
        assert listed(asked, actor_system) == [0, 2, 4]
    with pytest.raises(
        BuildError, match=r"address of an actor, got int 2; the order is ask\(actor, timeout, parallelism\)"
    ):
        numbers.ask(2, actor, "30s")  # Akka's order


def test_the_errors_of_streams_are_names_of_the_package():
    for name in (
        "NoSuchElement",
        "StreamLimitReached",
        "BufferOverflow",
        "RateExceeded",
        "AbruptTermination",
        "BuildError",
    ):
        assert getattr(streamactors, name) is getattr(all_errors, name)
        assert name in streamactors.__all__


def test_take_of_zero_completes_at_once_and_drop_of_zero_drops_nothing():
    assert Source.never().take(0).run_with(Sink.to_list()).result(10) == []
    assert Source.range(3).drop(0).run_with(Sink.to_list()).result(10) == [0, 1, 2]
    with pytest.raises(BuildError, match="take: n must be an integer, got str 'a'"):
        Source.range(3).take("a")
