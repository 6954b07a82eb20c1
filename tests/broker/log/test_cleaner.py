"""The cleaner: which log it compacts first, which logs wait, and what it does with logs that are truncated, deleted or damaged meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamactors.broker.log.cleaning.cleaner import Cleaner
from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.compression import Compression
from tests.broker.log.compacting import clean, put, records
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.quick_disk import QuickDisk
from tests.broker.log.transacting import Writer

MakeLog = Callable[..., PartitionLog]
DAY_MS = 86_400_000


def test_a_young_segment_waits_for_its_time(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy=("compact",), min_compaction_lag_ms=1000)
    put(log, (b"a", b"1"), timestamp=NOW_MS)
    put(log, (b"a", b"2"), timestamp=NOW_MS)
    log.roll(NOW_MS)
    assert not clean(log, NOW_MS + 999)
    assert clean(log, NOW_MS + 1000)
    assert records(log) == [(1, b"a", b"2")]


def test_the_dirtiest_log_is_first_and_clean_ones_are_left_alone(make_log: MakeLog) -> None:
    settings = {"cleanup_policy": ("compact",), "segment_bytes": 5_000}
    little, much, other = (make_log(topic=topic, **settings) for topic in ("little", "much", "other"))
    plain = make_log(topic="plain")
    for log in (little, much, plain):
        for number in range(10):
            put(log, (b"a", b"%d" % number))
        log.roll(NOW_MS)
    cleaner = Cleaner(lambda: [other, plain, little, much], None)
    assert cleaner.run_once(NOW_MS)
    assert cleaner.run_once(NOW_MS)
    assert not cleaner.run_once(NOW_MS)
    assert [len(records(log)) for log in (little, much, plain)] == [1, 1, 10]
    put(much, (b"b" * 300, b"v" * 300))
    much.roll(NOW_MS)
    put(little, (b"c", b"v"))
    little.roll(NOW_MS)
    assert cleaner.run_once(NOW_MS)
    assert (cleaner.cleaned_to(much), cleaner.cleaned_to(little)) == (11, 10)


def test_a_log_that_is_less_dirty_than_asked_waits_unless_it_waited_too_long(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy=("compact",), max_compaction_lag_ms=5000, segment_bytes=100_000)
    cleaner = Cleaner(lambda: [log], None)
    put(log, *((b"%d" % n, b"v" * 50) for n in range(50)))
    log.roll(NOW_MS)
    assert cleaner.run_once(NOW_MS)
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.roll(NOW_MS)
    assert not cleaner.run_once(NOW_MS + 5000)
    assert cleaner.run_once(NOW_MS + 5001)
    assert (51, b"a", b"2") in records(log)
    assert (50, b"a", b"1") not in records(log)


def test_a_log_that_is_truncated_while_it_is_cleaned_keeps_its_own_segments(compacted: PartitionLog) -> None:
    log = compacted
    for number in range(10):
        put(log, (b"a", b"%d" % number))
        log.roll(NOW_MS)
    cleaner = Cleaner(lambda: [log], None)
    with cleaner.held(log, NOW_MS) as planned:
        log.truncation.truncate_to(5, NOW_MS)
        assert not log.trim.replace_segments(planned.segments[:2], planned.segments[0], NOW_MS, planned.generation)
    assert [offset for offset, _, _ in records(log)] == list(range(5))


def test_a_log_that_cannot_be_read_is_left_alone_and_named(
    compacted: PartitionLog, caplog: pytest.LogCaptureFixture
) -> None:
    log = compacted
    put(log, (b"a", b"1"), compression=Compression.ZSTD)
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    path = log.segments[0].log.path
    data = bytearray(path.read_bytes())
    data[65:75] = bytes(10)
    path.write_bytes(data)
    cleaner = Cleaner(lambda: [log], None)
    assert not cleaner.run_once(NOW_MS)
    assert "orders-0: compaction failed" in caplog.text
    assert not cleaner.run_once(NOW_MS)
    assert caplog.text.count("compaction failed") == 1
    assert not list(log.directory.glob("*.cleaned"))


class Deleting(QuickDisk):
    """Runs a hook once, when a cleaned segment is about to be synced."""

    def __init__(self) -> None:
        super().__init__()
        self.hook: Callable[[], object] | None = None

    def modified_ms(self, path: Path) -> int:
        hook, self.hook = self.hook, None
        if hook is not None:
            hook()
        return super().modified_ms(path)


def test_a_topic_that_is_deleted_while_it_is_cleaned_leaves_nothing_for_the_next_of_its_name(
    make_log: MakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    # The pass failed for want of the folder, and the name stayed among those that cannot be cleaned, for good.
    disk = Deleting()
    log = make_log(disk, cleanup_policy=("compact",))
    for number in range(4):
        put(log, (b"a", b"%d" % number))
    log.roll(NOW_MS)
    logs = [log]
    cleaner = Cleaner(lambda: logs, None)

    def delete() -> None:
        log.delete(log.directory.with_name("orders-0.gone-delete"))
        cleaner.forget("orders", 0)

    disk.hook = delete
    assert not cleaner.run_once(NOW_MS)
    assert not log.directory.exists()
    assert not caplog.text
    logs[0] = again = make_log(cleanup_policy=("compact",))
    for number in range(4):
        put(again, (b"a", b"%d" % number))
    again.roll(NOW_MS)
    assert cleaner.cleaned_to(again) == 0
    assert cleaner.run_once(NOW_MS)
    assert records(again) == [(3, b"a", b"3")]


def test_a_log_whose_indexes_cannot_be_read_does_not_end_the_cleaner(
    make_log: MakeLog, reopen: Callable[..., PartitionLog], caplog: pytest.LogCaptureFixture
) -> None:
    bad = make_log(topic="bad", cleanup_policy=("compact",), segment_bytes=300)
    good = make_log(topic="good", cleanup_policy=("compact",))
    for log in (bad, good):
        writer = Writer(log, 1)
        for number in range(4):
            writer.write(b"%d" % number)
            writer.end(committed=False)
        log.roll(NOW_MS)
    bad.close()
    (index, *_) = bad.directory.glob("*.txnindex")
    index.unlink()
    index.mkdir()  # reading it fails with EISDIR
    bad = reopen(bad, Checkpoints(clean=True, recovery_point=bad.end_offset, high_watermark=bad.end_offset))
    cleaner = Cleaner(lambda: [bad, good], None)
    cleaned = [cleaner.run_once(NOW_MS) for _ in range(3)]
    assert True in cleaned
    assert cleaner.cleaned_to(good) == good.active.base_offset
    assert "bad-0: compaction failed" in caplog.text
    assert all(segment.log.close_if_idle() for segment in bad.segments), "nothing is held any more"


def test_the_cleaner_opens_the_files_that_it_holds_under_the_lock_of_the_log(compacted: PartitionLog) -> None:
    # Held and not yet open, a file was opened by the cleaner and the data plane at once: one descriptor was lost.
    log = compacted
    for number in range(4):
        put(log, (b"a", b"%d" % number))
        log.roll(NOW_MS)
    log.close_idle()
    cleaner = Cleaner(lambda: [log], None)
    with cleaner.held(log, NOW_MS) as planned:
        assert len(planned.segments) == 4
        assert all(segment.log.is_open for segment in planned.segments)
    assert all(segment.log.close_if_idle() for segment in planned.segments)


def test_looking_for_a_log_to_clean_opens_no_file(compacted: PartitionLog) -> None:
    log = compacted
    put(log, *((b"%d" % number, b"v") for number in range(50)))
    log.roll(NOW_MS)
    cleaner = Cleaner(lambda: [log], None)
    assert cleaner.run_once(NOW_MS)
    log.close_idle()
    assert not cleaner.run_once(NOW_MS)
    assert not any(segment.log.is_open for segment in log.segments[:-1])


def test_a_plan_counts_the_dirty_bytes_and_all_bytes_of_cleanable_segments(compacted: PartitionLog) -> None:
    log = compacted
    for number in range(4):
        put(log, (b"k%d" % number, b"v" * 100))
        log.roll(NOW_MS)
    cleaner = Cleaner(lambda: [log], None)
    sizes = [segment.size for segment in log.segments[:-1]]
    with cleaner.held(log, NOW_MS) as planned:
        assert (planned.first_dirty, planned.end, len(planned.segments)) == (0, 4, 4)
        assert (planned.dirty_bytes, planned.total_bytes, planned.dirty_ratio) == (sum(sizes), sum(sizes), 1.0)
    assert cleaner.clean(log, NOW_MS)
    cleaned = log.segments[0].size
    assert len(log.segments) == 2, "what is left of four segments fits into one"
    put(log, (b"k9", b"v" * 300))
    log.roll(NOW_MS)
    dirty = log.segments[1].size
    with cleaner.held(log, NOW_MS) as planned:
        assert (planned.first_dirty, planned.end) == (4, 5)
        assert (planned.dirty_bytes, planned.total_bytes) == (dirty, cleaned + dirty)
        assert planned.dirty_ratio == pytest.approx(dirty / (cleaned + dirty))


def test_an_empty_log_is_not_dirty(compacted: PartitionLog) -> None:
    with Cleaner(lambda: [compacted], None).held(compacted, NOW_MS) as planned:
        assert (planned.dirty_bytes, planned.total_bytes, planned.dirty_ratio) == (0, 0, 0.0)
