"""The hand-written metadata response is byte for byte what the general codec makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.protocol.header import response_frame
from streamactors.broker.protocol.messages import encode_response
from streamactors.broker.protocol.metadata import (
    BrokerMetadata,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
    encode_metadata,
    encode_topic,
)

ids = st.integers(0, 2**31 - 1)
brokers = st.lists(ids, max_size=3).map(tuple)
names = st.text(max_size=20)
codes = st.sampled_from([0, 3, 5, 17, 72, 100])
partitions = st.builds(PartitionMetadata, codes, ids, st.integers(-1, 9), st.integers(-1, 9), brokers, brokers, brokers)
topics = st.tuples(
    names, st.none() | st.uuids(), st.lists(partitions, max_size=4), codes, st.booleans(), st.integers(-(2**31), 9999)
)
answers = st.tuples(
    st.lists(st.builds(BrokerMetadata, ids, names, st.integers(0, 65535), st.none() | names), max_size=3),
    st.lists(topics, max_size=3),
    st.none() | names,
    ids,
    st.integers(-(2**31), 9999),
    codes,
)


@pytest.mark.parametrize("version", range(14))
@settings(max_examples=30)
@given(answer=answers)
def test_every_version_is_encoded_as_the_general_codec_does(version: int, answer: Any) -> None:
    told, described, cluster_id, controller_id, operations, code = answer
    made = [
        TopicMetadata(encode_topic(version, name, topic_id, parts, error_code=error, internal=internal), allowed)
        for name, topic_id, parts, error, internal, allowed in described
    ]
    body = {
        "brokers": [broker._asdict() for broker in told],
        "cluster_id": cluster_id,
        "controller_id": controller_id,
        "cluster_authorized_operations": operations,
        "error_code": code,
        "topics": [
            {
                "error_code": error,
                "name": name,
                "topic_id": topic_id,
                "is_internal": internal,
                "topic_authorized_operations": allowed,
                "partitions": [
                    {
                        "error_code": p.error_code,
                        "partition_index": p.partition,
                        "leader_id": p.leader,
                        "leader_epoch": p.leader_epoch,
                        "replica_nodes": p.replicas,
                        "isr_nodes": p.isr,
                        "offline_replicas": p.offline,
                    }
                    for p in parts
                ],
            }
            for name, topic_id, parts, error, internal, allowed in described
        ],
    }
    ours = encode_metadata(MetadataResponse(told, made, cluster_id, controller_id, operations, code), version, 7)
    assert ours == response_frame(3, version, 7, encode_response(3, version, body))


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_a_topic_asked_for_by_id_may_have_no_name(version: int) -> None:
    encoded = encode_topic(version, None, None, (), error_code=100)
    null, empty = b"\x00", b"\x01"
    assert encoded[2:3] == (null if version >= 12 else empty)
