"""The end of a batch: how many records it has, and that batches come to the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamactors.spark.executors import offsets


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
