"""Runs of flows between probes, for tests of parts that run inside stages."""

from __future__ import annotations

from hypothesis import settings

from streamactors import Keep, Sink
from streamactors.testing import TestSink, TestSource

LAW = settings(max_examples=40)


def run(source, system):
    return source.run_with(Sink.to_list(), system).result(10)


def probes(flow, system):
    """Return (source probe, sink probe, materialized value of the flow) of a run of the flow."""
    (source, value), sink = TestSource.probe().via_mat(flow, Keep.both).to_mat(TestSink.probe(), Keep.both).run(system)
    return source, sink, value
