"""RecordTimes against a plain list: the oldest record that is not done, whatever the chunks, the cuts and the order of what is done."""

from __future__ import annotations

import gc

from hypothesis import given
from hypothesis import strategies as st

from streamactors.kafka.reading import record_times
from streamactors.kafka.reading.record_times import RecordTimes


def ms_of(offset: int) -> int:
    return 1_000 + offset * 7


@given(st.data())
def test_the_oldest_record_that_is_not_done_is_known_at_each_edge_of_a_chunk(data):
    """Chunks are handed over, then pushed in parts; done moves to edges of the parts."""
    times, offset = RecordTimes(), 0
    edges, records = [], []
    for size in data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=12)):
        offset += data.draw(st.sampled_from([0, 0, 0, 3]))  # offsets without records
        chunk = range(offset, offset + size)
        offset = chunk.stop
        times.note(chunk[0], chunk.stop, ms_of(chunk[0]))
        cuts = sorted(data.draw(st.sets(st.sampled_from(chunk), max_size=3)) | {chunk[0]})
        for first, end in zip(cuts, [*cuts[1:], chunk.stop], strict=True):
            times.note(first, end, ms_of(first))
            edges.append(end)
        records.extend(chunk)
    for done in sorted(data.draw(st.lists(st.sampled_from(edges), max_size=6))):
        times.done(done)
        oldest = times.oldest(done)
        left = [each for each in records if each >= done]
        assert (None if oldest is None else oldest.ms) == (ms_of(left[0]) if left else None)


def test_nothing_done_means_that_the_first_chunk_is_the_oldest():
    times = RecordTimes()
    assert times.oldest(None) is None
    times.note(5, 10, 50)
    times.note(10, 20, 100)
    assert times.oldest(None).ms == 50
    assert times.oldest(7).ms == 50, "within a chunk, the age of its first record"


def test_chunks_without_timestamps_have_no_age():
    times = RecordTimes()
    times.note(0, 5, None)
    assert times.oldest(None).ms is None


def test_a_sink_that_holds_a_thousand_chunks_costs_a_bounded_list_and_an_age_that_is_never_too_small():
    times = RecordTimes()
    for number in range(10_000):
        times.note(number, number + 1, ms_of(number))
    assert len(times) <= record_times.MOST
    for done in (0, 1, 4_999, 9_999):
        assert ms_of(done - 2 * 10_000 // record_times.MOST) < times.oldest(done).ms <= ms_of(done)
    assert times.oldest(0).ms == ms_of(0)
    times.done(9_999)
    assert len(times) == 1
    times.done(10_000)
    for number in (10_000, 10_001):
        times.note(number, number + 1, ms_of(number))
    assert times.oldest(10_001).ms == ms_of(10_001), "exact again"


def test_what_is_handed_again_after_a_seek_back_counts_from_there():
    times = RecordTimes()
    times.note(500, 600, ms_of(500))
    times.note(0, 100, ms_of(0))
    assert times.oldest(None).ms == ms_of(0)
    assert times.oldest(100).ms == ms_of(500)


def test_a_chunk_makes_no_object_for_the_garbage_collector():
    """A poll makes as many objects as it can without a collection. A tuple per chunk brought one about in each poll: ten times as many as without."""
    times = RecordTimes()
    times.note(0, 500, 1)
    gc.disable()
    try:
        before = gc.get_count()[0]
        for number in range(1, 200):
            times.note(number * 500, number * 500 + 500, number)
        made = gc.get_count()[0] - before
    finally:
        gc.enable()
    assert made < 20
