"""How a consumer ends: what it waits for before it leaves its group."""

from __future__ import annotations

import pytest

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.kafka.reading.consumer_state import ConsumerState
from streamactors.kafka.reading.ending import Ending
from streamactors.kafka.reading.messages import Commits, StageEnded
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.reading.pausing import Limits
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

KEY = TopicPartition("t", 0)


class NothingToCommit:
    """The commits of a consumer whose positions are all committed."""

    in_flight = False

    def commit(self, offsets, then):
        assert not offsets
        then(True)


class Timer:
    def cancel(self):
        pass


class Consumer:
    """An Ending whose time stands still until the test moves it."""

    def __init__(self, commits, *, in_flight=False, drains=False, keeps_state=False):
        self.now_ms = 0.0
        self.closed = []
        self.looks = []
        settings = ConsumerSettings("localhost:1", group_id="g", close_timeout_ms=1_000)
        context = ConsumerContext(
            settings=settings,
            commits=commits,
            source=None,
            tracker=OffsetTracker(),
            state=ConsumerState(Limits(100, 10, 1_000, 0), 10),
            call_later=lambda ms, call: Timer(),
            now_ms=lambda: self.now_ms,
            tell=lambda message: None,
            until_end=False,
            apart=False,
        )
        self._ended = StreamFuture()
        self.ending = Ending(context, NothingToCommit(), self._ended, self._close, self.looks.append)
        context.tracker.until_run_ends = keeps_state
        if in_flight:
            context.tracker.assigned([KEY], 1)
            context.tracker.delivered(KEY, 1, 5)
        self.ending.begin(StageEnded(None), without_deadline=drains)

    def _close(self, error):
        self.closed.append(error)
        self._ended.try_complete(None)


def test_a_consumer_with_nothing_in_flight_closes_at_once():
    assert Consumer(Commits.MARKS).closed == [None]


def test_a_consumer_before_windows_that_keep_state_closes_when_the_run_has_ended():
    consumer = Consumer(Commits.MARKS, keeps_state=True)
    assert consumer.closed == []
    consumer.ending.on_run_ended()
    assert consumer.closed == [None]


def test_the_membership_outlives_the_last_commit_of_a_transaction_though_nothing_is_in_flight():
    consumer = Consumer(Commits.TRANSACTION)
    assert consumer.closed == []
    assert consumer.looks, "rebalances are served while it waits"
    consumer.ending.on_run_ended()
    assert consumer.closed == [None]


@pytest.mark.parametrize("commits", list(Commits))
def test_no_consumer_waits_beyond_its_deadline(commits):
    consumer = Consumer(commits)
    consumer.now_ms = 1_001
    consumer.ending.try_to_stop()
    assert None in consumer.closed


def test_records_that_are_late_when_a_consumer_closes_are_named(caplog):
    consumer = Consumer(Commits.MARKS, in_flight=True)
    assert consumer.closed == []
    consumer.now_ms = 1_001
    consumer.ending.try_to_stop()
    assert consumer.closed == [None]
    assert (
        "group g: records of t-0, or results of its windows, were in flight 1000 ms after the stream was stopped"
        in caplog.text
    )


def test_a_drained_consumer_waits_for_its_run_and_no_longer(caplog):
    consumer = Consumer(Commits.MARKS, in_flight=True, drains=True)
    consumer.now_ms = 1_000_000
    consumer.ending.try_to_stop()
    assert consumer.closed == []
    consumer.ending.on_run_ended()
    assert consumer.closed == [None]
    assert not caplog.text


def test_the_last_commit_of_a_drained_consumer_has_its_deadline_when_the_run_has_ended():
    consumer = Consumer(Commits.MARKS, in_flight=True, drains=True)
    consumer.ending._commits.commit = lambda offsets, then: then(False)  # no broker takes it
    consumer.now_ms = 5_000
    consumer.ending.on_run_ended()
    assert consumer.closed == []
    consumer.now_ms = 6_001
    consumer.ending.try_to_stop()
    (error,) = consumer.closed
    assert "not committed in 1000 ms after the stream's end" in str(error)
