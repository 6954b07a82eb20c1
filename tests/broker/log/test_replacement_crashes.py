"""Crashes while segments are replaced, and what recovery knows of compacted logs and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamactors.broker.log.checkpoint_text import decode_offsets, encode_offsets
from streamactors.broker.log.cleaning.cleaner import Cleaner
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.segments.segment_files import SWAP_SUFFIX
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.filling import MakeLog, fill
from tests.broker.log.manual_pool import ManualPool
from tests.broker.log.quick_disk import QuickDisk


class CrashAfter(Exception):
    """Stops the process that the test plays."""


class CrashingDisk(QuickDisk):
    """Dies at the n-th rename or removal."""

    def __init__(self) -> None:
        super().__init__()
        self.left = -1

    def _step(self) -> None:
        if self.left == 0:
            raise CrashAfter
        self.left -= 1

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)


def test_a_crash_at_any_step_of_a_replacement_leaves_a_log_that_says_the_same(tmp_path: Path) -> None:
    config = LogConfig(
        cleanup_policy=("compact",), segment_bytes=600, index_interval_bytes=0, delete_retention_ms=2**40
    )

    def latest(log: PartitionLog) -> dict[bytes | None, tuple[int, bytes | None]]:
        return {
            record.key: (record.offset, record.value)
            for batch in log.reader.replay(log.log_start_offset, log.end_offset)
            for record in batch.records()
        }

    steps = 0
    while True:
        folder, disk = tmp_path / f"at{steps}" / "t-0", CrashingDisk()
        log = PartitionLog.create(disk, folder, "t", 0, None, config, pool=ManualPool(), now_ms=NOW_MS)
        fill(log, 12)
        log.advance_high_watermark(log.end_offset)
        expected, end = latest(log), log.end_offset
        disk.left = steps
        try:
            Cleaner(lambda log=log: [log], None).clean(log, NOW_MS)  # type: ignore[misc]
            crashed = False
        except CrashAfter:
            crashed = True
        log.abandon()
        for strict in (True, False):
            again = PartitionLog.open(
                QuickDisk(), folder, "t", 0, LogConfig(), Checkpoints(strict=strict), pool=ManualPool(), now_ms=NOW_MS
            )
            assert again.end_offset == end
            assert latest(again) == expected
            assert not [path for path in folder.iterdir() if path.name.endswith(SWAP_SUFFIX)]
            again.abandon()
        if not crashed:
            break
        steps += 1
    assert steps > 10


Reopen = Callable[..., PartitionLog]


def test_recovery_knows_that_a_compacted_log_has_gaps_even_before_its_settings_are_known(
    make_log: MakeLog, reopen: Reopen
) -> None:
    log = make_log(cleanup_policy=("compact",), segment_bytes=600)
    fill(log, 20)
    log.advance_high_watermark(40)
    assert Cleaner(lambda: [log], None).clean(log, NOW_MS)
    before = [batch.base_offset for batch in log.reader.replay(0, 40)]
    assert len(before) < 20
    log.abandon()
    again = PartitionLog.open(
        QuickDisk(), log.directory, "orders", 0, LogConfig(), Checkpoints(), pool=ManualPool(), now_ms=NOW_MS
    )
    assert [batch.base_offset for batch in again.reader.replay(0, 40)] == before
    assert again.end_offset == 40
    again.abandon()


def test_checkpoint_text_is_kafkas() -> None:
    assert encode_offsets({("orders", 0): 12, ("a.b_c", 3): 0}) == b"0\n2\norders 0 12\na.b_c 3 0\n"
    assert decode_offsets(b"") == {}  # as Apache Kafka leaves cleaner-offset-checkpoint


def test_a_checkpoint_cut_within_a_number_is_damaged() -> None:
    whole = encode_offsets({("orders", 0): 1234})
    assert decode_offsets(whole) == {("orders", 0): 1234}
    for size in range(1, len(whole)):
        with pytest.raises(ValueError):
            decode_offsets(whole[:size])
