"""Produce and Fetch by hand: the same bytes and the same meaning as the generated codec, in every version."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.protocol import fetch, produce
from streamactors.broker.protocol.messages import encode_request, encode_response
from tests.broker.protocol.produce_fetch_bodies import (
    FETCH_VERSIONS,
    PRODUCE_VERSIONS,
    fetch_bodies,
    int32s,
    int64s,
    produce_bodies,
    record_bytes,
    topic_ids,
)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@given(body=produce_bodies)
@settings(max_examples=15, deadline=None)
def test_produce_request(version: int, body: dict[str, Any]) -> None:
    encoded = encode_request(0, version, body)
    decoded = produce.decode_produce_request(memoryview(b"head" + encoded), 4, version)
    assert (decoded.transactional_id, decoded.acks, decoded.timeout_ms) == (
        body["transactional_id"],
        body["acks"],
        body["timeout_ms"],
    )
    for (name, topic_id, partitions), expected in zip(decoded.topics, body["topic_data"], strict=True):
        if version >= 13:
            assert topic_id == expected["topic_id"].bytes
        else:
            assert name == expected["name"]
        got = [(index, None if records is None else bytes(records)) for index, records in partitions]
        assert got == [(partition["index"], partition["records"]) for partition in expected["partition_data"]]


def test_record_bytes_of_a_produce_request_are_not_copied() -> None:
    body = {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b"x" * 100}]}]}
    frame = bytearray(encode_request(0, 9, body))
    records = produce.decode_produce_request(memoryview(frame), 0, 9).topics[0][2][0][1]
    assert records is not None
    records[0] = ord("y")
    assert frame.count(b"y") == 1


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_produce_response(version: int, data: st.DataObject) -> None:
    problems = st.lists(st.builds(produce.RecordProblem, int32s, st.none() | st.text(max_size=5)), max_size=2)
    leader = st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9))
    partitions = st.lists(
        st.builds(
            produce.PartitionProduced,
            int32s,
            st.integers(0, 90),
            int64s,
            int64s,
            int64s,
            problems,
            st.none() | st.text(max_size=5),
            leader,
        ),
        max_size=3,
    )
    topics = st.lists(
        st.tuples(st.text(max_size=8), topic_ids.map(lambda value: value.bytes), partitions),
        max_size=3,
    )
    response = data.draw(st.builds(produce.ProduceResponse, topics, st.integers(0, 1 << 31 - 1)))
    frame = produce.encode_produce_response(response, version, 4711)
    body = {
        "throttle_time_ms": response.throttle_time_ms,
        "responses": [
            {
                "name": name,
                "topic_id": uuid.UUID(bytes=topic_id),
                "partition_responses": [
                    {
                        "index": partition.partition,
                        "error_code": partition.error_code,
                        "base_offset": partition.base_offset,
                        "log_append_time_ms": partition.log_append_time_ms,
                        "log_start_offset": partition.log_start_offset,
                        "record_errors": [
                            {"batch_index": problem.batch_index, "batch_index_error_message": problem.message}
                            for problem in partition.record_errors
                        ],
                        "error_message": partition.error_message,
                        **(
                            {"current_leader": dict(zip(("leader_id", "leader_epoch"), partition.leader, strict=True))}
                            if partition.leader
                            else {}
                        ),
                    }
                    for partition in partitions_of
                ],
            }
            for name, topic_id, partitions_of in response.topics
        ],
    }
    head = (4711).to_bytes(4, "big") + (b"\0" if version >= 9 else b"")
    expected = head + encode_response(0, version, body)
    assert frame == len(expected).to_bytes(4, "big") + expected


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_before_record_batches_have_the_layout_of_their_time(version: int) -> None:
    request = (
        b"\x00\x01"  # acks
        b"\x00\x00\x00\x05"  # timeout
        b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03abc"
    )
    decoded = produce.decode_produce_request(memoryview(request), 0, version)
    assert (decoded.acks, decoded.timeout_ms, decoded.topics[0][0]) == (1, 5, "t")
    assert bytes(decoded.topics[0][2][0][1] or b"") == b"abc"
    answer = produce.ProduceResponse([("t", None, [produce.PartitionProduced(2, 43)])])
    frame = produce.encode_produce_response(answer, version, 1)
    assert len(frame) - 8 == 4 + 3 + 4 + 4 + 2 + 8 + (0, 4, 12)[version]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@given(body=fetch_bodies)
@settings(max_examples=15, deadline=None)
def test_fetch_request(version: int, body: dict[str, Any]) -> None:
    encoded = encode_request(
        1, version, {**body, "replica_state": {"replica_id": body["replica_id"], "replica_epoch": 3}}
    )
    decoded = fetch.decode_fetch_request(memoryview(b"head" + encoded), 4, version)
    assert decoded.replica_id == body["replica_id"]
    assert (decoded.max_wait_ms, decoded.min_bytes, decoded.max_bytes, decoded.isolation_level) == (
        body["max_wait_ms"],
        body["min_bytes"],
        body["max_bytes"],
        body["isolation_level"],
    )
    if version >= 7:
        assert (decoded.session_id, decoded.session_epoch) == (body["session_id"], body["session_epoch"])
    if version >= 11:
        assert decoded.rack_id == body["rack_id"]
    for topic, expected in zip(decoded.topics, body["topics"], strict=True):
        assert topic.topic_id == expected["topic_id"].bytes if version >= 13 else topic.name == expected["topic"]
        for partition, wanted in zip(topic.partitions, expected["partitions"], strict=True):
            assert (partition.partition, partition.offset, partition.max_bytes) == (
                wanted["partition"],
                wanted["fetch_offset"],
                wanted["partition_max_bytes"],
            )
            assert partition.current_leader_epoch == (wanted["current_leader_epoch"] if version >= 9 else -1)
            assert partition.last_fetched_epoch == (wanted["last_fetched_epoch"] if version >= 12 else -1)


class _Region:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.length = len(content)

    def release(self) -> None:
        pass


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_fetch_response(version: int, data: st.DataObject) -> None:
    pair = st.tuples(st.integers(0, 99), st.integers(0, 99))
    partitions = st.lists(
        st.builds(
            fetch.PartitionFetched,
            int32s,
            st.integers(0, 90),
            int64s,
            int64s,
            int64s,
            record_bytes(20) | record_bytes().map(_Region),
            st.none() | st.lists(st.tuples(int64s, int64s), max_size=2),
            int32s,
            st.none() | pair,
            st.none() | pair,
        ),
        max_size=3,
    )
    topics = st.lists(
        st.builds(fetch.TopicFetched, st.text(max_size=8), topic_ids.map(lambda value: value.bytes), partitions),
        max_size=3,
    )
    response: fetch.FetchResponse[_Region] = data.draw(
        st.builds(fetch.FetchResponse, topics, st.integers(0, 90), int32s, st.integers(0, 1 << 30))
    )
    parts = fetch.encode_fetch_response(response, version, 4711)
    frame = b"".join(part.content if isinstance(part, _Region) else part for part in parts)
    body = {
        "throttle_time_ms": response.throttle_time_ms,
        "error_code": response.error_code,
        "session_id": response.session_id,
        "responses": [
            {
                "topic": topic.name,
                "topic_id": uuid.UUID(bytes=topic.topic_id),
                "partitions": [_partition_body(partition) for partition in topic.partitions],
            }
            for topic in response.topics
        ],
    }
    head = (4711).to_bytes(4, "big") + (b"\0" if version >= 12 else b"")
    expected = head + encode_response(1, version, body)
    assert frame == len(expected).to_bytes(4, "big") + expected


def _partition_body(partition: fetch.PartitionFetched[_Region]) -> dict[str, Any]:
    records = partition.records
    body: dict[str, Any] = {
        "partition_index": partition.partition,
        "error_code": partition.error_code,
        "high_watermark": partition.high_watermark,
        "last_stable_offset": partition.last_stable_offset,
        "log_start_offset": partition.log_start_offset,
        "aborted_transactions": None
        if partition.aborted is None
        else [{"producer_id": producer, "first_offset": first} for producer, first in partition.aborted],
        "preferred_read_replica": partition.preferred_replica,
        "records": records.content if isinstance(records, _Region) else records,
    }
    if partition.diverging:
        body["diverging_epoch"] = {"epoch": partition.diverging[0], "end_offset": partition.diverging[1]}
    if partition.leader:
        body["current_leader"] = {"leader_id": partition.leader[0], "leader_epoch": partition.leader[1]}
    return body
