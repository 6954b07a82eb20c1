"""Marks and restarts: a restarted source begins at what is done; parts that lose elements are refused."""

from __future__ import annotations

import pytest

from streamactors import (
    Flow,
    GraphStage,
    RestartFlow,
    RestartSettings,
    RestartSink,
    RestartSource,
    Sink,
    Source,
    Stage,
)
from streamactors.engine.marks.marks import EndOfInput, Needs
from streamactors.engine.stage import SINK
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BuildError
from tests.stages.restarting import QUICK, Factory, start, virtual_time  # noqa: F401


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
    with pytest.raises(BuildError, match=r"stage 'restart_(flow|sink)' loses the elements inside.*RestartSource"):
        graph(Source.range(3).with_replay(on_done=print)).run(actor_system)


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


@pytest.mark.expects_log("restart_source: failed")
def test_K_20_a_restarted_source_begins_at_what_is_done_and_loses_nothing(actor_system, clock):
    inside = Committed(100, 30, 60)
    seen = []
    done = inside.source().max_chunk(4).async_boundary(8).run_with(Sink.foreach(seen.append), actor_system)
    for _ in range(4):
        clock.advance("2s")
    done.result(30)
    assert sorted(set(seen)) == list(range(100))
    assert inside.position == 100
    assert len(inside.starts) == 3
    assert inside.starts == sorted(inside.starts)
    assert inside.starts[1] > 0


@pytest.mark.expects_log("restart_source: failed")
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
        traits = StageTraits(reads_marks=True, needs=Needs("the exact sink", exact=True))

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
        assert "put it into a RestartSource, or run it in a graph of its own" in str(error)
