"""When a bounded topology is over: what the group has committed, what lies behind it, and whether its repartition topics still grow.

The broker is the test's."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.kafka import ConsumerSettings
from streamactors.kafka.client.admin import LATEST
from streamactors.kafka.client.offsets import unread
from streamactors.kafka.state import topology_end
from streamactors.kafka.state.topology_end import TopologyEnd
from streamactors.kafka.subscriptions import TopicPartition

OUTER, OTHER, INNER = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("r", 0)


class Broker:
    """Committed offsets, ends, and what a consumer polls."""

    def __init__(self) -> None:
        self.committed: dict[Any, int] = {}
        self.ends: list[dict[Any, int]] = [
            {INNER: 5}
        ]  # of the repartition topics, question by question; the last one stays
        self.polls: list[Any] = []
        self.assigned: list[dict[Any, int]] = []
        self.closed = 0
        self.failures = 0

    def admin(self, settings: Any) -> Any:
        def committed(group: str, keys: Any) -> dict[Any, int]:
            assert group == "g"
            if self.failures:
                self.failures -= 1
                raise ConnectionError("away")
            return {key: self.committed[key] for key in keys if key in self.committed}

        def offsets(asked: dict[Any, int]) -> dict[Any, int]:
            assert asked == {INNER: LATEST}
            return self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]

        return SimpleNamespace(committed=committed, offsets=offsets)

    def consumer(self, settings: ConsumerSettings) -> Any:
        assert settings.group_id is None

        def poll(most: int, timeout_s: float) -> Any:
            assert (most, timeout_s) == (100, 0.5)
            return self.polls.pop(0)

        def close() -> None:
            self.closed += 1

        return SimpleNamespace(assign=self.assigned.append, poll=poll, close=close)


def batch(*records: int, end: int | None = None, position: int | None = None, key: Any = OUTER) -> Any:
    """Return what a poll gives: records and the offset behind them; and the reported end of the partition."""
    runs = [(key, [SimpleNamespace(offset=each) for each in records], None, end)] if end is not None else []
    return SimpleNamespace(runs=runs, ends=[] if position is None else [(key, position)])


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(topology_end, "Admin", made.admin)
    monkeypatch.setattr(unread, "StreamConsumer", made.consumer)
    monkeypatch.setattr(topology_end, "ends_of", lambda settings, keys: dict.fromkeys(keys, 10))
    monkeypatch.setattr(topology_end, "CHECK_S", 0.001)
    return made


def end_of(*outer: TopicPartition, then: Any = None) -> TopologyEnd:
    return TopologyEnd(ConsumerSettings("localhost:1", "g"), outer or (OUTER,), (INNER,), then or (lambda: None))


def test_everything_that_was_committed_is_the_end(broker: Broker) -> None:
    broker.committed = {OUTER: 10, INNER: 5}
    assert end_of()._reached()
    assert broker.assigned == [], "nothing is read"


@pytest.mark.parametrize("committed", [{OUTER: 9, INNER: 5}, {OUTER: 10, INNER: 4}])
def test_a_record_behind_what_was_committed_is_not_processed(broker: Broker, committed: dict[Any, int]) -> None:
    broker.committed = committed
    (key, at) = next((key, at) for key, at in committed.items() if at in (9, 4))
    broker.polls = [batch(at, end=at + 1, key=key)]
    assert not end_of()._reached()
    assert (broker.assigned, broker.closed) == ([{key: at}], 1)


def test_a_partition_without_a_commit_is_read_from_its_beginning(broker: Broker) -> None:
    broker.committed = {INNER: 5}
    broker.polls = [batch(0, end=1)]
    assert not end_of()._reached()
    broker.committed[OUTER] = -1001
    broker.polls = [batch(0, end=1)]
    assert not end_of()._reached()
    assert broker.assigned == [{OUTER: 0}] * 2


@pytest.mark.parametrize(
    "polls",
    [
        [batch(end=10)],  # markers only
        [batch(end=9), batch(), batch(end=12)],
        [batch(position=10)],
        [batch(10, 11, end=12)],  # came after the start
    ],
)
def test_markers_have_offsets_that_nobody_commits(broker: Broker, polls: list[Any]) -> None:
    broker.committed = {OUTER: 8, INNER: 5}
    broker.polls = polls
    assert end_of()._reached()
    assert (broker.polls, broker.closed) == ([], 1)


def test_an_open_transaction_is_waited_for(broker: Broker) -> None:
    broker.committed = {OUTER: 8, INNER: 5}
    broker.polls = [batch(position=9)]
    assert not end_of()._reached()


def test_each_partition_must_be_at_its_end(broker: Broker) -> None:
    broker.committed = {OUTER: 8, OTHER: 7, INNER: 5}
    broker.polls = [batch(end=10), batch(position=10, key=OTHER)]
    assert end_of(OUTER, OTHER)._reached()
    broker.polls = [batch(end=10), batch(9, end=10, key=OTHER)]
    assert not end_of(OUTER, OTHER)._reached()


def test_a_run_that_is_over_reads_no_further(broker: Broker) -> None:
    broker.committed = {OUTER: 8}
    end = end_of()
    end.stop()
    assert not end._reached()
    assert (broker.polls, broker.closed) == ([], 1)


def test_repartition_topics_that_have_grown_meanwhile_are_looked_at_again(broker: Broker) -> None:
    broker.committed = {OUTER: 10, INNER: 5}
    broker.ends = [{INNER: 5}, {INNER: 6}]
    assert not end_of()._reached()


def test_the_end_is_told_once_though_the_broker_was_away(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.committed = {OUTER: 10, INNER: 5}
    broker.failures = 2
    told: list[int] = []
    end = end_of(then=lambda: told.append(1))
    with caplog.at_level(logging.WARNING):
        end.start()
        end._thread.join(30)
    assert told == [1]
    assert [each.message for each in caplog.records] == [
        "g: looking for the end of its topics failed and is retried: away"
    ]  # the second failure is within the same second


def test_a_run_that_ends_by_itself_is_told_nothing(broker: Broker) -> None:
    asked = threading.Event()
    broker.polls = []
    broker.committed = {OUTER: 9}

    def poll_forever(settings: Any) -> Any:
        asked.set()
        raise ConnectionError("away")

    unread.StreamConsumer = poll_forever  # type: ignore[assignment,misc]  # undone by the fixture
    told: list[int] = []
    end = end_of(then=lambda: told.append(1))
    end.start()
    assert asked.wait(30)
    end.stop()
    end._thread.join(30)
    assert not end._thread.is_alive()
    assert told == []
