"""The offset index of a segment beside a plain list of its entries."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.log.segments.offset_index import ENTRY_SIZE, OffsetIndex
from tests.broker.log.test_time_index import OneFile

BASE = 1_000
PATH = Path("a.index")
STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "truncate"]), st.integers(1, 4), st.integers(0, 40)), max_size=20
)


def packed(entries: list[tuple[int, int]]) -> bytes:
    """Kafka's form: relative offset and position, big-endian."""
    return b"".join(struct.pack(">II", offset - BASE, position) for offset, position in entries)


@given(STEPS)
def test_an_index_finds_the_last_entry_that_is_not_behind(steps: list[tuple[str, int, int]]) -> None:
    index, entries = OffsetIndex(PATH, BASE, 1 << 20), []
    offset, position = BASE, 0
    for step, more, at in steps:
        if step == "append":
            offset, position = offset + more, position + 1 + more
            entries.append((offset, position))
            index.append(offset, position)
        else:
            index.truncate(at)
            entries = [each for each in entries if each[1] < at]
        assert len(index) == len(entries)
        assert index.last_position == (entries[-1][1] if entries else 0)
        for sought in range(BASE - 1, offset + 3):
            below = [each for each in entries if each[0] <= sought]
            assert index.lookup(sought) == ((below[-1][1], below[-1][0]) if below else (0, -1))
        for limit in range(-1, position + 3):
            within = [each for each in entries if each[1] <= limit]
            assert index.last_within(limit) == ((within[-1][1], within[-1][0]) if within else (0, BASE - 1))
    disk = OneFile()
    index.save(disk)  # type: ignore[arg-type]
    assert disk.content == packed(entries)
    index.clear()
    assert (len(index), index.last_position) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6), st.integers(0, 2), st.integers(0, 12))
def test_a_file_is_loaded_if_offsets_and_positions_grow_within_the_segment(
    relative: list[tuple[int, int]], zeros: int, size: int
) -> None:
    entries = [(BASE + offset, position) for offset, position in relative]
    while relative and relative[-1] == (0, 0):
        relative.pop()
    kept = entries[: len(relative)]
    grows = all(a < b for one, other in pairwise(kept) for a, b in zip(one, other, strict=True))
    fits = grows and (not kept or kept[-1][1] < size)
    index = OffsetIndex(PATH, BASE, 1 << 20)
    index.append(BASE + 50, 50)
    assert index.load(OneFile(packed(entries) + bytes(zeros * ENTRY_SIZE)), size) == fits  # type: ignore[arg-type]
    assert len(index) == (len(kept) if fits else 0)
    for offset, position in kept if fits else ():
        assert index.lookup(offset) == (position, offset)


def test_a_file_that_is_missing_or_cut_off_is_not_loaded() -> None:
    for content in (None, packed([(BASE + 1, 5)])[:-1], packed([(BASE + 1, 5)]) + b"x"):
        index = OffsetIndex(PATH, BASE, 1 << 20)
        index.append(BASE + 1, 5)
        assert not index.load(OneFile(content), 100)  # type: ignore[arg-type]
        assert len(index) == 0


def test_an_index_is_full_at_its_size_and_has_room_for_one_entry_at_least() -> None:
    for size, most in ((0, 1), (ENTRY_SIZE, 1), (4 * ENTRY_SIZE - 1, 3)):
        index = OffsetIndex(PATH, BASE, size)
        for number in range(1, most + 1):
            assert not index.is_full
            index.append(BASE + number, number)
        assert index.is_full
