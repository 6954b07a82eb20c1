"""The end of an island: quiet, whoever still sends it something."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.errors import AbruptTermination
from streamactors.testing import TestSink


@pytest.mark.parametrize("rounds", range(5))
def test_streams_that_end_or_are_shut_down_leave_no_dead_letters(rounds):
    with ActorSystem("quiet") as system:
        letters = []
        system.dead_letters.subscribe(lambda envelope: letters.append(envelope.deadMessage))
        ended = Source.range(1000).async_boundary().take(5).async_boundary().run_with(Sink.ignore(), system)
        running = Source.repeat(1).async_boundary().async_boundary().run_with(Sink.ignore(), system)
        ticking = Source.tick(0, 1, "t").async_boundary().run_with(Sink.ignore(), system)
        handle, sink = Source.tick("1h", "1h", 1).to_mat(TestSink.probe(), Keep.both).run(system)
        ended.result(5)
        sink.ensure_subscription()
    for future in (running, ticking):
        with pytest.raises(AbruptTermination):
            future.result(5)
    handle.cancel()  # its island is gone
    assert letters == []


def test_a_program_may_end_while_streams_run_without_a_word():
    program = """
from streamactors import Source, Sink
Source.repeat(1).async_boundary().run_with(Sink.ignore())
Source.tick(0, 1, 1).async_boundary().run_with(Sink.ignore())
print(Source.range(3).run_with(Sink.to_list()).result(5))
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1, 2]\n", "")
