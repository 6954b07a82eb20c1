"""The time index of a segment beside a plain list of its entries."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.log.segments.time_index import TimeIndex, TimestampOffset

BASE = 1_000
NOTHING = TimestampOffset(-1, BASE)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 12), st.integers(1, 3)),  # timestamp, offsets since the last entry
        st.tuples(st.just("truncate"), st.integers(0, 30), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_an_index_has_the_entries_before_a_truncation_whose_timestamps_grow(steps: list[tuple[str, int, int]]) -> None:
    index, entries, end = TimeIndex(Path("no.timeindex"), BASE, 1 << 20), [], BASE
    for step, number, more in steps:
        if step == "append":
            end += more
            index.append(number, end)
            if not entries or number > entries[-1].timestamp:
                entries.append(TimestampOffset(number, end))
        else:
            end = min(end, BASE + number)
            index.truncate(BASE + number)
            entries = [each for each in entries if each.offset < BASE + number]
        assert len(index) == len(entries)
        assert index.last == (entries[-1] if entries else NOTHING)
        for timestamp in range(-1, 14):
            below = [each for each in entries if each.timestamp <= timestamp]
            assert index.lookup(timestamp) == (below[-1] if below else NOTHING)
