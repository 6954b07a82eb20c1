"""pre_materialize: the run begins now, its elements are read later."""

from __future__ import annotations

import pytest

from streamactors import Keep, Sink, Source
from streamactors.errors import BuildError
from streamactors.stages.sources.queue_results import ENQUEUED
from streamactors.testing import TestSink, TestSource, assert_all_stages_stopped

pytestmark = pytest.mark.usefixtures("virtual_clock")  # silence costs no time, and means that all is at rest


def test_the_materialized_value_comes_before_the_elements_are_wanted(actor_system):
    queue, source = Source.queue(10).pre_materialize(actor_system)
    assert [queue.offer(x) for x in "abc"] == [ENQUEUED] * 3
    queue.complete()
    assert source.map(str.upper).run_with(Sink.to_list(), actor_system).result(30) == ["A", "B", "C"]


def test_all_elements_arrive_once_whatever_the_demand(actor_system):
    _, source = Source.range(5000).pre_materialize(actor_system)
    assert source.run_with(Sink.to_list(), actor_system).result(30) == list(range(5000))
    _, source = Source.range(5).pre_materialize(actor_system)
    sink = source.run_with(TestSink.probe(), actor_system)
    for x in range(5):
        sink.request(1).expect_next(x)
    sink.expect_complete()
    with pytest.raises(BuildError, match="can run only once"):
        source.run_with(Sink.ignore(), actor_system)


def test_cancellation_failure_and_an_empty_end_pass_from_run_to_run(actor_system):
    with assert_all_stages_stopped(actor_system):
        probe, source = TestSource.probe().pre_materialize(actor_system)
        sink = source.run_with(TestSink.probe(), actor_system)
        error = ValueError("downstream")
        sink.ensure_subscription().cancel(error)
        assert probe.expect_cancellation_with_cause() is error
        probe, source = TestSource.probe().pre_materialize(actor_system)
        error = ValueError("upstream")
        probe.send_error(error)
        assert (
            source.run_with(TestSink.probe(), actor_system).expect_subscription_and_error(signal_demand=False) is error
        )
        _, source = Source.empty().pre_materialize(actor_system)
        source.run_with(TestSink.probe(), actor_system).expect_subscription_and_complete(signal_demand=False)


def test_unread_elements_wait_and_hold_the_source_back(actor_system):
    probe, source = TestSource.probe().pre_materialize(actor_system)
    asked = probe.expect_request()
    probe.send_next(*range(asked)).expect_no_message("20ms")
    graph = source.to_mat(TestSink.probe(), Keep.right)
    sink = graph.run(actor_system)
    sink.request(1).expect_next(0)
    sink.cancel()
    probe.expect_cancellation()
