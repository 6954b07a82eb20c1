"""Messages: every schema survives our encoder and kio's reader, and versions are bridged by defaults."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.broker.protocol.api_keys import FIRST_FLEXIBLE, NAMES, is_flexible
from streamactors.broker.protocol.errors import MalformedMessage, MessageError, UnsupportedVersion
from streamactors.broker.protocol.messages import decode_request, decode_response, encode_request, encode_response
from streamactors.broker.protocol.primitives import uvarint
from streamactors.broker.protocol.schema import known_versions, load_struct
from streamactors.broker.protocol.structures import FieldSchema, StructSchema
from tests.broker.protocol.random_bodies import bodies

_SERVED = (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 26, 28, 32, 37, 42, 44, 60, 61)


def _as_body(value: Any, struct: StructSchema) -> dict[str, Any]:
    def plain(item: Any, field: FieldSchema) -> Any:
        if field.is_array and item is not None:
            return [_as_body(one, field.type) if isinstance(field.type, StructSchema) else one for one in item]
        if isinstance(field.type, StructSchema) and item is not None:
            return _as_body(item, field.type)
        return item

    return {field.name: plain(getattr(value, field.name), field) for field in struct.fields}


def _every_message(keys: Any) -> list[tuple[int, int, str]]:
    return [
        (key, version, direction)
        for key in keys
        for version in sorted({known_versions(key)[0], sum(known_versions(key)) // 2, known_versions(key)[1]})
        for direction in ("request", "response")
    ]


def _round_trip(key: int, version: int, direction: str, data: st.DataObject) -> None:
    struct = load_struct(key, version, direction)  # type: ignore[arg-type]
    body = data.draw(bodies(struct))
    if direction == "request":
        decoded = decode_request(key, version, memoryview(encode_request(key, version, body)))
    else:
        decoded = decode_response(key, version, memoryview(encode_response(key, version, body)))
    assert _as_body(decoded, struct) == body


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("key", _SERVED)
def test_an_encoded_message_is_decoded_by_kio(key: int, data: st.DataObject) -> None:
    for _, version, direction in _every_message([key]):
        _round_trip(key, version, direction, data)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("key", sorted(NAMES))
def test_every_version_of_every_api(key: int, data: st.DataObject) -> None:
    low, high = known_versions(key)
    for version in range(low, high + 1):
        for direction in ("request", "response"):
            _round_trip(key, version, direction, data)


@pytest.mark.parametrize("key", _SERVED)
def test_the_table_of_flexible_versions_is_that_of_the_schemas(key: int) -> None:
    low, high = known_versions(key)
    for version in range(low, high + 1):
        assert is_flexible(key, version) == load_struct(key, version, "request").flexible


def test_unknown_keys_are_not_flexible() -> None:
    assert not is_flexible(4711, 3)
    assert set(FIRST_FLEXIBLE) == set(NAMES)


def test_a_field_that_an_old_version_lacks_reads_as_its_default() -> None:
    request = decode_request(3, 0, memoryview(encode_request(3, 0, {"topics": [{"name": "orders"}]})))
    assert request.allow_auto_topic_creation is True
    assert request.topics[0].topic_id is None
    join = decode_request(11, 0, memoryview(encode_request(11, 0, {"group_id": "g", "session_timeout_ms": 10_000})))
    assert (join.group_instance_id, join.rebalance_timeout_ms, join.session_timeout_ms) == (None, -1, 10_000)


def test_a_field_that_a_new_version_has_lost_reads_as_its_default() -> None:
    request = decode_request(9, 8, memoryview(encode_request(9, 8, {"groups": []})))
    assert request.group_id == ""
    with pytest.raises(AttributeError, match="no field 'group'"):
        request.group


def test_a_response_drops_fields_of_other_versions_and_refuses_unknown_fields() -> None:
    body = {"error_code": 0, "coordinators": [{"key": "g", "node_id": 1, "host": "h", "port": 9}], "node_id": 7}
    assert decode_response(10, 0, memoryview(encode_response(10, 0, body))).node_id == 7
    assert decode_response(10, 6, memoryview(encode_response(10, 6, body))).coordinators[0].node_id == 1
    with pytest.raises(MessageError, match="nodeid"):
        encode_response(10, 0, {"nodeid": 7})
    with pytest.raises(MessageError, match="node_id cannot be 'seven'"):
        encode_response(10, 0, {"node_id": "seven"})


def test_times_are_milliseconds_and_ids_are_uuids() -> None:
    topic_id = uuid.UUID(int=77)
    body = {"throttle_time_ms": 1234, "topics": [{"name": "t", "topic_id": topic_id}]}
    decoded = decode_response(3, 12, memoryview(encode_response(3, 12, body)))
    assert (decoded.throttle_time_ms, decoded.topics[0].topic_id) == (1234, topic_id)


@given(noise=st.binary(max_size=64))
@settings(max_examples=100, deadline=None)
def test_random_bytes_are_decoded_or_refused(noise: bytes) -> None:
    for key, version in ((3, 0), (3, 12), (11, 9), (8, 5), (19, 7)):
        try:
            decode_request(key, version, memoryview(noise))
        except MalformedMessage:
            pass


def test_no_such_message() -> None:
    with pytest.raises(UnsupportedVersion, match="no version 99"):
        decode_request(3, 99, memoryview(b""))
    with pytest.raises(UnsupportedVersion, match="key 5"):
        decode_request(5, 0, memoryview(b""))


def test_the_number_of_unknown_tagged_fields_is_bounded() -> None:
    def request(count: int) -> memoryview:
        return memoryview(b"\x02a\x02b" + uvarint(count) + b"\x2a\x00" * count)

    assert decode_request(18, 3, request(127), 0).client_software_name == "a"
    with pytest.raises(MalformedMessage, match="more than 127 tagged fields"):
        decode_request(18, 3, request(128), 0)


def test_tagged_fields_count_as_elements() -> None:
    # a hundred megabytes of empty fields would keep everybody waiting for seconds
    topic = bytes(16) + b"\x02a" + b"\x7f" + b"\x2a\x00" * 127
    with pytest.raises(MalformedMessage, match="more than 250000 elements"):
        decode_request(3, 12, memoryview(uvarint(2_001) + topic * 2_000 + b"\x00\x00\x00"), 0)
