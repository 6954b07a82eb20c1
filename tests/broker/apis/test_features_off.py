"""APIs of features that the broker does not have: they are listed, and refused as Apache Kafka 4.4 refuses them while the feature is off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import wait_until

OFF = ErrorCode.UNSUPPORTED_VERSION
MEMBER = {"group_id": "g", "member_id": "m", "member_epoch": 0}
HEARTBEAT = {**MEMBER, "rebalance_timeout_ms": 5_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
SHARE = {"group_id": "g", "member_id": "m", "share_session_epoch": 0, "topics": []}
FETCH = {**SHARE, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1, "max_records": 1, "batch_size": 1}
GROUPS = {"group_ids": ["a", "b"], "include_authorized_operations": False}
ASKED: dict[tuple[int, int], dict[str, Any]] = {
    (68, 0): HEARTBEAT,
    (68, 1): HEARTBEAT,
    (69, 0): GROUPS,
    (69, 1): GROUPS,
    (76, 1): {**MEMBER, "subscribed_topic_names": ["t"]},
    (77, 1): GROUPS,
    (78, 1): {**FETCH, "forgotten_topics_data": []},
    (78, 2): {**FETCH, "forgotten_topics_data": [], "share_acquire_mode": 0, "is_renew_ack": False},
    (79, 1): SHARE,
    (79, 2): {**SHARE, "is_renew_ack": False},
    (88, 0): {**MEMBER, "endpoint_information_epoch": 0, "rebalance_timeout_ms": 1, "shutdown_application": False},
    (88, 1): {**MEMBER, "endpoint_information_epoch": 0, "rebalance_timeout_ms": 1, "shutdown_application": False},
    (89, 0): GROUPS,
    (89, 1): {**GROUPS, "include_topology_description": False},
    (90, 0): {"groups": [{"group_id": "a", "topics": None}, {"group_id": "b", "topics": None}]},
    (90, 1): {"groups": [{"group_id": "a", "topics": None}, {"group_id": "b", "topics": None}]},
    (91, 0): {"group_id": "a", "topics": []},
    (92, 0): {"group_id": "a", "topics": []},
    (93, 0): {
        "group_id": "a",
        "member_id": "m",
        "topology_epoch": 0,
        "topology_description": {"subtopologies": [], "global_stores": []},
    },
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    folder: Path = tmp_path_factory.mktemp("off")
    with LiveBroker(folder) as live:
        live.create_topic("t")
        lower = [
            {"feature": name, "max_version_level": 0, "upgrade_type": 2}
            for name in ("share.version", "group.version", "streams.version")
        ]
        with live.client() as client:
            answer = client.call(57, 1, {"timeout_ms": 30_000, "feature_updates": lower, "validate_only": False})
            assert answer.error_code == ErrorCode.NONE, answer
        wait_until(lambda: not live.node.metadata.image.features.get("group.version"), "group.version 0")
        yield live


@pytest.mark.parametrize("api", ASKED)
def test_a_request_for_a_feature_that_is_off_is_refused_at_once(api: tuple[int, int], broker: LiveBroker) -> None:
    with broker.client() as client:
        answer = client.call(*api, ASKED[api])
    groups = getattr(answer, "groups", None)
    if groups is None:
        assert answer.error_code == OFF
    else:
        assert [(each.group_id, each.error_code) for each in groups] == [("a", OFF), ("b", OFF)]


def test_every_version_that_is_listed_was_tried(broker: LiveBroker) -> None:
    with broker.client() as client:
        listed = client.call(18, 3, {"client_software_name": "x", "client_software_version": "1"}).api_keys
    ranges = {each.api_key: (each.min_version, each.max_version) for each in listed}
    wanted = {(key, version) for key, version in ASKED}
    named = (68, 69, 76, 77, 78, 79, 88, 89, 90, 91, 92, 93)
    assert {(key, v) for key in named for v in range(ranges[key][0], ranges[key][1] + 1)} == wanted


def test_librdkafka_says_at_once_that_the_new_group_protocol_is_not_there(broker: LiveBroker) -> None:
    # It found no ConsumerGroupHeartbeat among the APIs, and said nothing: no error, no log line, no record.
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.address, "group.id": "g", "group.protocol": "consumer", "log_level": 0}
    )
    consumer.subscribe(["t"])
    give_up = time.monotonic() + 30
    error = None
    while error is None and time.monotonic() < give_up:
        message = consumer.poll(0.2)
        error = None if message is None else message.error()
    consumer.close()
    assert error is not None
    assert "ConsumerGroupHeartbeat" in error.str()
