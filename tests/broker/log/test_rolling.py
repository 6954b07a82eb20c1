"""When a segment is closed and the next one begun: what the indexes can hold, and jitter."""

from __future__ import annotations

import pytest

from streamactors.broker.log.segments import segment as segments
from streamactors.broker.log.segments.segment_files import MAX_RELATIVE_OFFSET
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.header import seal
from streamactors.broker.records.record import NewRecord
from tests.broker.log.appending import append, values
from tests.broker.log.conftest import NOW_MS, MakeLog


def wide_batch(offsets: int) -> memoryview:
    """A batch that takes up so many offsets."""
    raw = build_batch([NewRecord(None, b"v", NOW_MS)])
    raw[23:27] = (offsets - 1).to_bytes(4, "big")
    raw[57:61] = offsets.to_bytes(4, "big")
    seal(raw)
    return memoryview(raw)


def test_a_full_time_index_closes_the_segment(make_log: MakeLog) -> None:
    # 84 bytes are ten entries of the offset index, and seven of the time index, of which the last is the final one
    log = make_log(segment_index_bytes=84, index_interval_bytes=0)
    for number in range(9):
        append(log, b"v", timestamp=NOW_MS + number)
    assert [segment.base_offset for segment in log.segments] == [0, 7]
    assert log.reader.list_offset(NOW_MS + 6, 9).offset == 6


def test_a_full_offset_index_closes_the_segment(make_log: MakeLog) -> None:
    log = make_log(segment_index_bytes=84, index_interval_bytes=0)
    for _ in range(14):  # of one time, so that the time index has one entry
        append(log, b"v")
    assert [segment.base_offset for segment in log.segments] == [0, 11]


def test_offsets_beyond_31_bits_of_the_base_begin_a_segment(make_log: MakeLog) -> None:
    log = make_log()
    assert log.append_as_leader(wide_batch(MAX_RELATIVE_OFFSET), 0, NOW_MS).base_offset == 0
    append(log, b"last that fits")
    assert [segment.base_offset for segment in log.segments] == [0]
    append(log, b"first that does not")
    assert [segment.base_offset for segment in log.segments] == [0, MAX_RELATIVE_OFFSET + 1]
    assert values(log, MAX_RELATIVE_OFFSET) == [b"last that fits"]
    assert values(log, MAX_RELATIVE_OFFSET + 1) == [b"first that does not"]


def test_jitter_closes_a_segment_earlier_than_its_age(make_log: MakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments.random, "randrange", lambda stop: stop - 1)  # the most there can be
    log = make_log(segment_ms=1000, segment_jitter_ms=300)
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 700)
    assert len(log.segments) == 1
    append(log, b"c", timestamp=NOW_MS + 701)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


@pytest.mark.parametrize(("policy", "segments"), [(("compact",), 2), (("delete",), 1)])
def test_a_compacted_segment_is_closed_in_time_for_the_longest_lag(
    make_log: MakeLog, policy: tuple[str, ...], segments: int
) -> None:
    log = make_log(cleanup_policy=policy, max_compaction_lag_ms=1000)  # only closed ones are compacted
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 1001)
    assert len(log.segments) == segments
