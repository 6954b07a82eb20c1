"""A range of several partitions, given again: exactly its records come out before the first beyond it."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from streamactors.kafka.reading.delivery import Delivery
from streamactors.kafka.sources.replayed_range import ReplayedRange
from streamactors.kafka.subscriptions import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class At(NamedTuple):
    """A message of librdkafka's, as far as a range looks at it."""

    at: int

    def offset(self) -> int:
        return self.at


def delivery(key: TopicPartition, *offsets: int, end: int | None = None) -> Delivery:
    return Delivery(None, key, 1, [At(offset) for offset in offsets], offsets[-1] + 1 if end is None else end)


def shown(deliveries: list[Delivery]) -> list[tuple[int, list[int], int]]:
    return [(d.key.partition, [record.offset() for record in d.records], d.end) for d in deliveries]


def test_a_partition_waits_at_its_end_for_the_others() -> None:
    replayed = ReplayedRange({A: 0, B: 0}, {A: 2, B: 1})
    assert shown(replayed.take(delivery(A, 0, 1, 2, 3))) == [(0, [0, 1], 2)]
    assert shown(replayed.take(delivery(A, 4))) == []
    assert replayed.reached(A)
    assert not replayed.complete
    assert shown(replayed.take(delivery(B, 0, 1))) == [(1, [0], 1), (0, [2, 3], 4), (0, [4], 5), (1, [1], 2)]
    assert replayed.complete


def test_records_that_are_gone_from_a_range_do_not_keep_it_open() -> None:
    replayed = ReplayedRange({A: 0, B: 0}, {A: 5, B: 2})
    assert shown(replayed.take(delivery(A, 3, 7))) == [(0, [3], 5)]  # 4 was compacted away
    assert shown(replayed.take(delivery(B, 6))) == [(1, [], 2), (0, [7], 8), (1, [6], 7)]


def test_the_end_of_a_partition_ends_its_part() -> None:
    replayed = ReplayedRange({A: 0, B: 0}, {A: 2, B: 9})
    assert shown(replayed.take(delivery(A, 0, 1, 2))) == [(0, [0, 1], 2)]
    assert shown(replayed.at_end(None, B, 1)) == [(1, [], 9), (0, [2], 3)]
    assert replayed.at_end(None, B, 1) == []


def test_partitions_that_have_nothing_in_the_range_wait_from_the_beginning() -> None:
    new = TopicPartition("t", 2)
    replayed = ReplayedRange({A: 0, B: 4, new: 0}, {A: 1, B: 4})
    assert replayed.take(delivery(B, 4)) == []
    assert replayed.take(delivery(new, 0)) == []
    assert shown(replayed.take(delivery(A, 0))) == [(0, [0], 1), (1, [4], 5), (2, [0], 1)]


def test_an_empty_range_is_complete() -> None:
    assert ReplayedRange({A: 3}, {A: 3}).complete


@pytest.mark.parametrize("seed", range(40))
def test_any_interleaving_gives_the_range_first_and_then_everything_once(seed: int) -> None:
    rng = random.Random(seed)
    keys = [TopicPartition("t", i) for i in range(rng.randint(1, 4))]
    logs = {key: sorted(rng.sample(range(60), 30)) for key in keys}
    starts = {key: rng.randint(0, 30) for key in keys}
    until = {key: rng.randint(starts[key], 60) for key in keys}
    replayed = ReplayedRange(starts, until)
    left = {key: [offset for offset in log if offset >= starts[key]] for key, log in logs.items()}
    out: list[Any] = []
    completed_at = 0 if replayed.complete else None
    while completed_at is None:
        key = rng.choice(keys)
        n = rng.randint(1, 5)
        if left[key]:
            chunk, left[key] = left[key][:n], left[key][n:]
            passed = replayed.take(delivery(key, *chunk))
        else:
            passed = replayed.at_end(None, key, 1)
        within = [d for d in passed if d.end <= until[d.key]]
        out += [(d.key, record.offset()) for d in within for record in d.records]
        if replayed.complete:
            completed_at = len(out)
            out += [(d.key, record.offset()) for d in passed[len(within) :] for record in d.records]
            assert passed[: len(within)] == within
    expected = {(key, offset) for key in keys for offset in logs[key] if starts[key] <= offset < until[key]}
    assert set(out[:completed_at]) == expected or completed_at == 0 == len(expected)
    everything = out + [(key, offset) for key in keys for offset in left[key]]
    assert sorted(everything) == sorted((key, offset) for key in keys for offset in logs[key] if offset >= starts[key])
    for key in keys:
        mine = [offset for k, offset in out if k == key]
        assert mine == sorted(mine)
