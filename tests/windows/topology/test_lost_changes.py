"""A function that changes its aggregate in place and returns None, as `list.append` does, is an error: None deletes, and did so in silence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from streamactors.testing import TopologyDriver
from streamactors.windows import (
    BufferConfig,
    CountWindows,
    OperatorFailed,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
)
from streamactors.windows.values import is_unchanged, snapshot

CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())
TUMBLING = TimeWindows.of_size(10).with_grace(0)
SESSIONS = SessionWindows.with_gap(5).with_grace(0)


def append(seen: list[Any], value: Any) -> None:
    seen.append(value)


def add(seen: list[Any], value: Any) -> list[Any]:
    return [*seen, value]


def remove(seen: list[Any], value: Any) -> None:
    seen.remove(value)


def extend(left: list[Any], right: list[Any]) -> None:
    left.extend(right)


def grouped(topics: Any) -> Any:
    return topics.stream("s").group_by_key()


def table_group(topics: Any) -> Any:
    return topics.table("s").group_by(lambda key, value: (key, value))


LOST: dict[str, Callable[[Any], Any]] = {
    "aggregate": lambda t: grouped(t).aggregate(list, append, name="step"),
    "reduce": lambda t: grouped(t).reduce(extend, name="step"),
    "windows": lambda t: grouped(t).windowed_by(TUMBLING).aggregate(list, append, name="step"),
    "suppressed windows": lambda t: grouped(t).windowed_by(TUMBLING).aggregate(list, append, name="step").suppress(CLOSED),
    "windows emitted on close": lambda t: grouped(t).windowed_by(TUMBLING).aggregate(list, append, name="step").emit_on_window_close(),
    "sliding windows": lambda t: grouped(t).windowed_by(SlidingWindows.of_difference(5).with_grace(0)).aggregate(list, append, name="step"),
    "sessions": lambda t: grouped(t).windowed_by(SESSIONS).aggregate(list, append, lambda a, b: a + b, name="step"),
    "merged sessions": lambda t: grouped(t).windowed_by(SESSIONS).aggregate(list, add, extend, name="step"),
    "count windows": lambda t: grouped(t).windowed_by(CountWindows.of_size(3)).aggregate(list, append, name="step"),
    "cogroup": lambda t: grouped(t).cogroup(append).aggregate(list, name="step"),
    "added to a group": lambda t: table_group(t).aggregate(list, append, remove, name="step"),
    "subtracted from a group": lambda t: table_group(t).aggregate(list, add, remove, name="step"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_a_change_that_is_lost_is_an_error_that_names_step_key_and_way_out(name: str) -> None:
    driver = TopologyDriver(LOST[name])
    guilty = "remove" if "subtracted" in name else "extend" if name in ("reduce", "merged sessions") else "append"
    with pytest.raises(
        OperatorFailed,
        match=rf"step.*key 'ada'.*the function {guilty} \(.*test_lost_changes.py:\d+\) changed the aggregate in place and returned None, "
        "which deletes the entry; return the aggregate",
    ):
        for at in (1, 2):
            driver.pipe("s", "ada", ["value"], at)


DELETIONS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "aggregate": (lambda grouped: grouped.aggregate(list, keep_or_delete), [["1"], None, None, ["2"], ["2", "3"]]),
    "windows": (
        lambda grouped: grouped.windowed_by(TUMBLING).aggregate(list, keep_or_delete),
        [["1"], None, None, ["2"], ["3"]],
    ),
    "windows emitted on close": (
        lambda grouped: grouped.windowed_by(TUMBLING).aggregate(list, keep_or_delete).emit_on_window_close(),
        [["2"], ["3"]],
    ),
}


def keep_or_delete(seen: list[Any], value: Any) -> Any:
    return None if value == "delete" else [*seen, value]


@pytest.mark.parametrize("name", DELETIONS)
def test_none_still_deletes_where_the_aggregate_was_left_as_it_was(name: str) -> None:
    build, expected = DELETIONS[name]
    driver = TopologyDriver(lambda topics: build(grouped(topics)))
    found = [
        driver.pipe("s", "ada", value, at)
        for value, at in zip(("1", "delete", "delete", "2", "3"), (0, 1, 2, 3, 50), strict=False)
    ]
    assert [each.record.value for outputs in [*found, driver.end_of_input()] for each in outputs] == expected


class Plain:
    """An object whose class does not say when two are equal."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items


@dataclass
class Basket:
    items: list[Any] = field(default_factory=list)


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1, [2]], lambda v: v[1].append(3)),
        ({"a": {"b": 1}}, lambda v: v["a"].update(b=2)),
        (([1],), lambda v: v[0].clear()),
        ({1, 2}, lambda v: v.add(3)),
        (Plain([1]), lambda v: v.items.append(2)),
        ([Plain([1])], lambda v: v[0].items.append(2)),
        (Basket([1]), lambda v: v.items.append(2)),
    ],
)
def test_a_copy_is_unchanged_until_it_is_changed(value: Any, change: Callable[[Any], Any]) -> None:
    copied = snapshot(value)
    assert is_unchanged(copied, value)
    change(copied)
    assert not is_unchanged(copied, value)
