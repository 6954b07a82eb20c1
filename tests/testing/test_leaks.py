"""assert_all_stages_stopped: finds what still runs, shows it, and stays out of the way otherwise."""

from __future__ import annotations

import pytest

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.testing import TestSink, assert_all_stages_stopped


def test_streams_that_ended_are_fine(actor_system):
    with assert_all_stages_stopped(actor_system):
        Source.range(10).async_boundary().run_with(Sink.ignore(), actor_system).result(30)


def test_a_stream_still_running_is_shown_as_a_picture(actor_system):
    with pytest.raises(AssertionError, match=r"1 stream still running after 20ms") as caught:
        with assert_all_stages_stopped(actor_system, timeout="20ms"):
            Source.never().named("sleeper").run_with(TestSink.probe(), actor_system)
    assert "flowchart LR" in str(caught.value)
    assert "sleeper" in str(caught.value)


def test_streams_begun_before_the_block_or_in_another_system_do_not_count(actor_system):
    Source.never().run_with(Sink.ignore(), actor_system)
    with ActorSystem("other") as other, assert_all_stages_stopped(actor_system):
        Source.never().run_with(Sink.ignore(), other)


def test_an_error_of_the_block_goes_on_unchanged(actor_system):
    with pytest.raises(KeyError, match="mine"):
        with assert_all_stages_stopped(actor_system):
            Source.never().run_with(Sink.ignore(), actor_system)
            raise KeyError("mine")


def test_it_waits_for_a_stream_that_is_about_to_end(actor_system):
    with assert_all_stages_stopped(actor_system):
        switch, done = Source.tick("1ms", "1ms", "x").to_mat(Sink.ignore(), Keep.both).run(actor_system)
        switch.cancel()
    assert done.done()
