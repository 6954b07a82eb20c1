"""The offset tracker: what may be committed, by rule and against a model."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from streamactors.engine.marks.progress import SinkProgress
from streamactors.kafka.reading.offset_tracker import OffsetTracker, PartitionProgress
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


def test_draining_waits_for_results_that_stem_from_no_record_too():
    t = tracker()
    t.done(KEY, 1, 10)
    assert t.owe(KEY, 1)
    assert t.owed() == {KEY: 1}
    left = []
    waiting = threading.Thread(target=lambda: left.append(t.drain([KEY], 60_000)))
    waiting.start()
    while t.deliverable(KEY, 1):
        pass
    assert not t.owe(KEY, 1), "the next owner gives them"
    assert t.in_flight() == set()
    t.paid(KEY, 1)
    waiting.join(30)
    assert (left, t.owed()) == ([set()], {})
    t.forget([KEY])
    assert t.lost_owed() == set()


def test_results_that_stem_from_no_record_are_lost_with_their_partition():
    for lose in (lambda t: t.forget([KEY]), lambda t: t.assigned([KEY], 2)):
        t = tracker()
        assert t.owe(KEY, 1)
        assert t.drain([KEY], 0) == {KEY}
        lose(t)
        assert t.lost_owed() == {KEY}
        assert not t.owe(KEY, 1)
        assert t.owed() == {}
        t.paid(KEY, 1)  # there were none, or they were committed in that moment
        assert t.lost_owed() == set()


def test_the_results_of_the_end_are_owed_as_long_as_the_assignment_lasts():
    """The drain waits for the last records, and then for these results."""
    t = tracker()
    t.revoking([KEY])
    assert not t.owe(KEY, 1)
    assert t.owe(KEY, 1, last=True)
    t.done(KEY, 1, 10)
    assert t.drain([KEY], 0) == {KEY}
    t.paid(KEY, 1)
    t.forget([KEY])
    assert not t.owe(KEY, 1, last=True)


def test_without_marks_the_highest_of_all_runs_counts():
    t = tracker(gap_aware=False)
    t.acknowledge(KEY, 1, range(3), [7, 4], range(5, 6))
    assert t.to_commit() == {KEY: 8}


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


def test_what_was_taken_back_is_not_in_flight_and_a_revocation_does_not_wait_for_it():
    t = tracker(end=10)
    t.done(KEY, 1, 4)
    t.taken_back(KEY, 1, 4)
    assert t.drain([KEY], 60_000) == set()
    assert not t.delivered(KEY, 1, 10, 4), "its revocation has begun"


def test_nothing_behind_what_one_branch_of_the_run_took_back_is_done_though_another_has_done_it():
    """A stop -> windows that read several topics in order give back the rows they hold -> their sink ends before that of another branch, which has done these
    rows -> the position behind them was committed, and the windows never saw them."""
    t, progress, source = tracker(), SinkProgress(), "s"
    progress.listen(source, t.done_everywhere)
    for sink in ("of windows", "archive"):
        progress.add_sink(sink, frozenset([source]))
    progress.done("of windows", {(source, KEY): (1, 4)})
    t.taken_back(KEY, 1, 4)
    progress.done("archive", {(source, KEY): (1, 10)})
    progress.sink_ended("of windows")
    progress.sink_ended("archive")
    assert t.to_commit() == {KEY: 4}
    assert t.in_flight() == set()


def test_what_several_branches_took_back_is_not_in_flight_from_the_first_place_on():
    t = tracker()
    t.taken_back(KEY, 1, 4)
    t.taken_back(KEY, 1, 7)
    t.done(KEY, 1, 10)
    assert (t.to_commit(), t.in_flight()) == ({KEY: 4}, set())
    assert t.delivered(KEY, 1, 10, 4)
    t.done(KEY, 1, 10)
    assert t.to_commit() == {KEY: 10}


def test_taking_back_wakes_a_revocation_that_waits():
    t = tracker(end=10)
    t.done(KEY, 1, 4)
    late = []
    waiting = threading.Thread(target=lambda: late.append(t.drain([KEY], 60_000)))
    waiting.start()
    t.taken_back(KEY, 1, 4)
    waiting.join(30)
    assert late == [set()]


RUN = st.one_of(
    st.lists(st.integers(0, 30), min_size=1, max_size=12),
    st.builds(lambda first, n: range(first, first + n), st.integers(0, 30), st.integers(1, 12)),
)


@given(st.lists(st.lists(RUN, min_size=1, max_size=3), max_size=12), st.lists(st.integers(0, 30)))
def test_acknowledging_in_runs_commits_what_acknowledging_one_by_one_does(batches, marks):
    """Runs without a gap take a short cut; it must not show."""
    runs, single = tracker(end=50), tracker(end=50)
    for i, batch in enumerate(batches):
        runs.acknowledge(KEY, 1, *batch)
        for run in batch:
            for offset in run:
                single.acknowledge(KEY, 1, [offset])
        if i < len(marks):
            runs.done(KEY, 1, marks[i])
            single.done(KEY, 1, marks[i])
        assert runs.to_commit() == single.to_commit()


def test_records_in_flight_are_those_delivered_and_not_done():
    assert PartitionProgress(1).records_in_flight == 0
    assert PartitionProgress(1, first=5, delivered=9).records_in_flight == 4
    assert PartitionProgress(1, first=5, delivered=9, done=7).records_in_flight == 2
    assert PartitionProgress(1, first=5, delivered=9, done=9).records_in_flight == 0


DESCRIBED = st.lists(
    st.one_of(
        st.tuples(st.just("records"), st.integers(1, 3)),  # each with a text
        st.tuples(st.just("gap"), st.integers(1, 3)),  # offsets without a record: markers of transactions, compaction
        st.tuples(st.just("commit"), st.integers(0, 3)),  # of the position so far behind the newest
    ),
    max_size=20,
)


@given(DESCRIBED)
def test_a_commit_has_the_text_of_the_last_described_position_that_is_not_behind_it(steps):
    """Texts of committed positions are forgotten. One was forgotten too early: a commit behind records, at a position without a record, took the
    text with it, and the next commit at such a position had none."""
    tracker, texts, position, committed = OffsetTracker(), {}, 0, 0
    tracker.assigned([KEY], 1)
    for step, number in steps:
        if step == "records":
            made = [(position + 1 + i, f"text {position + 1 + i}") for i in range(number)]
            tracker.described(KEY, 1, made)
            texts.update(made)
            position += number
        elif step == "gap":
            position += number
        else:
            committed = max(committed, position - number)
            tracker.committed({KEY: committed})
        for at in range(committed, position + 1):
            described = [each for each in texts if each <= at]
            assert tracker.texts_of({KEY: at}) == ({KEY: texts[max(described)]} if described else {})
    assert len(tracker._texts.get(KEY, {})) <= position - committed + 1


def test_the_texts_of_an_earlier_assignment_are_not_committed():
    tracker = OffsetTracker()
    tracker.assigned([KEY], 1)
    tracker.described(KEY, 1, [(3, "old")])
    tracker.assigned([KEY], 2)
    tracker.described(KEY, 1, [(4, "late")])
    assert tracker.texts_of({KEY: 9}) == {}
