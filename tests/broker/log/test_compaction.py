"""Compaction: latest per key, tombstones and their horizon, producers' sequences, transactions, bounds of a pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamactors.broker.errors import OutOfOrderSequence
from streamactors.broker.log.cleaning.cleaner import Cleaner, _group
from streamactors.broker.log.cleaning.offset_map import ENTRY_BYTES, OffsetMap
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.record import NewRecord
from tests.broker.log.compacting import batches, clean, put, records
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.transacting import Writer, committed_values

MakeLog = Callable[..., PartitionLog]
DAY_MS = 86_400_000


@pytest.mark.parametrize("codec", Compression)
def test_the_latest_of_each_key_stays_at_its_offset(compacted: PartitionLog, codec: Compression) -> None:
    log = compacted
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), compression=codec)
    put(log, (b"b", b"2"), (b"c", b"1"), compression=codec)
    log.roll(NOW_MS)
    put(log, (b"a", b"active"), compression=codec)
    assert clean(log)
    assert records(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1"), (5, b"a", b"active")]
    assert {batch.compression for batch in batches(log)} == {codec}


def test_the_active_segment_and_unstable_records_are_not_compacted(compacted: PartitionLog) -> None:
    log = compacted
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    assert not clean(log), "everything is in the active segment"
    log.roll(NOW_MS)
    open_transaction = Writer(log, 9)
    open_transaction.write(b"x")
    log.roll(NOW_MS)
    put(log, (b"a", b"3"))
    log.roll(NOW_MS)
    assert clean(log)
    assert [value for _, key, value in records(log) if key == b"a"] == [b"2", b"3"]


def test_a_segment_that_is_stable_only_in_part_waits_as_a_whole(compacted: PartitionLog) -> None:
    log = compacted
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    Writer(log, 9).write(b"x")
    log.roll(NOW_MS)
    assert log.last_stable_offset == 2
    assert not clean(log)
    assert [value for _, key, value in records(log) if key == b"a"] == [b"1", b"2"]


def test_the_end_survives_a_restart_even_where_compaction_left_nothing_before_it(
    compacted: PartitionLog, reopen: Callable[..., PartitionLog]
) -> None:
    log = compacted
    put(log, (b"a", b"1"))
    put(log, (b"b", b"1"))
    put(log, (b"b", b"2"))
    log.roll(NOW_MS)
    assert clean(log)
    assert [offset for offset, _, _ in records(log)] == [0, 2]
    assert log.truncation.truncate_to(2, NOW_MS) == 2
    again = reopen(log)
    assert again.end_offset == 2
    assert put(again, (b"c", b"1")) == 2


def test_records_at_or_above_the_high_watermark_are_not_compacted(compacted: PartitionLog) -> None:
    log = compacted
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    log.append_as_leader(memoryview(build_batch([NewRecord(b"a", b"2", NOW_MS)])), 0, NOW_MS)
    log.roll(NOW_MS)
    assert log.high_watermark == 1
    clean(log)
    assert [value for _, _, value in records(log)] == [b"1", b"2"]


def test_a_tombstone_stays_for_its_time_after_the_first_pass_that_saw_it(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy=("compact",), delete_retention_ms=DAY_MS)
    put(log, (b"a", b"1"), (b"b", b"1"), timestamp=NOW_MS - 5)
    put(log, (b"a", None), (b"c", b"1"), timestamp=NOW_MS - 3)
    log.roll(NOW_MS)
    put(log, (b"z", b"active"))
    cleaner = Cleaner(lambda: [log], None)
    assert cleaner.clean(log, NOW_MS)
    assert (2, b"a", None) in records(log)
    [batch] = [batch for batch in batches(log) if batch.base_offset == 2]
    assert batch.delete_horizon_ms == NOW_MS + DAY_MS
    assert [record.timestamp for record in batch.records()] == [NOW_MS - 3, NOW_MS - 3]
    assert batch.max_timestamp == NOW_MS - 3
    for later, there in ((DAY_MS - 1, True), (DAY_MS, False)):
        put(log, (b"z", b"%d" % later))
        log.roll(NOW_MS)
        assert cleaner.clean(log, NOW_MS + later)
        assert ((2, b"a", None) in records(log)) == there
    assert (3, b"c", b"1") in records(log)


def test_offsets_stay_readable_where_compaction_left_holes(compacted: PartitionLog) -> None:
    log = compacted
    for number in range(30):
        put(log, (b"k%d" % (number % 3), b"%d" % number))
        if number % 5 == 4:
            log.roll(NOW_MS)
    assert clean(log)
    expected = records(log)
    assert [offset for offset, _, _ in expected] == [27, 28, 29]
    for offset in range(31):
        seen = [r.offset for batch in log.reader.replay(offset, 30) for r in batch.records() if r.offset >= offset]
        assert seen == [each for each, _, _ in expected if each >= offset]


def test_an_idempotent_producer_goes_on_after_its_records_were_compacted_away(
    compacted: PartitionLog, reopen: Callable[..., PartitionLog]
) -> None:
    log = compacted
    for sequence in range(3):
        put(log, (b"a", b"%d" % sequence), producer_id=7, producer_epoch=2, base_sequence=sequence)
    put(log, (b"a", b"from another"))
    log.roll(NOW_MS)
    assert clean(log)
    assert records(log) == [(3, b"a", b"from another")]
    [empty] = [batch for batch in batches(log) if batch.producer_id == 7]
    assert (empty.count, empty.base_offset, empty.last_sequence, empty.producer_epoch) == (0, 2, 2, 2)
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    again = reopen(log)
    with pytest.raises(OutOfOrderSequence, match="got 5, expected 3"):
        put(again, (b"a", b"x"), producer_id=7, producer_epoch=2, base_sequence=5)
    assert put(again, (b"a", b"x"), producer_id=7, producer_epoch=2, base_sequence=3) == 4


def test_records_of_aborted_transactions_go_and_committed_ones_stay(compacted: PartitionLog) -> None:
    log = compacted
    put(log, (b"k1", b"before"), (b"k2", b"before"))
    one, two = Writer(log, 1), Writer(log, 2)
    one.write(b"aborted")
    two.write(b"committed")
    one.end(committed=False)
    two.end(committed=True)
    log.roll(NOW_MS)
    put(log, (b"z", b"active"))
    assert clean(log)
    assert records(log) == [(0, b"k1", b"before"), (3, b"k2", b"committed"), (6, b"z", b"active")]
    assert committed_values(log) == [b"before", b"committed", b"active"]


def test_a_marker_goes_only_after_its_data_and_its_time(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy=("compact",), delete_retention_ms=DAY_MS)
    one = Writer(log, 1)
    one.write(b"first")
    first_marker = one.end(committed=True)
    one.write(b"second")
    one.end(committed=True)
    log.roll(NOW_MS)

    def markers() -> list[int]:
        return [batch.base_offset for batch in batches(log) if batch.is_control and batch.count]

    cleaner = Cleaner(lambda: [log], None)
    assert cleaner.clean(log, NOW_MS)
    assert markers() == [first_marker, 3], "its transaction was seen in this pass"
    times = [(1, True), (DAY_MS, True), (DAY_MS + 1, False)]
    for later, there in times:
        put(log, (b"z", b"%d" % later))
        log.roll(NOW_MS)
        assert cleaner.clean(log, NOW_MS + later)
        assert (first_marker in markers()) == there, f"after {later} ms"
    assert 3 in markers(), "its data are there"


def test_the_aborted_ranges_that_still_matter_are_kept(compacted: PartitionLog) -> None:
    log = compacted
    one = Writer(log, 1)
    one.write(b"aborted")
    one.end(committed=False)
    log.roll(NOW_MS)
    assert len(log.reader.aborted_transactions(0, 10)) == 1
    cleaner = Cleaner(lambda: [log], None)
    cleaner.clean(log, NOW_MS)
    assert len(log.reader.aborted_transactions(0, 10)) == 1, "as long as the marker was seen with data before it"
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    cleaner.clean(log, NOW_MS)
    assert committed_values(log) == [b"1"]


def test_records_rewritten_after_a_truncation_are_dirty_after_a_restart_too(
    compacted: PartitionLog, reopen: Callable[..., PartitionLog]
) -> None:
    log = compacted
    for number in range(6):
        put(log, (b"k", b"%d" % number))
    log.roll(NOW_MS)
    cleaner = Cleaner(lambda: [log], None)
    assert cleaner.clean(log, NOW_MS)
    log.truncation.truncate_to(0, NOW_MS)
    for number in range(12):
        put(log, (b"k%d" % (number // 6), b"%d" % number))
    log.roll(NOW_MS)
    log = reopen(log)
    log.advance_high_watermark(12)
    assert cleaner.clean(log, NOW_MS)
    assert records(log) == [(5, b"k0", b"5"), (11, b"k1", b"11")]
    log = reopen(log)
    assert cleaner.cleaned_to(log) == 12, "the cut has been taken note of"


def test_a_full_map_does_a_part_and_the_next_pass_the_rest(compacted: PartitionLog) -> None:
    log = compacted
    for number in range(60):
        put(log, (b"k%d" % (number % 20), b"%d" % number))
    log.roll(NOW_MS)
    cleaner = Cleaner(lambda: [log], None, dedupe_bytes=7 * ENTRY_BYTES)
    passes = 0
    while cleaner.clean(log, NOW_MS):
        passes += 1
        assert {key: value for _, key, value in records(log)} == {b"k%d" % n: b"%d" % (40 + n) for n in range(20)}
        assert passes < 60
    assert cleaner.cleaned_to(log) == 60
    assert passes > 3


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("room", [1, 7, 19])
def test_a_batch_with_more_keys_than_the_map_holds_is_compacted_in_parts(
    compacted: PartitionLog, room: int, codec: Compression
) -> None:
    log = compacted
    for turn in range(2):
        put(log, *((b"k%d" % number, b"%d" % (100 * turn + number)) for number in range(20)), compression=codec)
    log.roll(NOW_MS)
    cleaner = Cleaner(lambda: [log], None, dedupe_bytes=room * ENTRY_BYTES)
    passes = 0
    while cleaner.clean(log, NOW_MS):
        passes += 1
        assert {key: value for _, key, value in records(log)} == {b"k%d" % n: b"%d" % (100 + n) for n in range(20)}
        assert passes <= 40
    assert cleaner.cleaned_to(log) == 40
    assert [offset for offset, _, _ in records(log)] == list(range(20, 40))


def test_small_segments_are_joined_and_large_ones_are_not(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy=("compact",), segment_bytes=700)
    for number in range(40):
        put(log, (b"k%d" % number, b"v" * 50))
    full = len(log.segments)
    cleaner = Cleaner(lambda: [log], None)
    assert cleaner.clean(log, NOW_MS)
    assert len(log.segments) == full, "nothing went, so nothing fits together"
    for number in range(40):
        put(log, (b"k%d" % number, b"w"))
    log.roll(NOW_MS)
    overwritten = len(log.segments)
    for key in (b"one more", b"two more"):
        # the pass that empties them, and the one that finds the small ones next to each other
        assert cleaner.clean(log, NOW_MS)
        put(log, (key, b""))
        log.roll(NOW_MS)
    assert len(log.segments) < overwritten - full // 2
    assert all(segment.size <= 700 for segment in log.segments)
    assert len(records(log)) == 42


def test_cleaned_segments_are_joined_as_long_as_one_has_room_for_them(make_log: MakeLog) -> None:
    # The last closed segment was never joined to the ones before it.
    log = make_log(cleanup_policy=("compact",))
    for number in range(6):
        put(log, (b"k%d" % number, b"v" * 100))
        log.roll(NOW_MS)
    size = log.segments[0].size
    segments = tuple(log.segments[:-1])
    for room, groups in ((size * 6, [6]), (size * 4, [4, 2]), (size * 2 - 1, [1] * 6)):
        assert joined(segments, room) == groups


def joined(segments: tuple[Segment, ...], max_bytes: int) -> list[int]:
    counts = []
    while segments:
        counts.append(_group(segments, 6, max_bytes))
        segments = segments[counts[-1] :]
    return counts


def test_cleaned_segments_are_not_joined_beyond_the_offsets_of_one(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy=("compact",))
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    put(log, (b"b", b"2"))
    log.roll(NOW_MS)
    segments = tuple(log.segments[:-1])
    assert _group(segments, 2**31, 1 << 20) == 2
    assert _group(segments, 2**31 + 1, 1 << 20) == 1


def test_keys_of_any_length_are_distinct() -> None:
    offsets = OffsetMap(1 << 20)
    keys = [b"", b"a", b"x" * 15, b"x" * 16, b"x" * 17, b"x" * 1000, b"x" * 999 + b"y"]
    for offset, key in enumerate(keys):
        assert offsets.put(key, offset)
    assert [offsets.get(key) for key in keys] == list(range(len(keys)))
    assert offsets.get(b"unknown") == -1
