"""Aggregates are values: what `snapshot` copies, and what it may share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

from streamactors.windows.definitions.aggregator import as_values, counting
from streamactors.windows.values import snapshot


class Colour(Enum):
    RED = [1]


@dataclass
class Basket:
    items: list[int] = field(default_factory=list)


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1, [2]], lambda v: v[1].append(3)),
        ([1, [2]], lambda v: v.append(3)),
        ({"a": {"b": [1]}}, lambda v: v["a"]["b"].append(2)),
        ({"a": 1}, lambda v: v.update(b=2)),
        (([1],), lambda v: v[0].append(2)),
        ({1, 2}, lambda v: v.add(3)),
        (bytearray(b"x"), lambda v: v.extend(b"y")),
        (Basket([1]), lambda v: v.items.append(2)),
        ([Basket([1])], lambda v: v[0].items.append(2)),
    ],
)
def test_a_snapshot_shares_nothing_that_can_change(value: Any, change: Any) -> None:
    before = repr(value)
    copied = snapshot(value)
    assert type(copied) is type(value)
    assert repr(copied) == before
    change(copied)
    assert repr(value) == before
    assert repr(copied) != before


@pytest.mark.parametrize("value", [None, 1, 2.5, "text", b"bytes", frozenset({1}), Colour.RED])
def test_what_cannot_change_is_not_copied(value: Any) -> None:
    assert snapshot(value) is value


def test_a_function_of_the_user_gets_an_aggregate_of_its_own() -> None:
    held = [1]
    add = as_values(lambda aggregate, value: aggregate.append(value) or aggregate)
    assert add(held, 2) == [1, 2]
    assert held == [1]


def test_a_count_adds_one_for_each_row_and_the_counts_of_merged_sessions() -> None:
    count = counting()
    assert count.init() == 0
    assert count.add(count.add(count.init(), None), "x") == 2
    assert count.merge is not None
    assert count.merge(2, 3) == 5
