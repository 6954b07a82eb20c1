"""Offsets that are gathered in batches: what a user's `offset=` function may return, and how large a batch grows. No broker."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from streamactors import ActorSystem, Sink, Source
from streamactors.errors import BuildError
from streamactors.kafka import Committer, CommitterSettings, TopicPartition
from streamactors.kafka.committable import CommittableOffset, CommittableOffsetBatch, KeptMessage, Origin


class Acknowledged:
    """Stands for a consumer's offset tracker, and commits at once."""

    def __init__(self) -> None:
        self.offsets: list[tuple[TopicPartition, int, list[int]]] = []
        self.commits = 0

    def acknowledge(self, key: TopicPartition, epoch: int, *runs: range | list[int]) -> None:
        self.offsets.append((key, epoch, [offset for run in runs for offset in run]))

    def commit(self, reply: Any) -> None:
        self.commits += 1
        reply.try_complete(None)


def origin(number: int = 0, tracker: Any = None) -> Origin:
    tracker = tracker or Acknowledged()
    return Origin(TopicPartition("t", number), 1, tracker, tracker.commit)


def offset(at: Origin, number: int) -> CommittableOffset:
    message = Message(topic="t", partition=at.key.partition, offset=number, value=b"")
    return CommittableOffset((b"", message, at))


def gathered(*found: Any) -> CommittableOffsetBatch:
    batch = CommittableOffsetBatch()
    for each in found:
        batch.add(each)
    return batch


A, B = origin(0), origin(1)


@pytest.mark.parametrize(
    ("found", "size"),
    [
        (offset(A, 4), 1),
        (KeptMessage(offset(A, 4)), 1),
        (gathered(offset(A, 4)), 1),
        ([offset(A, 3), offset(A, 4)], 2),
        ((offset(A, 4), [KeptMessage(offset(A, 2)), gathered(offset(A, 1))]), 3),
        (iter([offset(A, 4)]), 1),
    ],
    ids=["offset", "message", "batch", "list", "nested", "iterator"],
)
def test_whatever_holds_offsets_is_added(found: Any, size: int) -> None:
    batch = gathered(found)
    assert (batch.size, batch.offsets()) == (size, {A.key: 5})


def test_none_is_nothing_to_commit_and_anything_else_is_refused_by_its_type() -> None:
    assert gathered(None, [None]).size == 0
    for wrong in (4, "offset", b"offset"):
        with pytest.raises(BuildError, match=f"got {type(wrong).__name__}; offset=… returns it from the element"):
            gathered(wrong)


ELEMENTS = st.lists(
    st.tuples(
        st.sampled_from([A, B]),
        st.integers(0, 9),
        st.sampled_from([lambda o: o, KeptMessage, lambda o: [o], gathered]),
    ),
    max_size=12,
)


@given(ELEMENTS)
def test_a_chunk_adds_what_its_elements_would_add_one_by_one(elements: list[tuple[Origin, int, Any]]) -> None:
    found = [shape(offset(at, number)) for at, number, shape in elements]
    whole, singly = CommittableOffsetBatch(), gathered(*found)
    whole.add_all(found)
    expected: dict[TopicPartition, int] = {}
    for at, number, _ in elements:
        expected[at.key] = max(expected.get(at.key, 0), number + 1)
    assert (whole.size, whole.offsets()) == (singly.size, singly.offsets()) == (len(elements), expected)


def test_a_batch_acknowledges_every_offset_and_commits_each_consumer_once() -> None:
    first, second = Acknowledged(), Acknowledged()
    zero, one, other = origin(0, first), origin(1, first), origin(2, second)
    batch = gathered(offset(zero, 1), offset(one, 7), offset(zero, 2), offset(other, 5))
    batch.commit().result(10)
    assert sorted(first.offsets) == [(zero.key, 1, [1, 2]), (one.key, 1, [7])]
    assert second.offsets == [(other.key, 1, [5])]
    assert (first.commits, second.commits) == (1, 1)


def test_a_batch_holds_consecutive_offsets_as_one_range() -> None:
    """A commit each second is a million offsets: as integers of their own they would fill 40 MB."""
    seen: list[Any] = []
    tracker = Acknowledged()
    tracker.acknowledge = lambda key, epoch, *runs: seen.append(runs)  # type: ignore[method-assign]
    at = origin(0, tracker)
    batch = CommittableOffsetBatch()
    for first in range(0, 2_000, 500):
        batch.add_all([KeptMessage(offset(at, first + i)) for i in range(500)])
    batch.add(offset(at, 2_000))
    batch.commit().result(10)
    assert seen == [(range(2_001),)]


def test_a_batch_that_was_added_to_another_stays_as_it_is() -> None:
    tracker = Acknowledged()
    at = origin(0, tracker)
    gaps, whole = CommittableOffsetBatch(), CommittableOffsetBatch()
    gaps.add_all([offset(at, 1), offset(at, 5)])
    whole.add(gaps)
    whole.add_all([offset(at, 9), offset(at, 7)])
    gaps.commit().result(10)
    assert tracker.offsets == [(at.key, 1, [1, 5])]


@pytest.fixture(scope="module")
def system() -> Iterator[ActorSystem]:
    with ActorSystem("offset-batches") as system:
        yield system


@pytest.mark.parametrize("max_batch", [1, 3, 7, 100])
def test_a_batch_never_grows_beyond_its_limit(system: ActorSystem, max_batch: int) -> None:
    tracker = Acknowledged()
    at = origin(0, tracker)
    sizes = (
        Source.from_iterable([offset(at, number) for number in range(10)])
        .via(Committer.flow(CommitterSettings(max_batch=max_batch, max_interval_ms=60_000)))
        .map(lambda batch: batch.size)
        .run_with(Sink.to_list(), system)
        .result(30)
    )
    whole, rest = divmod(10, max_batch)
    assert sizes == [max_batch] * whole + [rest] * bool(rest)
    assert sorted(number for _, _, offsets in tracker.offsets for number in offsets) == list(range(10))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_no_more_batches_than_asked_for_are_committed_at_a_time(system: ActorSystem, parallelism: int) -> None:
    begun: queue.SimpleQueue[Any] = queue.SimpleQueue()
    tracker = Acknowledged()
    at = Origin(TopicPartition("t", 0), 1, tracker, begun.put)  # type: ignore[arg-type]
    settings = CommitterSettings(max_batch=1, parallelism=parallelism, max_interval_ms=60_000)
    source = Source.from_iterable([offset(at, number) for number in range(300)])
    done = source.via(Committer.flow(settings)).run_with(Sink.ignore(), system)
    pending: list[Any] = []
    for _ in range(300):
        pending.append(begun.get(timeout=30))
        while not begun.empty():
            pending.append(begun.get())
        assert len(pending) <= parallelism
        if len(tracker.offsets) == 300 or len(pending) == parallelism:
            pending.pop(0).try_complete(None)
        if len(tracker.offsets) == 300 and begun.empty():
            break
    for reply in pending:
        reply.try_complete(None)
    done.result(30)


def test_a_full_batch_is_committed_though_its_interval_is_far(system: ActorSystem) -> None:
    tracker = Acknowledged()
    at = origin(0, tracker)
    source = Source.from_iterable([offset(at, number) for number in range(4)]).concat(Source.never())
    batches = source.via(Committer.flow(CommitterSettings(max_batch=2, max_interval_ms=3_600_000)))
    assert batches.take(2).map(lambda batch: batch.size).run_with(Sink.to_list(), system).result(30) == [2, 2]


def test_offsets_that_a_function_finds_are_committed(system: ActorSystem) -> None:
    tracker = Acknowledged()
    at = origin(0, tracker)
    elements = [(number, [offset(at, number), None]) for number in range(5)]
    sink = Committer.sink(CommitterSettings(max_batch=2), offset=lambda pair: pair[1])
    Source.from_iterable(elements).run_with(sink, system).result(30)
    assert sorted(number for _, _, offsets in tracker.offsets for number in offsets) == list(range(5))
