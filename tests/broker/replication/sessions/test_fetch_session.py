"""A fetch session beside a model that reads every partition for every answer, as Apache Kafka does: both say the same."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamactors.broker.protocol.fetch import FetchPartition, FetchTopic, PartitionFetched
from streamactors.broker.replication.sessions.fetch_session import LAST_EPOCH, Cached, FetchSession, next_epoch

INDEXES = st.integers(0, 5)
TOPIC = b"orders".ljust(16)


class Partition:
    """A partition at the broker, and one read of it."""

    def __init__(self) -> None:
        self.end = self.high_watermark = self.start = 0
        self.error = 0

    def read(self, index: int, offset: int) -> PartitionFetched[Any]:
        if self.error:
            return PartitionFetched(index, self.error)
        if not self.start <= offset <= self.end:
            return PartitionFetched(index, 1)
        records = bytes(self.end - offset)
        return PartitionFetched(index, 0, self.high_watermark, self.high_watermark, self.start, records)


class Model:
    """A session that reads everything: what it has told of each partition."""

    def __init__(self) -> None:
        self.asked: dict[int, int] = {}
        self.told: dict[int, tuple[int, int]] = {}

    def answer(self, partitions: dict[int, Partition]) -> set[tuple[int, int, int, int, int]]:
        said = set()
        for index, offset in self.asked.items():
            read = partitions[index].read(index, offset)
            known = self.told.get(index)
            if read.records or read.error_code or known != (read.high_watermark, read.log_start_offset):
                said.add(shown(read))
            self.told[index] = (-1 if read.error_code else read.high_watermark, read.log_start_offset)
        return said


def shown(answer: PartitionFetched[Any]) -> tuple[int, int, int, int, int]:
    return (
        answer.partition,
        answer.error_code,
        answer.high_watermark,
        answer.log_start_offset,
        len(cast(bytes, answer.records)),
    )


def topics(*asked: tuple[int, int]) -> list[FetchTopic]:
    return [FetchTopic("", TOPIC, [FetchPartition(index, -1, offset, -1, 0, 1 << 20) for index, offset in asked])]


class Sessions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.partitions = {index: Partition() for index in range(6)}
        self.session = FetchSession(7, -1, [], 0.0)
        self.model = Model()

    def touched(self, index: int) -> None:
        cached = self.session.entries.get((TOPIC, index))
        if cached is not None:
            self.session.touch(cached)

    @rule(index=INDEXES, count=st.integers(1, 3))
    def records_are_appended(self, index: int, count: int) -> None:
        self.partitions[index].end += count
        self.touched(index)

    @rule(index=INDEXES)
    def the_high_watermark_moves(self, index: int) -> None:
        partition = self.partitions[index]
        partition.high_watermark = partition.end
        self.touched(index)

    @rule(index=INDEXES)
    def the_log_start_moves(self, index: int) -> None:
        partition = self.partitions[index]
        partition.start = partition.high_watermark
        self.touched(index)

    @rule(index=INDEXES, error=st.sampled_from((0, 6, 74)))
    def the_state_changes(self, index: int, error: int) -> None:
        self.partitions[index].error = error
        self.touched(index)

    @rule(
        named=st.lists(INDEXES, max_size=3, unique=True), forgotten=st.lists(INDEXES, max_size=1), at_end=st.booleans()
    )
    def a_request(self, named: list[int], forgotten: list[int], at_end: bool) -> None:
        asked = [(index, self.partitions[index].end if at_end else self.model.asked.get(index, 0)) for index in named]
        self.session.update(topics(*asked), [(TOPIC, forgotten)])
        self.model.asked.update(asked)
        for index in forgotten:
            self.model.asked.pop(index, None)
            self.model.told.pop(index, None)
        said = set()
        for cached in self.session.take():
            answer = self.partitions[cached.key[1]].read(cached.key[1], cached.asked.offset)
            if answer.records or answer.error_code:
                self.session.give_back(cached)
            if self.session.has_news(cached, answer):
                said.add(shown(answer))
        assert said == self.model.answer(self.partitions)

    @invariant()
    def it_has_what_was_named_and_not_forgotten(self) -> None:
        assert {index for _, index in self.session.entries} == set(self.model.asked)
        assert self.session.changed.keys() <= self.session.entries.keys()


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@pytest.fixture(name="session")
def one_partition() -> FetchSession:
    return FetchSession(7, -1, topics((0, 5)), 0.0)


def only(session: FetchSession) -> Cached:
    (cached,) = session.entries.values()
    return cached


def test_a_partition_that_was_touched_while_its_answer_is_under_way_is_looked_at_again(session: FetchSession) -> None:
    (cached,) = session.take()
    assert session.touch(cached)
    assert not session.touch(cached), "that is known"
    assert session.take() == [cached]


def test_a_partition_that_was_forgotten_is_not_touched(session: FetchSession) -> None:
    cached = only(session)
    assert session.update([], [(TOPIC, [0, 9])]) == [cached]
    assert not session.touch(cached)
    session.give_back(cached)
    assert not session.changed


def test_partitions_with_records_go_behind_the_others() -> None:
    session = FetchSession(7, 2, topics((0, 0), (1, 0), (2, 0)), 0.0)
    first, *_ = session.in_turn()
    session.served(first)
    assert [each.key[1] for each in session.in_turn()] == [1, 2, 0]


def test_an_answer_that_was_not_sent_is_news_again(session: FetchSession) -> None:
    answer: PartitionFetched[Any] = PartitionFetched(0, 0, 5, 5, 0)
    (cached,) = session.take()
    assert session.has_news(cached, answer)
    assert not session.has_news(cached, answer)
    session.unsent()
    assert session.take() == [cached]
    assert session.has_news(cached, answer)


def test_the_epoch_goes_from_the_last_to_the_first() -> None:
    assert next_epoch(1) == 2
    assert next_epoch(LAST_EPOCH) == 1
