"""The answer of ShareFetch written by hand has the bytes of the general codec."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.broker.protocol.messages import encode_response
from streamactors.broker.protocol.share_fetch import encode_share_fetch_response

INT32 = st.integers(0, 2**31 - 1)
OFFSET = st.integers(0, 2**62)
TEXT = st.none() | st.text(max_size=200)
CODE = st.integers(-1, 136)
PARTITION = st.fixed_dictionaries(
    {
        "partition_index": INT32,
        "error_code": CODE,
        "error_message": TEXT,
        "acknowledge_error_code": CODE,
        "acknowledge_error_message": TEXT,
        "current_leader": st.fixed_dictionaries({"leader_id": INT32, "leader_epoch": INT32}),
        "records": st.binary(max_size=300),
        "acquired_records": st.lists(st.tuples(OFFSET, OFFSET, st.integers(1, 100)), max_size=3),
    }
)
TOPIC = st.fixed_dictionaries({"topic_id": st.uuids(), "partitions": st.lists(PARTITION, max_size=3)})
NODE = st.fixed_dictionaries({"node_id": INT32, "host": st.text(max_size=20), "port": INT32, "rack": TEXT})
ANSWER = st.fixed_dictionaries(
    {
        "throttle_time_ms": INT32,
        "error_code": CODE,
        "error_message": TEXT,
        "acquisition_lock_timeout_ms": INT32,
        "responses": st.lists(TOPIC, max_size=3),
        "node_endpoints": st.lists(NODE, max_size=2),
    }
)


def _general(answer: dict[str, Any]) -> bytes:
    def partition(each: dict[str, Any]) -> dict[str, Any]:
        names = ("first_offset", "last_offset", "delivery_count")
        return {**each, "acquired_records": [dict(zip(names, span, strict=True)) for span in each["acquired_records"]]}

    topics = [{**each, "partitions": [partition(one) for one in each["partitions"]]} for each in answer["responses"]]
    return encode_response(78, 2, {**answer, "responses": topics})


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANSWER)
def test_an_answer_has_the_bytes_of_the_general_codec(answer: dict[str, Any]) -> None:
    (frame,) = encode_share_fetch_response(answer, 2, 7)
    assert bytes(frame[:9]) == (len(frame) - 4).to_bytes(4, "big") + b"\x00\x00\x00\x07\x00"
    assert bytes(frame[9:]) == _general(answer)


def test_a_slice_of_a_log_stays_a_part_of_its_own_and_counts() -> None:
    records = b"r" * 400
    part = {
        "partition_index": 0, "error_code": 0, "error_message": None, "acknowledge_error_code": 0,
        "acknowledge_error_message": None, "current_leader": {"leader_id": 0, "leader_epoch": 0},
        "records": SimpleNamespace(length=len(records)), "acquired_records": [(0, 3, 1)],
    }  # fmt: skip
    topic = uuid.uuid4()
    answer: dict[str, Any] = {"error_code": 0, "responses": [{"topic_id": topic, "partitions": [part]}]}
    first, piece, rest = encode_share_fetch_response(answer, 2, 1)
    assert piece is part["records"]
    whole = {**answer, "responses": [{"topic_id": topic, "partitions": [{**part, "records": records}]}]}
    assert bytes(first) + records + bytes(rest) == bytes(encode_share_fetch_response(whole, 2, 1)[0])
