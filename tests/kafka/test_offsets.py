"""The offset tracker: what may be committed, by rule and against a model."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from streamactors.kafka.offsets import OffsetTracker
from streamactors.kafka.subscriptions import TopicPartition

KEY = TopicPartition("t", 0)


def tracker(gap_aware=True, end=10):
    found = OffsetTracker()
    found.gap_aware = gap_aware
    found.assigned([KEY], 1)
    assert found.delivered(KEY, 1, end, 0)
    return found


def test_an_offset_above_one_that_is_not_acknowledged_waits():
    t = tracker()
    t.acknowledge(KEY, 1, [1, 2, 5])
    assert t.to_commit() == {}
    t.acknowledge(KEY, 1, [0])
    assert t.to_commit() == {KEY: 3}


def test_a_mark_closes_gaps_that_nobody_will_acknowledge():
    t = tracker()
    t.acknowledge(KEY, 1, [6, 7])
    t.done(KEY, 1, 6)
    assert t.to_commit() == {KEY: 8}


def test_without_marks_an_offset_counts_for_all_before_it():
    t = tracker(gap_aware=False)
    t.acknowledge(KEY, 1, [5, 2])
    assert t.to_commit() == {KEY: 6}


def test_what_belongs_to_an_earlier_assignment_is_ignored():
    t = tracker()
    t.forget([KEY])
    t.assigned([KEY], 2)
    t.done(KEY, 1, 9)
    t.acknowledge(KEY, 1, [0])
    assert not t.delivered(KEY, 1, 9)
    assert t.to_commit() == {}
    assert not t.is_ours(KEY, 1)


def test_draining_returns_at_once_when_nothing_is_in_flight():
    t = tracker()
    t.done(KEY, 1, 10)
    assert t.drain([KEY], 60_000) == set()


def test_draining_refuses_deliveries_and_is_woken_by_the_last_one_done():
    t = tracker()
    left = []
    waiting = threading.Thread(target=lambda: left.append(t.drain([KEY], 60_000)))
    waiting.start()
    while t.deliverable(KEY, 1):
        pass
    assert not t.delivered(KEY, 1, 11)
    t.done(KEY, 1, 10)
    waiting.join(30)
    assert left == [set()]


def test_draining_names_what_is_late():
    assert tracker().drain([KEY], 0) == {KEY}


@given(st.permutations(range(30)), st.integers(1, 30), st.data())
def test_nothing_is_committed_over_an_unacknowledged_record_and_all_is_at_the_end(order, size, data):
    t = tracker(end=30)
    acknowledged, marked = set(), 0
    for start in range(0, 30, size):
        t.acknowledge(KEY, 1, list(order[start : start + size]))
        acknowledged.update(order[start : start + size])
        if data.draw(st.booleans()):
            prefix = next((i for i in range(30) if i not in acknowledged), 30)
            marked = max(marked, data.draw(st.integers(0, prefix)))
            t.done(KEY, 1, marked)
        position = t.to_commit().get(KEY, 0)
        assert set(range(position)) <= acknowledged
        assert position == next((i for i in range(30) if i not in acknowledged), 30) or position >= marked
    assert t.to_commit() == {KEY: 30}
