"""Produce and Fetch by hand: the same bytes and the same meaning as the generated codec, in every version."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.protocol import fetch, produce
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.messages import encode_request, encode_response

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
_int16, _int32 = st.integers(-(1 << 15), (1 << 15) - 1), st.integers(-(1 << 31), (1 << 31) - 1)
_int64 = st.integers(-(1 << 63), (1 << 63) - 1)
_ids = st.uuids().filter(lambda value: value.int != 0)


def _records(max_size: int = 300) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=max_size)


produce_bodies = st.fixed_dictionaries(
    {
        "transactional_id": st.none() | st.text(max_size=5),
        "acks": _int16,
        "timeout_ms": _int32,
        "topic_data": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.text(max_size=8),
                    "topic_id": _ids,
                    "partition_data": st.lists(
                        st.fixed_dictionaries({"index": _int32, "records": st.none() | _records()}), max_size=3
                    ),
                }
            ),
            max_size=3,
        ),
    }
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
    assert produce.encode_produce_request(decoded, version) == encoded


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
    problems = st.lists(st.builds(produce.RecordProblem, _int32, st.none() | st.text(max_size=5)), max_size=2)
    leader = st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9))
    partitions = st.lists(
        st.builds(
            produce.PartitionProduced,
            _int32,
            st.integers(0, 90),
            _int64,
            _int64,
            _int64,
            problems,
            st.none() | st.text(max_size=5),
            leader,
        ),
        max_size=3,
    )
    topics = st.lists(
        st.tuples(st.text(max_size=8), _ids.map(lambda value: value.bytes), partitions),
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


fetch_bodies = st.fixed_dictionaries(
    {
        "replica_id": st.integers(-2, 5),
        "max_wait_ms": _int32,
        "min_bytes": _int32,
        "max_bytes": _int32,
        "isolation_level": st.integers(0, 1),
        "session_id": _int32,
        "session_epoch": _int32,
        "rack_id": st.text(max_size=4),
        "topics": st.lists(
            st.fixed_dictionaries(
                {
                    "topic": st.text(max_size=8),
                    "topic_id": _ids,
                    "partitions": st.lists(
                        st.fixed_dictionaries(
                            {
                                "partition": _int32,
                                "current_leader_epoch": _int32,
                                "fetch_offset": _int64,
                                "last_fetched_epoch": _int32,
                                "log_start_offset": _int64,
                                "partition_max_bytes": _int32,
                                "replica_directory_id": _ids | st.none(),
                                "high_watermark": _int64,
                            }
                        ),
                        max_size=3,
                    ),
                }
            ),
            max_size=3,
        ),
        "forgotten_topics_data": st.lists(
            st.fixed_dictionaries(
                {"topic": st.text(max_size=8), "topic_id": _ids, "partitions": st.lists(_int32, max_size=3)}
            ),
            max_size=2,
        ),
    }
)


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
            _int32,
            st.integers(0, 90),
            _int64,
            _int64,
            _int64,
            _records(20) | _records().map(_Region),
            st.none() | st.lists(st.tuples(_int64, _int64), max_size=2),
            _int32,
            st.none() | pair,
            st.none() | pair,
        ),
        max_size=3,
    )
    topics = st.lists(
        st.builds(fetch.TopicFetched, st.text(max_size=8), _ids.map(lambda value: value.bytes), partitions), max_size=3
    )
    response: fetch.FetchResponse[_Region] = data.draw(
        st.builds(fetch.FetchResponse, topics, st.integers(0, 90), _int32, st.integers(0, 1 << 30))
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


@given(noise=st.binary(max_size=80), version=st.integers(0, 18))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_decoded_or_refused(noise: bytes, version: int) -> None:
    for decode in (produce.decode_produce_request, fetch.decode_fetch_request):
        try:
            decode(memoryview(noise), 0, version)
        except MalformedMessage:
            pass


@given(body=produce_bodies, cut=st.integers(0, 500), version=st.sampled_from(PRODUCE_VERSIONS))
@settings(max_examples=60, deadline=None)
def test_a_truncated_produce_request_is_refused(body: dict[str, Any], cut: int, version: int) -> None:
    encoded = encode_request(0, version, body)
    if cut < len(encoded):
        with pytest.raises(MalformedMessage):
            produce.decode_produce_request(memoryview(encoded[:cut]), 0, version)


@given(body=fetch_bodies, cut=st.integers(0, 500), version=st.sampled_from(FETCH_VERSIONS))
@settings(max_examples=60, deadline=None)
def test_a_truncated_fetch_request_is_refused(body: dict[str, Any], cut: int, version: int) -> None:
    encoded = encode_request(1, version, body)
    if cut < len(encoded):
        with pytest.raises(MalformedMessage):
            fetch.decode_fetch_request(memoryview(encoded[:cut]), 0, version)


@pytest.mark.parametrize("version", [7, 9, 10, 12, 17])
def test_a_fetch_request_that_ends_inside_its_forgotten_topics_is_refused(version: int) -> None:
    # nothing follows them in versions 7 to 10, so that nobody noticed
    forgotten = [{"topic": "t", "topic_id": uuid.uuid4(), "partitions": [1, 2, 3]}]
    encoded = encode_request(1, version, {"topics": [], "forgotten_topics_data": forgotten})
    for size in range(len(encoded)):
        with pytest.raises(MalformedMessage):
            fetch.decode_fetch_request(memoryview(encoded[:size]), 0, version)


def test_an_array_that_claims_more_than_the_frame_holds_is_refused_before_anything_is_made() -> None:
    claim = b"\x00\x01" + b"\x00\x00\x00\x05" + b"\x7f\xff\xff\xff"
    with pytest.raises(MalformedMessage, match="array of 2147483647"):
        produce.decode_produce_request(memoryview(b"\xff\xff" + claim), 0, 3)


def test_negative_lengths_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="string of length -2"):
        produce.decode_produce_request(memoryview(b"\xff\xfe" + bytes(40)), 0, 3)


def _produce_body(topics: bytes) -> memoryview:
    """A flexible Produce request up to its topics, which are given."""
    return memoryview(b"\x00" + b"\x00\x01" + b"\x00\x00\x00\x05" + topics + b"\x00")


@pytest.mark.parametrize(
    ("topics", "complaint"),
    [
        (b"\x00", "null where the topics must be"),
        (b"\x02" + b"\x02a" + b"\x00" + b"\x00", "null where the partitions of topic 'a' must be"),
    ],
)
def test_null_where_an_array_must_be_is_refused(topics: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMessage, match=complaint):
        produce.decode_produce_request(_produce_body(topics), 0, 9)


@pytest.mark.parametrize("of", ["topics", "partitions"])
def test_null_arrays_of_the_classic_form_are_refused(of: str) -> None:
    null, one = b"\xff\xff\xff\xff", b"\x00\x00\x00\x01"
    topics = null if of == "topics" else one + b"\x00\x01a" + null
    with pytest.raises(MalformedMessage, match=f"null where the {of}"):
        produce.decode_produce_request(memoryview(b"\xff\xff\x00\x01\x00\x00\x00\x05" + topics), 0, 3)
    with pytest.raises(MalformedMessage, match=f"null where the {of}"):
        fetch.decode_fetch_request(memoryview(bytes(17) + topics), 0, 4)


def _uvarint(value: int) -> bytes:
    from streamactors.broker.protocol.primitives import uvarint

    return uvarint(value)


@pytest.mark.parametrize("partitions", [b"\x01", b"\x02" + bytes(4) + b"\x00" + b"\x00"], ids=["none", "one"])
def test_topics_and_partitions_of_one_request_are_bounded_together(partitions: bytes) -> None:
    # three bytes are a topic without partitions: a frame of a hundred megabytes would be gigabytes of objects
    count = 250_001
    topics = _uvarint(count + 1) + (b"\x01" + partitions + b"\x00") * count
    with pytest.raises(MalformedMessage, match="more than 250000 topics and partitions"):
        produce.decode_produce_request(_produce_body(topics), 0, 9)


def test_fetch_counts_topics_without_partitions_too() -> None:
    topics = _uvarint(200_000 + 1) + (b"\x02a" + b"\x01" + b"\x00") * 199_999
    topics += b"\x02a" + _uvarint(60_000 + 1) + bytes(60_000 * 33) + b"\x00"
    with pytest.raises(MalformedMessage, match="more than 250000 topics and partitions"):
        fetch.decode_fetch_request(memoryview(bytes(25) + topics + b"\x01\x01\x00"), 0, 12)


def test_unknown_tagged_fields_are_bounded() -> None:
    def request(per_partition: int, partitions: int) -> memoryview:
        tags = _uvarint(per_partition) + b"\x05\x00" * per_partition
        return _produce_body(
            b"\x02\x02a" + _uvarint(partitions + 1) + (bytes(4) + b"\x00" + tags) * partitions + b"\x00"
        )

    assert len(produce.decode_produce_request(request(127, 10), 0, 9).topics[0][2]) == 10
    with pytest.raises(MalformedMessage, match="more than 127 tagged fields"):
        produce.decode_produce_request(request(128, 1), 0, 9)
    with pytest.raises(MalformedMessage, match="more than 250000 elements"):
        produce.decode_produce_request(request(127, 2_100), 0, 9)


def test_the_length_of_a_string_is_bounded() -> None:
    def request(size: int) -> memoryview:
        return _produce_body(b"\x02" + _uvarint(size + 1) + b"n" * size + b"\x02" + bytes(4) + b"\x00\x00\x00")

    assert len(produce.decode_produce_request(request(0xFFFF), 0, 9).topics[0][0]) == 0xFFFF
    with pytest.raises(MalformedMessage, match="a string of 65536 bytes"):
        produce.decode_produce_request(request(0x10000), 0, 9)


def test_names_that_no_topic_can_have_are_not_kept() -> None:
    # answers for names are remembered, as they come by the thousand; a client could fill the memory with others
    def answer(name: str, topics: int) -> bytes:
        answered = [(name, None, [produce.PartitionProduced(0, 3)])] * topics
        return produce.encode_produce_response(produce.ProduceResponse(answered), 9, 1)

    for cache, topics in ((produce._lonely, 1), (produce._name, 2)):
        before = cache.cache_info().currsize
        assert answer("x" * 250, topics).count(b"x") == 250 * topics
        assert cache.cache_info().currsize == before
        answer(uuid.uuid4().hex, topics)
        assert cache.cache_info().currsize in (before + 1, 4096)
