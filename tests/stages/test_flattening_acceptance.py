"""What flattening operators promise, scenario by scenario; and that a cancellation tells its cause."""

from __future__ import annotations

from streamactors import Keep, Sink, Source
from streamactors.engine.island.causes import NO_MORE_ELEMENTS
from streamactors.errors import BuildError
from streamactors.testing import TestSink, TestSource


class Boom(Exception):
    pass


def test_flat_map_merge_runs_no_more_than_its_breadth(actor_system):
    running, most = [0], [0]

    def inner(i):
        running[0] += 1
        most[0] = max(most[0], running[0])
        return Source.repeat(i)

    sink = Source.range(0, 8).flat_map_merge(4, inner).run_with(TestSink.probe(), actor_system)
    sink.request(400)
    assert set(sink.expect_next_n(400)) == {0, 1, 2, 3}
    assert most[0] == 4
    sink.cancel()


def test_an_inner_error_fails_the_stream_and_cancels_the_siblings(actor_system):
    probes = []

    def inner(i):
        return Source.failed(Boom()) if i == 2 else TestSource.probe().map_materialized_value(probes.append)

    sink = Source.range(0, 3).flat_map_merge(4, inner).run_with(TestSink.probe(), actor_system)
    sink.request(10)
    assert isinstance(sink.expect_error(), Boom)
    for probe in probes:
        probe.expect_cancellation()


def test_a_function_that_returns_no_source_is_told_so(actor_system):
    error = Source.range(0, 3).flat_map_concat(lambda x: [x]).run_with(Sink.ignore(), actor_system).exception(10)
    assert isinstance(error, BuildError)
    assert "expects its function to return a Source, got list" in str(error)


def test_a_cause_travels_with_a_cancellation(actor_system):
    source, sink = TestSource.probe().map(lambda x: x).to_mat(TestSink.probe(), Keep.both).run(actor_system)
    sink.request(1)
    sink.cancel(NO_MORE_ELEMENTS)
    assert source.expect_cancellation_with_cause() is NO_MORE_ELEMENTS


def test_an_inner_source_may_end_in_an_async_boundary(actor_system):
    inner = Source.range(0, 5).async_boundary().map(str).async_boundary()
    done = Source.range(0, 3).flat_map_merge(2, lambda _: inner).run_with(Sink.to_list(), actor_system)
    assert sorted(done.result(30)) == sorted(["0", "1", "2", "3", "4"] * 3)
