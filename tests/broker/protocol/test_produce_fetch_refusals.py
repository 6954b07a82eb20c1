"""Produce and Fetch requests that are refused: cut off, random, with lengths that lie, with more than may be in one."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.protocol import fetch, produce
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.messages import encode_request
from tests.broker.protocol.produce_fetch_bodies import (
    FETCH_VERSIONS,
    PRODUCE_VERSIONS,
    fetch_bodies,
    produce_bodies,
)


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


@pytest.mark.slow
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

    for cache, topics in ((produce._single_partition_topic, 1), (produce._name, 2)):
        before = cache.cache_info().currsize
        assert answer("x" * 250, topics).count(b"x") == 250 * topics
        assert cache.cache_info().currsize == before
        answer(uuid.uuid4().hex, topics)
        assert cache.cache_info().currsize in (before + 1, 4096)
