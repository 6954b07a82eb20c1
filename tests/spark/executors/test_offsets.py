"""The end of a batch: how many records it has, that batches come to the end, and the places that a task has in its life."""

from __future__ import annotations

import json
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from streamactors.spark.executors import offsets
from streamactors.spark.executors.ranges import at_of
from streamactors.spark.executors.topic_end import must_write


@given(
    waiting=st.lists(st.integers(0, 300), min_size=1, max_size=8),
    most=st.integers(1, 100),
    windows=st.booleans(),
)
def test_a_batch_has_at_most_so_many_records_and_one_of_each_partition_that_has_some(
    waiting: list[int], most: int, windows: bool
) -> None:
    ends = {f"0/t-{n}": count for n, count in enumerate(waiting)}
    place = offsets.initial(dict.fromkeys(ends, 0), windows=windows)
    for _ in range(sum(waiting) + 2):
        found = offsets.following(place, ends, most)
        if found is place:
            break
        before, after = offsets.positions(place), offsets.positions(found)
        taken = {name: after[name] - before[name] for name in ends}
        busy = [name for name in ends if before[name] < ends[name]]
        assert all(1 <= taken[name] <= ends[name] - before[name] for name in busy)
        assert sum(taken.values()) <= max(most, len(busy))
        place = found
    assert offsets.positions(place) == ends


class Step(NamedTuple):
    """What a planner finds: how many records each partition got, how many a batch takes, whether that is the end of the input, and how
    much longer each partition was silent."""

    more: tuple[int, int]
    rows: int
    is_end: bool
    silence_ms: tuple[int, int]


SMALL = st.integers(0, 5)
STEPS = st.builds(Step, st.tuples(SMALL, SMALL), st.integers(1, 8), st.booleans(), st.tuples(SMALL, SMALL))
SILENT = [Step((4, 4), 100, False, (0, 0)), Step((0, 0), 100, False, (5, 0))]
END = Step((0, 0), 100, True, (0, 0))


@given(steps=st.lists(STEPS, max_size=12))
@example(
    [*SILENT, END, Step((1, 1), 100, False, (0, 0))]
)  # "4i5" to "4e": the end was named "4e", and meant another place
@example(
    [Step((4, 4), 100, False, (0, 0)), END, Step((0, 1), 100, False, (0, 0))]
)  # the first task went back from "4e" to "4"
def test_a_task_never_comes_to_a_place_twice_and_each_range_begins_where_the_one_before_ended(
    steps: list[Step],
) -> None:
    # The state at a place, and the note that is committed with the output there, have the place's name.
    names = ("0/t-0", "0/t-1")
    ends = dict.fromkeys(names, 0)
    here = offsets.initial(ends, windows=True)
    lives: dict[int, list[str]] = {0: ["0"], 1: ["0"]}
    for step in steps:
        ends = {name: ends[name] + more for name, more in zip(names, step.more, strict=True)}
        places = {name: offsets.at(here, name, {}) for name in names}
        silent = {
            name: places[name].idle_ms + longer
            for name, longer in zip(names, step.silence_ms, strict=True)
            if longer and not step.is_end and not places[name].ended and ends[name] == places[name].position
        }
        end = json.loads(json.dumps(offsets.following(here, ends, step.rows, is_end=step.is_end, silent=silent)))
        for what in offsets.ranges(here, end, {}):
            life = lives[what.key.partition]
            assert str(what.start) == life[-1]
            assert str(what.end) not in life
            assert what.start < what.end == at_of(str(what.end))
            assert what.idle_ms >= 0
            if len(life) > 1:
                assert must_write((what.start.position, life[-1]), what, "g")
            assert not must_write((what.end.position, str(what.end)), what, "g")
            life.append(str(what.end))
        here = end
