"""The file of a metadata snapshot: its batches follow each other without a gap, whatever lies beside the header."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.metadata import snapshot
from streamactors.broker.metadata.metadata_record import MetadataRecord, UnregisterBroker
from streamactors.broker.metadata.snapshot import decode_snapshot, encode_snapshot, quorum_of_snapshot
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.control_batch import KRAFT_VERSION, KRAFT_VOTERS, ControlRecord

QUORUM = [ControlRecord(KRAFT_VERSION, b"\x00\x00\x00\x01\x00"), ControlRecord(KRAFT_VOTERS, b"\x00\x00\x01\x00")]


@pytest.mark.parametrize("quorum", [0, 1, 2])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_the_offsets_of_a_snapshot_have_no_gap(
    count: int, quorum: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(snapshot, "RECORDS_PER_BATCH", 3)
    records: list[MetadataRecord] = [UnregisterBroker(number, number) for number in range(count)]
    content = encode_snapshot(records, 5, 1_700_000_000_000, QUORUM[:quorum])
    batches = list(iter_batches(memoryview(bytearray(content))))
    at = 0
    for batch in batches:
        assert (batch.base_offset, batch.leader_epoch) == (at, 5)
        at = batch.next_offset
    assert at == 1 + quorum + count + 1  # a header, those of the voters, the records, a footer
    assert [batch.is_control for batch in batches] == [True, *[False] * -(-count // 3), True]
    assert list(decode_snapshot(tmp_path, content)) == records
    assert quorum_of_snapshot(content) == QUORUM[:quorum]
    for end in {batch.position for batch in batches}:
        with pytest.raises(CorruptRecord, match="ends before its footer"):
            list(decode_snapshot(tmp_path, content[:end]))
