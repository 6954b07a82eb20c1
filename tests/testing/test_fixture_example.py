"""The example of docs/testing.md that needs pytest."""

from __future__ import annotations

from streamactors import Flow, Source
from streamactors.testing import TestSink


def test_a_message_a_second(actor_system, virtual_clock):
    sink = Source.range(3_600).via(Flow.throttle(1, "1s")).run_with(TestSink.probe(), actor_system)
    sink.request(3_600).expect_next(0)
    virtual_clock.advance("1h")
    sink.expect_next_n(3_599)
    sink.expect_complete()
