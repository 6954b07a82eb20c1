"""The records of `__share_group_state`, byte for byte as Apache Kafka 4.4 writes them."""

from __future__ import annotations

import base64
import uuid

import pytest

from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.share.partition.in_flight import RecordState, StateBatch
from streamactors.broker.share.state.share_state import ShareKey, ShareState, ShareUpdate
from streamactors.broker.share.state.share_state_record import (
    decode_share_record,
    load_states,
    snapshot_record,
    tombstone,
    update_record,
)

S = RecordState
TOPIC = uuid.UUID(bytes=base64.urlsafe_b64decode("1v_mml3_Te6ryeOE9QcjHg=="))
KEY = ShareKey("new-share", TOPIC, 0)
FRESH = ShareState(0, 2, 0, -1, (), -1, 1795872395545, 1795872395545)
UPDATE = ShareUpdate(
    0, 2, 0, (StateBatch(0, 0, S.ARCHIVED, 1), StateBatch(1, 5, S.ACKNOWLEDGED, 1)), complete_count=6
)  # fmt: skip


def test_a_new_share_partition_has_the_size_that_apache_kafka_writes() -> None:
    """Measured: keySize 33, valueSize 40 for the group `new-share`."""
    key, value = snapshot_record(KEY, FRESH)
    assert value is not None
    assert (len(key), len(value)) == (33, 40)


def test_an_update_without_states_has_the_size_that_apache_kafka_writes() -> None:
    """Measured: keySize 27, valueSize 20 for the group `shg`, when a leader takes the share partition over."""
    key, value = update_record(ShareKey("shg", TOPIC, 1), ShareUpdate(0, 2, -1, ()))
    assert value is not None
    assert (len(key), len(value)) == (27, 20)


@pytest.mark.parametrize("state", [FRESH, FRESH._replace(batches=UPDATE.batches, complete_count=6, start_offset=7)])
def test_a_snapshot_is_read_as_it_was_written(state: ShareState) -> None:
    assert decode_share_record(*snapshot_record(KEY, state)) == (KEY, state)


def test_an_update_and_a_tombstone_are_read_as_they_were_written() -> None:
    assert decode_share_record(*update_record(KEY, UPDATE)) == (KEY, UPDATE)
    assert decode_share_record(*tombstone(KEY)) == (KEY, None)


def test_a_key_of_a_later_kind_is_left_out() -> None:
    assert decode_share_record(b"\x00\x02rest", b"") is None


def test_a_state_that_does_not_exist_is_refused_with_its_offsets() -> None:
    key, value = update_record(KEY, UPDATE._replace(batches=(StateBatch(3, 4, S.ACQUIRED, 1),)))
    assert value is not None
    with pytest.raises(CorruptRecord, match="offsets 3 to 4 have state 9"):
        decode_share_record(key, value.replace(b"\x04\x01\x00\x01", b"\x04\x09\x00\x01"))


def test_a_partition_is_folded_and_a_damaged_record_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    other = ShareKey("new-share", TOPIC, 1)
    records = [
        snapshot_record(KEY, FRESH),
        update_record(KEY, UPDATE),
        (b"\x00\x00\x00\x05ab", b"damaged"),
        snapshot_record(other, FRESH),
        tombstone(other),
    ]
    batch = RecordBatch(build_batch([NewRecord(key, value, 0, ()) for key, value in records]))
    loaded = load_states([batch], "__share_group_state-0")
    assert list(loaded.states) == list(loaded.snapshots) == [KEY]
    stored = loaded.states[KEY]
    assert stored.state == FRESH._replace(leader_epoch=2, start_offset=0, batches=UPDATE.batches, complete_count=6)
    assert (stored.leader_epoch, stored.state_epoch, stored.updates, loaded.snapshots[KEY]) == (2, 2, 1, 0)
    assert "the record at offset 2 is left out" in caplog.text


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("g:1v_mml3_Te6ryeOE9QcjHg:3", ShareKey("g", TOPIC, 3)),
        ("a:b:1v_mml3_Te6ryeOE9QcjHg:0", ShareKey("a:b", TOPIC, 0)),
        ("g:1v_mml3_Te6ryeOE9QcjHg", None),
        (" :1v_mml3_Te6ryeOE9QcjHg:0", None),
        ("g:short:0", None),
        ("g:1v_mml3_Te6ryeOE9QcjHg:x", None),
        ("", None),
    ],
)
def test_a_coordinator_key_names_group_topic_and_partition(text: str, key: ShareKey | None) -> None:
    assert ShareKey.of_coordinator_key(text) == key
    if key is not None:
        assert key.coordinator_key == text
