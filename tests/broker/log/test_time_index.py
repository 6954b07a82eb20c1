"""The time index of a segment beside a plain list of its entries."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.log.segments.time_index import ENTRY, TimeIndex, TimestampOffset

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


class OneFile:
    """A disk with the file of the index, or without it."""

    def __init__(self, content: bytes | None = None) -> None:
        self.content = content

    def write(self, path: Path, data: bytes) -> None:
        self.content = data

    def read(self, path: Path) -> bytes:
        if self.content is None:
            raise FileNotFoundError(path)
        return self.content


def entries_of(index: TimeIndex) -> list[TimestampOffset]:
    return [
        TimestampOffset(*each) for each in zip(index._timestamps, [BASE + at for at in index._offsets], strict=True)
    ]


ENTRIES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30)), max_size=8)


@given(ENTRIES, st.integers(0, 35), st.integers(0, 3))
def test_a_file_is_loaded_if_its_timestamps_grow_and_its_offsets_are_in_the_segment(
    entries: list[tuple[int, int]], end: int, zeros: int
) -> None:
    content = b"".join(ENTRY.pack(*each) for each in entries) + bytes(zeros * ENTRY.size)
    written = entries + [(0, 0)] * zeros
    kept: list[tuple[int, int]] = []
    fits = True
    for timestamp, offset in written:
        if (timestamp, offset) == (0, 0) and kept:
            break
        fits = timestamp > (kept[-1][0] if kept else -1) and offset < end
        if not fits:
            break
        kept.append((timestamp, offset))
    index = TimeIndex(Path("a.timeindex"), BASE, 1 << 20)
    index.append(99, BASE)
    assert index.load(OneFile(content), BASE + end) == fits  # type: ignore[arg-type]
    assert entries_of(index) == [TimestampOffset(at, BASE + offset) for at, offset in kept] * fits
    if fits:
        again, disk = TimeIndex(Path("a.timeindex"), BASE, 1 << 20), OneFile()
        index.save(disk)  # type: ignore[arg-type]
        assert again.load(disk, BASE + end)  # type: ignore[arg-type]
        assert entries_of(again) == entries_of(index)


def test_a_file_that_is_missing_or_cut_off_is_not_loaded() -> None:
    for content in (None, ENTRY.pack(5, 1)[:-1], ENTRY.pack(5, 1) + b"x"):
        index = TimeIndex(Path("a.timeindex"), BASE, 1 << 20)
        index.append(7, BASE)
        assert not index.load(OneFile(content), BASE + 9)  # type: ignore[arg-type]
        assert len(index) == 0


def test_an_index_is_full_while_it_has_room_for_one_entry() -> None:
    for most in (2, 5):
        index = TimeIndex(Path("a.timeindex"), BASE, most * ENTRY.size + 3)
        for number in range(most):
            assert index.is_full == (number == most - 1)
            index.append(number, BASE + number)
    assert TimeIndex(Path("a.timeindex"), BASE, 0)._max_entries == 2
