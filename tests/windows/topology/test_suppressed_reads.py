"""What a join reads of a suppressed table after an entry was released without a row: by silence, or by the end of the input.

In Kafka mode a row that meets the table while an entry is being forwarded still reads the value before it. Silence and the end of the
input forwarded entries without telling the buffer that everything after it had processed them: the entry stayed in memory, and every
later row read the value before it, until a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors.testing import TopologyDriver
from streamactors.windows import BufferConfig, Suppressed, TimeWindows
from streamactors.windows.operators.suppress_buffer import SuppressBuffer

SEMANTICS = ("strict", "kafka")
RELEASES: dict[str, Callable[[TopologyDriver], Any]] = {
    "a row": lambda driver: driver.pipe("rows", "other", "x", timestamp=40),
    "silence": lambda driver: driver.advance_wall_clock("20ms"),
    "the end of the input": TopologyDriver.end_of_input,
}


def asking_driver(semantics: Any) -> TopologyDriver:
    """A stream that reads the count of its key in a suppressed table."""

    def build(topics: Any) -> Any:
        counts = topics.stream("rows").group_by_key().count()
        held = counts.suppress(Suppressed.until_time_limit(5, BufferConfig.unbounded()))
        return topics.stream("asks").join_table(held, lambda ask, count: count, how="left")

    return TopologyDriver(build, semantics=semantics, idle_after="3ms")


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("release", RELEASES)
def test_a_released_entry_is_read_as_it_was_released(semantics: str, release: str) -> None:
    driver = asking_driver(semantics)
    driver.pipe("rows", "k", "x", timestamp=10)
    RELEASES[release](driver)
    assert [each.record.value for each in driver.pipe("asks", "k", "?", timestamp=50)] == [1]


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("release", RELEASES)
def test_a_restart_changes_no_read_of_a_released_entry(semantics: str, release: str) -> None:
    answers = []
    for restarts in (False, True):
        driver = asking_driver(semantics)
        saved = []
        for count in (1, 2):
            driver.pipe("rows", "k", "x", timestamp=10 * count)
            RELEASES[release](driver)
            saved += driver.changes()
            if restarts:
                driver.restart(saved)
        answers.append([each.record.value for each in driver.pipe("asks", "k", "?", timestamp=50)])
    assert answers == [[2], [2]]


@pytest.mark.parametrize("release", ["silence", "the end of the input"])
def test_two_windows_that_are_released_together_are_joined(release: str) -> None:
    def build(topics: Any) -> Any:
        def counts(topic: str) -> Any:
            windowed = topics.stream(topic).group_by_key().windowed_by(TimeWindows.of_size(10).with_grace(0))
            return windowed.count().suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))

        return counts("left").join(counts("right"), lambda left, right: (left, right))

    driver = TopologyDriver(build, semantics="kafka", idle_after="3ms")
    driver.pipe("left", "k", "x", timestamp=5)
    driver.pipe("right", "k", "x", timestamp=5)
    assert RELEASES[release](driver)[-1].record.value == (1, 1)


@pytest.mark.parametrize("release", RELEASES)
def test_a_released_entry_leaves_the_memory(release: str) -> None:
    driver = asking_driver("kafka")
    driver.pipe("rows", "k", "x", timestamp=10)
    RELEASES[release](driver)
    [buffer] = [
        step.operator for step in driver._task._plan.steps.values() if isinstance(step.operator, SuppressBuffer)
    ]  # type: ignore[attr-defined]
    assert not buffer._leaving
