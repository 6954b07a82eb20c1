"""Errors for what users try on futures, kill switches, joins and the topology driver name the way out."""

from __future__ import annotations

import pytest

from streamactors import KillSwitches, Sink, Source, Topics
from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver
from streamactors.windows import Record


@pytest.mark.parametrize("use", [iter, list, lambda future: future[0]])
def test_a_future_that_is_used_as_its_result_says_how_to_get_the_result(use):
    future = Source.range(3).run_with(Sink.to_list())
    with pytest.raises(TypeError, match=r"a StreamFuture is not the result itself: \.result\(\) waits for the result"):
        use(future)
    assert future.result(10) == [0, 1, 2]


@pytest.mark.parametrize("name", ["shutdown", "abort"])
def test_a_kill_switch_that_was_not_materialized_says_how(name):
    with pytest.raises(AttributeError, match="a kill switch is what the flow materializes"):
        getattr(KillSwitches.single(), name)


def test_a_join_of_streams_without_windows_says_what_it_needs():
    topics = Topics.in_memory({name: Source.single(Record("k", 1, 1)) for name in "ab"})
    with pytest.raises(
        BuildError, match=r"join: windows is None; say how far apart two records may be: JoinWindows\.of"
    ):
        topics.stream("a").join(topics.stream("b"), lambda x, y: (x, y))
    with pytest.raises(BuildError, match="join: a stream joins a stream within windows, got a TopologyTable"):
        topics.stream("a").join(topics.table("b"), lambda x, y: (x, y))


def test_a_topology_driver_takes_a_function():
    with pytest.raises(
        BuildError, match="TopologyDriver expects a function of the topics that builds a topology, got int"
    ):
        TopologyDriver(5)


def test_the_place_of_an_error_is_no_line_of_contextlib(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        Source.from_lines(tmp_path / "none").run_with(Sink.to_list()).result(10)
    assert not any("contextlib" in note for note in raised.value.__notes__)
