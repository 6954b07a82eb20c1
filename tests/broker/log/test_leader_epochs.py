"""The epochs of a log, without a log: which epoch an offset has, and which batches cannot be part of the log."""

from __future__ import annotations

import pytest

from streamactors.broker.log.partition.leader_epochs import LeaderEpochs


def epochs(*starts: tuple[int, int]) -> LeaderEpochs:
    known = LeaderEpochs()
    for epoch, offset in starts:
        known.assign(epoch, offset)
    return known


@pytest.mark.parametrize(("offset", "epoch"), [(0, -1), (4, -1), (5, 2), (9, 2), (10, 3), (1_000, 3)])
def test_the_epoch_of_an_offset_is_the_last_one_that_began_at_or_before_it(offset: int, epoch: int) -> None:
    assert epochs((2, 5), (3, 10)).at(offset) == epoch


@pytest.mark.parametrize(
    ("epoch", "offset", "excluded"),
    [
        (2, 5, False),
        (3, 5, True),
        (1, 9, True),
        (3, 10, False),
        (2, 10, True),
        (2, 4, False),
        (1, 4, False),
        (3, 4, True),
        (-2, 4, True),
    ],
)
def test_a_batch_has_the_epoch_that_the_file_says_and_before_the_first_entry_none_that_is_newer(
    epoch: int, offset: int, excluded: bool
) -> None:
    assert epochs((2, 5), (3, 10)).contradicts(epoch, offset) == excluded


def test_without_a_known_epoch_only_a_batch_that_names_one_is_excluded() -> None:
    assert [epochs().contradicts(epoch, 0) for epoch in (-2, -1, 0)] == [True, False, True]
