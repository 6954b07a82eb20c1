"""Records of a ShareFetch answer: every codec, gaps, damage, and claims that are larger than what was sent."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.control_batch import ControlRecord, control_batch
from streamactors.broker.records.record import NewRecord
from streamactors.kafka.client.share.protocol import Ack
from streamactors.kafka.client.share.share_records import (
    MAX_ACQUIRED,
    Range,
    TooManyAcquired,
    count_acquired,
    read_acquired,
)


def batch(first: int, count: int, compression: Compression = Compression.NONE) -> bytes:
    records = [NewRecord(b"k%d" % n, b"v%d" % n, 5, (("h", None),)) for n in range(first, first + count)]
    return bytes(build_batch(records, base_offset=first, compression=compression))


@pytest.mark.parametrize("codec", list(Compression))
def test_the_locked_part_of_a_batch_is_read(codec: Compression) -> None:
    acquired, problem = read_acquired("t-0", batch(0, 10, codec), [Range(3, 5, 2)])
    assert problem == ""
    assert [(each.offset, each.delivery_count, each.data.value) for each in acquired] == [
        (3, 2, b"v3"),
        (4, 2, b"v4"),
        (5, 2, b"v5"),
    ]
    assert acquired[0].data.headers == (("h", None),)


def test_offsets_without_a_record_are_gaps() -> None:
    marker = bytes(control_batch([ControlRecord(1, b"\0\0\0\0\0\0")], 0, base_offset=2, leader_epoch=0))
    acquired, problem = read_acquired("t-0", batch(0, 2) + marker + batch(5, 1), [Range(0, 5, 1)])
    assert problem == ""
    assert [each.data is not None for each in acquired] == [True, True, False, False, False, True]
    assert {each.otherwise for each in acquired if each.data is None} == {Ack.GAP}


def test_what_was_locked_and_not_sent_is_released_and_said() -> None:
    whole = batch(0, 2) + batch(2, 2)
    acquired, problem = read_acquired("t-0", whole[:-1], [Range(0, 3, 1)])
    assert [each.data is not None for each in acquired] == [True, True, False, False]
    assert {each.otherwise for each in acquired if each.data is None} == {Ack.RELEASE}
    assert "t-0: offset 2 is released" in problem


def test_a_damaged_batch_is_released_and_the_next_one_is_read() -> None:
    damaged = bytearray(batch(0, 2))
    damaged[-1] ^= 1
    acquired, problem = read_acquired("t-0", bytes(damaged) + batch(2, 1), [Range(0, 2, 1)])
    assert [(each.data is not None, each.otherwise) for each in acquired[:2]] == [(False, Ack.RELEASE)] * 2
    assert acquired[2].data.value == b"v2"
    assert "CRC" in problem


def test_a_batch_that_decompresses_beyond_the_limit_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamactors.broker.records.batch.RecordBatch.payload.__defaults__", (1_000,))
    bomb = bytes(build_batch([NewRecord(None, bytes(1_000_000))], compression=Compression.ZSTD))
    acquired, problem = read_acquired("t-0", bomb, [Range(0, 0, 1)])
    assert acquired[0].otherwise is Ack.RELEASE
    assert "1000 bytes" in problem


@given(st.binary(max_size=200), st.integers(0, 60))
def test_any_bytes_are_read_or_released(noise: bytes, at: int) -> None:
    data = batch(0, 3)
    data = data[:at] + noise + data[at:]
    acquired, _ = read_acquired("t-0", data, [Range(0, 2, 1)])
    assert [each.offset for each in acquired] == [0, 1, 2]


@pytest.mark.parametrize("last", [MAX_ACQUIRED, 2**62])
def test_a_claim_of_more_locks_than_a_broker_gives_is_refused_before_anything_is_allocated(last: int) -> None:
    with pytest.raises(TooManyAcquired, match="are the limit"):
        count_acquired(answer((0, last)))


@pytest.mark.parametrize("wrong", [(5, 4), (-1, 3)])
def test_a_range_that_is_none_is_refused(wrong: tuple[int, int]) -> None:
    with pytest.raises(TooManyAcquired):
        count_acquired(answer(wrong))


def test_ranges_of_several_partitions_are_counted_together() -> None:
    assert count_acquired(answer((0, 9), (100, 104))) == 15
    half = (0, MAX_ACQUIRED // 2)
    with pytest.raises(TooManyAcquired):
        count_acquired(answer(half, half))


def answer(*ranges: tuple[int, int]) -> list[SimpleNamespace]:
    count = itertools.repeat(1)
    of = [SimpleNamespace(first_offset=a, last_offset=b, delivery_count=next(count)) for a, b in ranges]
    return [SimpleNamespace(partitions=[SimpleNamespace(acquired_records=[each]) for each in of])]
