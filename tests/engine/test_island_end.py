"""The end of an island: messages that arrive afterwards change nothing and log nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from functools import partial

import pytest

from streamactors import ActorSystem, BuildError, Flow, Keep, Sink, Source
from streamactors.engine.island.island import Island, StartIsland
from streamactors.engine.island.run import Run, runs_of
from streamactors.engine.stage import FLOW, GraphStage
from streamactors.errors import AbruptTermination
from streamactors.testing import TestSink
from tests.actors.eventually import eventually


@pytest.mark.parametrize("rounds", range(5))
def test_streams_that_end_or_are_shut_down_leave_no_dead_letters(rounds):
    with ActorSystem("quiet") as system:
        letters = []
        system.dead_letters.subscribe(lambda envelope: letters.append(envelope.deadMessage))
        ended = Source.range(1000).async_boundary().take(5).async_boundary().run_with(Sink.ignore(), system)
        running = Source.repeat(1).async_boundary().async_boundary().run_with(Sink.ignore(), system)
        ticking = Source.tick(0, "1ms", "t").async_boundary().run_with(Sink.ignore(), system)
        handle, sink = Source.tick("1h", "1h", 1).to_mat(TestSink.probe(), Keep.both).run(system)
        ended.result(30)
        sink.ensure_subscription()
    for future in (running, ticking):
        with pytest.raises(AbruptTermination):
            future.result(30)
    handle.cancel()  # its island is gone
    assert letters == []


def test_a_stream_whose_islands_got_no_turn_before_the_shutdown_fails(monkeypatch):
    # the second island of a run is started by the first -> the shutdown's message came to it before the first had a turn -> it was
    # kept for a start that never came, and the future of the sink was never done
    tell = Island.tell

    def without_a_start(island, message):
        if type(message) is not StartIsland:
            tell(island, message)

    monkeypatch.setattr(Island, "tell", without_a_start)
    with ActorSystem("too early") as system:
        future = Source.repeat(1).async_boundary().run_with(Sink.ignore(), system)
    with pytest.raises(AbruptTermination):
        future.result(30)


@pytest.mark.expects_log("raised in on_stop")
@pytest.mark.parametrize("raised", [ValueError, SystemExit, asyncio.CancelledError])
def test_a_stage_that_raises_while_it_is_released_leaves_the_other_stages_alone(raised, caplog):
    # SystemExit in the `finally` of a generator ended the island: its other stages got no turn any more, so the stream stood still,
    # and what they held was never released
    def numbers():
        try:
            yield from range(9)
        finally:
            raise raised("no way out")

    def others():
        try:
            yield from range(9)
        finally:
            released.append(True)

    released: list[bool] = []
    with ActorSystem("released") as system:
        twos = Source.range(3).flat_map_concat(
            lambda _: Source.lazy_source(lambda: Source.from_iterable(numbers())).take(2)
        )
        assert twos.run_with(Sink.to_list(), system).result(30) == [0, 1] * 3
        pairs = Source.from_iterable(numbers()).zip(Source.from_iterable(others())).take(1)
        assert pairs.run_with(Sink.to_list(), system).result(30) == [(0, 0)]
        eventually(lambda: not list(runs_of(system)))
    assert released
    assert any("raised in on_stop" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("kind", ["map_async", "from_async_iterable", "future"])
def test_a_stream_that_waits_for_a_coroutine_at_the_shutdown_says_so(kind):
    # the system's loop cancels its coroutines first: the stream failed with CancelledError, and a task that awaited it seemed cancelled
    began = threading.Event()

    async def waits(_=None):
        began.set()
        await asyncio.sleep(3_600)

    async def numbers():
        yield await waits()

    with ActorSystem("waiting") as system:
        source = {
            "map_async": lambda: Source.single(1).map_async(1, waits),
            "from_async_iterable": lambda: Source.from_async_iterable(numbers()),
            "future": lambda: Source.future(waits()),
        }[kind]()
        future = source.run_with(Sink.ignore(), system)
        assert began.wait(10)
    with pytest.raises(AbruptTermination):
        future.result(30)


@pytest.mark.expects_log("still running when the process ended")
def test_a_program_may_end_while_streams_run_and_says_so_once():
    program = """
from streamactors import Source, Sink
Source.repeat(1).async_boundary().run_with(Sink.ignore())
Source.tick(0, 1, 1).async_boundary().run_with(Sink.ignore())
print(Source.range(3).run_with(Sink.to_list()).result(30))
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "[0, 1, 2]\n")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("2 streams were still running")


def test_an_island_that_is_aborted_before_it_has_started_fails_its_stages():
    # run -> abort from another thread, while the pool is busy -> only then the message by which the first island starts the second
    go_on = threading.Event()
    with ActorSystem("busy", max_threads=1) as system:
        occupied = Source.single(1).map(lambda _: go_on.wait(30)).run_with(Sink.ignore(), system)
        before = set(runs_of(system))
        done = Source.range(0, 3).async_boundary().run_with(Sink.to_list(), system)
        (run,) = runs_of(system) - before
        run.abort(AbruptTermination("the test has ended it"))
        go_on.set()
        with pytest.raises(AbruptTermination, match="the test has ended it"):
            done.result(30)
        occupied.result(30)


def test_islands_start_with_the_first_even_while_that_one_blocks(actor_system):
    # The first island starts the others before its own stages, which may block their thread.
    go_on = threading.Event()

    def blocking():
        assert go_on.wait(30)
        yield 1

    blocked, free = (
        Source.from_iterable(blocking())
        .async_boundary()
        .merge(Source.range(5, 7).async_boundary())
        .to_mat(Sink.to_list(), Keep.right)
        .run(actor_system),
        Source.range(0, 3).run_with(Sink.to_list(), actor_system),
    )
    assert free.result(30) == [0, 1, 2]
    go_on.set()
    assert sorted(blocked.result(30)) == [1, 5, 6]


def test_streams_that_a_shutdown_has_no_time_for_fail_and_stop_all_the_same():
    # a user's call blocks the only thread -> the shutdown ends -> no island gets a turn any more, nor hears that the system has ended
    go_on, entered, stopped = threading.Event(), threading.Event(), threading.Event()

    def block(_):
        entered.set()
        go_on.wait(60)

    system = ActorSystem("no time", max_threads=1)
    try:
        occupied = Source.single(1).map(block).run_with(Sink.ignore(), system)
        assert entered.wait(30)
        resource = Source.unfold_resource(lambda: 1, lambda _: 1, lambda _: stopped.set())
        waiting = [resource.run_with(Sink.ignore(), system)]
        waiting += [Source.repeat(1).async_boundary().run_with(Sink.ignore(), system) for _ in range(20)]
        runs = set(runs_of(system))
        system.shutdown(0.005, quiet=True)
        for future in waiting:
            with pytest.raises(AbruptTermination):
                future.result(30)
        assert stopped.wait(30)
        assert not occupied.done()
    finally:
        go_on.set()
    occupied.exception(30)  # it has its turn, and may end well in it
    assert len(runs) == 22
    eventually(lambda: not runs_of(system))


def test_everybody_who_waits_for_the_end_of_a_run_hears_of_it_though_two_islands_begin_to_wait_at_once():
    # Two sources start on two threads: one has found no list of callbacks -> the other makes it, and adds its own -> the first makes another.
    # The consumer of the other never heard of the end: it kept its thread and its partitions.
    waiting, told = ["the other"], []

    class Beside(Run):
        __slots__ = ()

        @property
        def _ended(self):
            found = Run._ended.__get__(self)
            if waiting:
                self.when_ended(partial(told.append, waiting.pop()))
            return found

        @_ended.setter
        def _ended(self, found):
            Run._ended.__set__(self, found)

    with ActorSystem("two at once") as system:
        run = Beside(system)
        run.islands.append("an island")
        run.when_ended(partial(told.append, "this one"))
        run.island_ended("an island")
    assert sorted(told) == ["the other", "this one"]


def test_a_call_at_the_end_of_a_run_that_raises_keeps_no_other_call_from_being_made(caplog):
    # The calls behind the one that raised were not made, so a consumer kept its partitions.
    told = []
    with ActorSystem("one raises") as system:
        source, future = Source.maybe().to_mat(Sink.ignore(), Keep.both).run(system)
        (run,) = runs_of(system)
        run.when_ended(lambda: 1 // 0)
        run.when_ended(partial(told.append, "this one"))
        source.complete()
        future.result(30)
        eventually(lambda: system.base.actors == [])
    assert told == ["this one"]
    assert "ZeroDivisionError" in caplog.text


class Unbuildable(GraphStage):
    shape = FLOW

    def logic(self):
        raise BuildError("this part is in use by another run")


def in_a_stage(graph):
    return Source.single(1).flat_map_concat(lambda _: graph).to_mat(Sink.ignore(), Keep.right)


@pytest.mark.parametrize(
    "graph",
    [
        Source.single(1).async_boundary().via(Flow.from_stage(Unbuildable())).to_mat(Sink.ignore(), Keep.right),
        Source.single(1).async_boundary().to_mat(Sink.ignore(), Keep.right).map_materialized_value(lambda _: 1 // 0),
        in_a_stage(Source.single(1).async_boundary().via(Flow.from_stage(Unbuildable()))),
    ],
    ids=["the parts", "the materialized value", "the parts of an inner graph"],
)
def test_a_run_that_cannot_be_built_leaves_no_actor(graph):
    with ActorSystem("unbuilt") as system:
        for _ in range(3):
            with pytest.raises((BuildError, ZeroDivisionError)):
                graph.run(system).result(10)
        eventually(lambda: system.base.actors == [])
        assert runs_of(system) == set()
