"""The contexts between a poll and the push of a record."""

from __future__ import annotations

from typing import Any, cast

from streamactors.tracing.polled import PolledContexts


class Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


def messages(*offsets: int) -> list[Any]:
    return [Message(offset) for offset in offsets]


def context(name: str) -> Any:
    return cast("Any", name)


def test_the_first_sampled_record_is_found_and_taken_when_it_is_pushed() -> None:
    polled = PolledContexts()
    polled.add("t-0", 1, [(3, context("c3")), (5, context("c5"))])
    assert polled.first_of("t-0", 1, messages(1, 2, 3, 4, 5)) == (2, "c3")
    assert polled.first_of("t-0", 1, messages(1, 2)) is None
    ((record, found),) = polled.taken("t-0", 1, messages(3))
    assert (record.offset(), found) == (3, "c3")
    assert polled.first_of("t-0", 1, messages(4, 5)) == (1, "c5")
    assert polled.count == 1


def test_an_offset_that_the_delivery_lacks_is_forgotten() -> None:
    polled = PolledContexts()
    polled.add("t-0", 1, [(3, context("c3"))])
    assert polled.taken("t-0", 1, messages(2, 4)) == []
    assert polled.count == 0


def test_assignments_are_apart() -> None:
    polled = PolledContexts()
    polled.add("t-0", 1, [(3, context("first group"))])
    polled.add("t-0", 2, [(3, context("second group"))])
    assert polled.taken("t-0", 2, messages(3))[0][1] == "second group"
    assert polled.taken("t-0", 1, messages(3))[0][1] == "first group"


def test_a_consumer_that_moves_back_reads_the_contexts_again() -> None:
    polled = PolledContexts()
    polled.add("t-0", 1, [(3, context("a")), (9, context("b"))])
    polled.add("t-0", 1, [(3, context("c"))])
    assert polled.count == 1
    assert polled.first_of("t-0", 1, messages(3)) == (0, "c")


def test_the_oldest_assignments_are_forgotten_when_there_are_too_many() -> None:
    polled = PolledContexts(most=10)
    for epoch in range(100):
        polled.add("t-0", epoch, [(n, context("c")) for n in range(4)])
        assert polled.count <= 10
    assert polled.first_of("t-0", 0, messages(0)) is None
    assert polled.first_of("t-0", 99, messages(0)) == (0, "c")


def test_the_oldest_assignment_goes_on_without_more_contexts_than_are_allowed() -> None:
    """The oldest assignment was forgotten in the count, though it was the one that got more contexts and kept those it had."""
    polled = PolledContexts(most=10)
    polled.add("t-0", 1, [(n, context("a")) for n in range(6)])
    polled.add("t-1", 1, [(n, context("b")) for n in range(4)])
    polled.add("t-0", 1, [(n, context("c")) for n in range(6, 14)])
    assert polled.count == 10
    assert len(polled.taken("t-0", 1, messages(*range(14)))) == 10
    assert polled.count == 0
    assert polled.first_of("t-1", 1, messages(0)) is None
