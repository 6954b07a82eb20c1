"""The times of objects that wait on disk are a priority queue, with a bounded number of items in memory."""

from __future__ import annotations

import heapq
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.windows.state.calendar_queue import NEVER
from streamactors.windows.state.disk.disk_waiting import Times
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk

LIMIT = 64  # the smallest number of items in memory


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> TaskDisk:
    return TaskDisk(Rocks(tmp_path_factory.mktemp("times"), Memory(8 << 20)), ["held", "other"])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 32), span=st.sampled_from([1, 30, 10_000]), pushes=st.sampled_from([0.4, 0.6, 0.9]))
def test_times_are_a_priority_queue_with_few_items_in_memory(
    seed: int, span: int, pushes: float, disk: TaskDisk
) -> None:
    """Each example begins with what the one before has left on disk, as after a crash: none of it is seen."""
    rng, now = random.Random(seed), 1_000
    times, other, model = Times(disk, "held", lambda: 1), Times(disk, "other", lambda: 1), list[tuple[int, bytes]]()
    for number in range(700):
        if rng.random() < (pushes if number < 500 else 0.1):
            item = (now + rng.randrange(span), rng.randbytes(rng.randrange(3)) + number.to_bytes(4, "big"))
            times.push(*item)
            other.push(now, b"other")
            other.pop()
            heapq.heappush(model, item)
            now += rng.randrange(-20, 30) if now > 100 else 30
        elif model:
            assert times.pop() == heapq.heappop(model)
        assert times.first_time() == (model[0][0] if model else NEVER)
        assert times.in_memory <= LIMIT
    while model:
        assert times.pop() == heapq.heappop(model)
    with pytest.raises(IndexError):
        times.pop()


def test_equal_items_are_one_on_disk_and_the_queue_still_ends(disk: TaskDisk) -> None:
    """A session that is deleted and comes again is put twice. The queue once counted two items on disk, looked for the second one, and
    raised IndexError."""
    times = Times(disk, "held", lambda: 1)
    for _ in range(2):
        for number in range(3 * LIMIT):
            times.push(1_000 + number, b"key")
    popped = []
    while times.first_time() < NEVER:
        popped.append(times.pop()[0])
    assert popped == sorted(popped)
    assert set(popped) == set(range(1_000, 1_000 + 3 * LIMIT))
