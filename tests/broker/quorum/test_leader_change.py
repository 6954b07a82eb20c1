"""The record with which a leader begins its epoch, as Apache Kafka reads it."""

from __future__ import annotations

from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.serial import entity_reader

from streamactors.broker.quorum.leader_change import leader_change, voters_of_change
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.control_batch import control_batch


def test_a_leader_change_is_a_control_record_with_the_leader_and_its_voters() -> None:
    record = leader_change(2, {1, 2, 3}, {3, 2})
    batch = RecordBatch(memoryview(control_batch([record], 1_700_000_000_000, leader_epoch=7)))
    assert (batch.is_control, batch.count, batch.leader_epoch) == (True, 1, 7)
    (written,) = batch.records()
    assert written.key is not None
    assert bytes(written.key) == b"\0\0\0\2"  # version 0, kind 2
    assert written.value is not None
    change = read_leader_change(bytes(written.value))
    assert (change.version, change.leader_id) == (0, 2)
    assert [each.voter_id for each in change.voters] == [1, 2, 3]
    assert [each.voter_id for each in change.granting_voters] == [2, 3]


def read_leader_change(value: bytes) -> LeaderChangeMessage:
    change, size = entity_reader(LeaderChangeMessage)(value, 0)
    assert size == len(value)
    return change


def test_the_voters_of_a_leader_change_are_read_back() -> None:
    assert voters_of_change(leader_change(2, {1, 2, 300}, {2}).value) == {1, 2, 300}
    assert voters_of_change(leader_change(2, {2}, {2}).value) == {2}
    later = b"\0\1" + leader_change(2, {1, 2}, {2}).value[2:]  # version 1 has the folders of the voters, too
    for value in (b"", later, leader_change(2, {1, 2}, {2}).value[:9]):
        assert voters_of_change(value) == frozenset()
