"""How far the offsets of a recovered segment may reach: its index has 31 bits for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.partition.leader_epochs import LeaderEpochs
from streamactors.broker.log.partition.recovery import BatchChecker, recover_segment
from streamactors.broker.log.producers.producer_state import ProducerState
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS

LARGEST = 2**31 - 1


@pytest.mark.parametrize("base", [0, 1_000])
@pytest.mark.parametrize(
    ("limit", "last", "fits"),
    [(None, LARGEST, True), (None, LARGEST + 1, False), (50, 49, True), (50, 50, False), (50, 1, True)],
)
def test_a_batch_beyond_the_reach_of_its_segment_is_damage(
    base: int, limit: int | None, last: int, fits: bool, tmp_path: Path
) -> None:
    segment = Segment.create(Disk(), tmp_path, base, LogConfig(), NOW_MS)
    batch = build_batch([NewRecord(b"k", b"v", NOW_MS)] * 2, base_offset=base + last - 1)
    segment.log.write_at(batch, 0)
    segment.size = len(batch)
    checker = BatchChecker(LeaderEpochs(), learn_epochs=True, gaps=True)
    found = recover_segment(segment, ProducerState(), checker, None if limit is None else base + limit, NOW_MS)
    assert (found.damage is None) == fits
    assert found.position == (len(batch) if fits else 0)
    segment.log.close()
