"""Rules of joins and groups that no other test states alone; the numbers are those of the rules in docs/strict.md and of Kafka Streams' vectors."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver
from streamactors.windows import BufferConfig, JoinWindows, Suppressed, TimeWindows

MODES = pytest.mark.parametrize("semantics", ["strict", "kafka"])


def plain(outputs: list[Any]) -> list[tuple[Any, ...]]:
    return [(each.record.key, each.record.value, each.record.timestamp) for each in outputs]


def both(left: Any, right: Any) -> Any:
    return f"{left}+{right}"


def joined_streams(how: Any, semantics: Any, fn: Any = both) -> TopologyDriver:
    windows = JoinWindows.of(5).with_grace(5)
    return TopologyDriver(
        lambda topics: topics.stream("l").join(topics.stream("r"), fn, windows, how=how, semantics=semantics)
    )


@MODES
@pytest.mark.parametrize(
    ("how", "left", "right", "dropped"),
    [
        ("inner", [], [], 2),
        ("left", [(None, "x+None", 1)], [], 1),
        ("outer", [(None, "x+None", 1)], [(None, "None+x", 1)], 0),
    ],
)
def test_T_12_a_row_without_key_goes_at_once_where_its_side_is_kept(
    how: Any, left: Any, right: Any, dropped: int, semantics: Any
) -> None:
    driver = joined_streams(how, semantics)
    assert plain(driver.pipe("l", None, "x", 1)) == left
    assert plain(driver.pipe("r", None, "x", 1)) == right
    assert driver.dropped == dropped
    assert driver.pipe("l", "a", None, 1) == driver.pipe("r", None, None, 1) == []
    assert driver.dropped == dropped + 2


@MODES
def test_T_15_none_of_a_joiner_is_a_row_of_streams_and_a_delete_of_tables(semantics: Any) -> None:
    streams = joined_streams("inner", semantics, lambda left, right: None)
    streams.pipe("l", "a", 1, 1)
    assert plain(streams.pipe("r", "a", 2, 1)) == [("a", None, 1)]
    tables = TopologyDriver(
        lambda topics: topics.table("l").join(
            topics.table("r"), lambda left, right: None if right == "no" else right, semantics=semantics
        )
    )
    tables.pipe("l", "a", 1, 1)
    assert [plain(tables.pipe("r", "a", value, 2)) for value in ("yes", "no")] == [[("a", "yes", 2)], [("a", None, 2)]]


@MODES
@pytest.mark.parametrize("how", ["left", "outer"])
def test_T_19_a_stream_joined_with_itself_never_lacks_a_match(how: Any, semantics: Any) -> None:
    def build(topics: Any) -> Any:
        stream = topics.stream("s")
        return stream.join(stream, both, JoinWindows.of(1).with_grace(0), how=how, semantics=semantics)

    driver = TopologyDriver(build)
    found = [plain(driver.pipe("s", "a", at, at)) for at in (1, 100, 200)]
    assert found == [[("a", f"{at}+{at}", at)] for at in (1, 100, 200)]


def test_T_24_a_count_of_the_same_topic_that_was_built_first_contains_the_row() -> None:
    def build(topics: Any) -> Any:
        stream = topics.stream("s")
        counts = stream.group_by_key().count(name="n")
        return stream.join_table(counts, lambda value, count: (value, count))

    driver = TopologyDriver(build)
    assert [plain(driver.pipe("s", "a", at, at)) for at in (1, 2)] == [[("a", (1, 1), 1)], [("a", (2, 2), 2)]]


def test_T_36_a_function_of_a_table_is_not_asked_for_none_and_one_of_a_stream_is() -> None:
    asked: list[Any] = []

    def noted(value: Any) -> Any:
        asked.append(value)
        return value

    table = TopologyDriver(lambda topics: topics.table("t", name="t").map_values(noted).to_stream())
    table.pipe("t", "a", 1, 1)
    assert plain(table.pipe("t", "a", None, 2)) == [("a", None, 2)]
    assert asked == [1]
    stream = TopologyDriver(lambda topics: topics.stream("s").map_values(noted).filter(lambda each: True))
    assert plain(stream.pipe("s", "a", None, 3)) == [("a", None, 3)]
    assert asked == [1, None]


def test_T_41_a_row_that_stays_in_its_group_gives_one_result_and_one_that_moves_two() -> None:
    def build(topics: Any) -> Any:
        groups = topics.table("t", name="t").group_by(lambda key, value: (value[0], value[1]))
        return groups.aggregate(
            lambda: 0, add=lambda total, value: total + value, subtract=lambda total, value: total - value
        ).to_stream()

    driver = TopologyDriver(build)
    assert plain(driver.pipe("t", "a", ("x", 1), 1)) == [("x", 1, 1)]
    assert plain(driver.pipe("t", "a", ("x", 5), 2)) == [("x", 5, 2)]
    assert plain(driver.pipe("t", "a", ("y", 7), 3)) == [("x", 0, 3), ("y", 7, 3)]


def test_T_61_a_global_join_drops_rows_without_value_or_key_as_its_kind_says() -> None:
    for how, given, dropped in (("inner", [], 2), ("left", [("k", "v+None", 1)], 1)):

        def build(topics: Any, how: Any = how) -> Any:
            table = topics.global_table("g")
            return topics.stream("s").join_global(table, both, key=lambda row: None, how=how)

        driver = TopologyDriver(build)
        assert plain(driver.pipe("s", "k", "v", 1)) == given
        assert driver.pipe("s", "k", None, 2) == []
        assert driver.dropped == dropped


def test_T_91_a_final_result_waits_for_the_largest_grace_and_needs_windows_in_every_branch() -> None:
    def build(topics: Any) -> Any:
        counts = [
            topics.stream(side).group_by_key().windowed_by(TimeWindows.of_size(10).with_grace(grace)).count(name=side)
            for side, grace in (("l", 0), ("r", 20))
        ]
        joined = counts[0].join(counts[1], lambda left, right: (left, right), how="outer")
        return joined.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream()

    driver = TopologyDriver(build)
    driver.pipe("l", "a", 1, 1)
    driver.pipe("r", "a", 1, 2)
    assert driver.pipe("r", "a", 1, 29) == []  # the left branch alone would close [0, 10) at 10
    assert [(each.record.key, each.record.value) for each in driver.pipe("r", "a", 1, 30)] == [("a", (1, 1))]
    with pytest.raises(BuildError):
        TopologyDriver(
            lambda topics: topics.table("t", name="t").suppress(
                Suppressed.until_window_closes(BufferConfig.unbounded())
            )
        )
