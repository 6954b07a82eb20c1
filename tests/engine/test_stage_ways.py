"""What the two ways to write a stage offer beside one element in and one out: results at the end, several outlets, ports that fail, timers."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from streamactors import ActorSystem, Flow, GraphStageLogic, Keep, Stage
from streamactors.clock import VirtualClock
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.stage import ChunkLogic, GraphStage, fan_out
from streamactors.testing import TestSink, TestSource
from tests.stages.harness import Bench
from tests.stages.test_junction_demand import Probes


@pytest.fixture
def timeless() -> Any:
    with ActorSystem("ways", clock=VirtualClock()) as system:
        yield system
        system.clock.settle()


class EndsWith(Stage[Any, Any]):
    def __init__(self, *tail: Any) -> None:
        self.tail = tail

    def logic(self) -> Logic:
        return ChunkLogic(lambda chunk: chunk, on_end=lambda: self.tail)


@pytest.mark.parametrize("demand", [1, 2, 3, 9])
def test_results_of_the_end_wait_for_demand_and_the_stage_completes_behind_them(
    timeless: ActorSystem, demand: int
) -> None:
    with Bench(timeless, EndsWith("x", "y", "z")) as bench:
        bench.request(2)
        bench.send(1, 2)
        bench.complete()
        assert (bench.received, bench.end) == ([1, 2], None)
        bench.request(demand)
        assert bench.received == [1, 2, "x", "y", "z"][: 2 + demand]
        assert bench.end == ("completed" if demand >= 3 else None)
        bench.drain()
        assert (bench.received, bench.end) == ([1, 2, "x", "y", "z"], "completed")


def test_an_end_without_results_completes_at_once(timeless: ActorSystem) -> None:
    with Bench(timeless, EndsWith()) as bench:
        bench.complete()
        assert bench.end == "completed"


class Sorts(GraphStage):
    """Sends even numbers to the first outlet and odd ones to the second; 0 fails the second outlet alone."""

    shape = fan_out(2)

    def logic(self) -> GraphStageLogic:
        return SortsLogic()


class SortsLogic(GraphStageLogic):
    def on_push(self, inlet: Any) -> None:
        number = self.grab(inlet)
        if number == 0:
            self.fail(self.outlets[1], ValueError("none"))
            self.pull(inlet)
        else:
            self.push(self.outlets[number % 2], number)

    def on_pull(self, outlet: Any) -> None:
        open_ones = [each for each in self.outlets if not self.is_closed(each)]
        if all(map(self.is_available, open_ones)) and not self.has_been_pulled(self.in_):
            self.pull(self.in_)


def seen(probes: Probes) -> list[list[Any]]:
    return [[element for _, element in sink.seen] for sink in probes.sinks]


def test_a_stage_with_two_outlets_is_fed_from_one_chunk(timeless: ActorSystem) -> None:
    probes = Probes(timeless, Sorts())
    probes.request(9, 0)
    assert probes.asked == [0]
    probes.request(9, 1)
    probes.send(0, 1, 2, 3, 4, 6, 5)
    assert seen(probes) == [[2, 4, 6], [1, 3, 5]]
    probes.close()


def test_an_outlet_fails_alone_behind_what_was_pushed(timeless: ActorSystem) -> None:
    probes = Probes(timeless, Sorts())
    probes.request(9, 0)
    probes.request(9, 1)
    probes.send(0, 1, 0, 2)
    assert seen(probes) == [[2], [1]]
    (failure,) = probes.sinks[1].ends
    assert isinstance(failure, ValueError)
    assert probes.sinks[0].ends == []
    probes.close()


class Clocked(Stage[Any, Any]):
    """Emits the time of each tick: at 10 and every 5 ms from then on, until an element comes."""

    def logic(self) -> GraphStageLogic:
        return ClockedLogic()


class ClockedLogic(GraphStageLogic):
    def pre_start(self) -> None:
        self.began = self.now_ms()
        self.schedule_periodically("tick", 10, 5)
        self.schedule_once("never", 1)
        self.cancel_timer("never")

    def on_timer(self, key: object) -> None:
        self.emit(self.out, (key, self.now_ms() - self.began, self.is_timer_active("tick")))

    def on_push(self, inlet: Any) -> None:
        self.cancel_timer("tick")
        self.emit(self.out, (self.grab(inlet), self.is_timer_active("tick")))


def test_timers_of_a_stage_come_at_their_times_until_they_are_cancelled(timeless: ActorSystem) -> None:
    with Bench(timeless, Clocked()) as bench:
        bench.request(9)
        for _ in range(21):
            bench.advance("1ms")
        ticks = [("tick", 10, True), ("tick", 15, True), ("tick", 20, True)]
        assert bench.received == ticks
        bench.send("enough")
        bench.advance("100ms")
        assert bench.received == [*ticks, ("enough", False)]


def test_what_is_emitted_without_demand_is_told_in_a_snapshot(timeless: ActorSystem) -> None:
    with Bench(timeless, Clocked()) as bench:
        assert bench.logic.snapshot_state() == ""
        bench.advance("10ms")
        bench.advance("5ms")
        assert bench.logic.snapshot_state() == "emitting 2"


class Deadline(Stage[Any, Any]):
    """Sets its deadline anew while the message of the one before waits for the island, which is busy."""

    def logic(self) -> Logic:
        return DeadlineLogic()


class DeadlineLogic(FlowLogic):
    def on_push(self, in_: Connection) -> None:
        self.out.push(in_.grab(1))
        self.schedule_once("deadline", 0)
        over = threading.Event()
        self.interpreter.island.run.system.timers.call_later(0, over.set)
        assert over.wait(10)
        self.schedule_once("deadline", 3_600_000)
        in_.want(self.out.asked)

    def on_timer(self, key: object) -> None:
        self.fail_stage(RuntimeError("the deadline is over"))


def test_a_timer_that_is_set_again_does_not_come_early_when_its_message_was_on_its_way() -> None:
    with ActorSystem("busy") as system:
        source, sink = (
            TestSource.probe().via(Flow.from_stage(Deadline())).to_mat(TestSink.probe(), Keep.both).run(system)
        )
        sink.request(2)
        source.send_next(1)
        sink.expect_next(1)
        source.send_next(2)
        sink.expect_next(2)


class Lives(Stage[Any, Any]):
    """Goes on behind the end of its input until a timer lets it end; says when it has ended."""

    def __init__(self, ended: list[str]) -> None:
        self.ended = ended

    def logic(self) -> GraphStageLogic:
        return LivesLogic(self.ended)


class LivesLogic(GraphStageLogic):
    def __init__(self, ended: list[str]) -> None:
        self.ended = ended

    def pre_start(self) -> None:
        self.keep_going(True)
        self.schedule_once("open ports", 5)
        self.schedule_once("no ports", 20)

    def on_timer(self, key: object) -> None:
        self.keep_going(False)
        if key == "open ports":
            self.keep_going(True)

    def on_push(self, inlet: Any) -> None:
        self.push(self.out, self.grab(inlet))

    def on_upstream_finish(self, inlet: Any) -> None:
        self.complete(self.out)

    def post_stop(self) -> None:
        self.ended.append("ended")


def test_a_stage_that_is_kept_alive_ends_when_it_is_let_go_behind_its_last_port(timeless: ActorSystem) -> None:
    ended: list[str] = []
    with Bench(timeless, Lives(ended)) as bench:
        bench.request(9)
        bench.send(1)
        bench.advance("10ms")
        assert (bench.received, bench.end, ended) == ([1], None, []), "its ports are open"
        bench.send(2)
        bench.complete()
        assert (bench.received, bench.end, ended) == ([1, 2], "completed", []), "it is kept alive"
        bench.advance("9ms")
        assert ended == []
        bench.advance("1ms")
        assert ended == ["ended"]
