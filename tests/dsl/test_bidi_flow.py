"""BidiFlow: two flows in opposite directions, put above each other, turned round and joined."""

from __future__ import annotations

from typing import Any

from streamactors import ActorSystem, BidiFlow, Flow, Sink, Source


def ran(flow: Any, system: ActorSystem) -> list[Any]:
    return Source.from_iterable("ab").via(flow).run_with(Sink.to_list(), system).result(10)


def tagged(out: str, back: str) -> BidiFlow[str, str, str, str, Any]:
    return BidiFlow.from_functions(lambda text: f"{text}{out}", lambda text: f"{text}{back}")


TURN = Flow.map(lambda text: f"{text}|")


def test_the_way_out_and_the_way_back_are_two_flows(actor_system: ActorSystem) -> None:
    both = BidiFlow.from_flows(Flow.map(str.upper), Flow.map(lambda text: text * 2))
    assert ran(both.join(TURN), actor_system) == ["A|A|", "B|B|"]


def test_what_stands_above_is_met_first_on_the_way_out_and_last_on_the_way_back(actor_system: ActorSystem) -> None:
    stack = tagged("1", "4").atop(tagged("2", "3"))
    assert ran(stack.join(TURN), actor_system) == ["a12|34", "b12|34"]
    assert ran(stack.atop(tagged("x", "y")).join(TURN), actor_system) == ["a12x|y34", "b12x|y34"]


def test_a_part_that_is_turned_round_has_its_directions_exchanged(actor_system: ActorSystem) -> None:
    part = tagged("1", "2")
    assert ran(part.reversed().join(TURN), actor_system) == ["a2|1", "b2|1"]
    assert ran(part.reversed().reversed().join(TURN), actor_system) == ["a1|2", "b1|2"]
    assert ran(part.atop(part.reversed()).join(TURN), actor_system) == ["a12|12", "b12|12"]
