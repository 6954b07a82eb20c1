"""Throttled replication (KIP-73): a follower that is not in sync copies slowly, until the throttle is taken away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.controller_apis.test_three_brokers import create, produce
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.wire import wait_until

RECORDS = 20
SET, DELETE = 0, 1


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ThreeBrokers]:
    # A fetch has one record, so the first one is already more than the rates of these tests.
    with ThreeBrokers(tmp_path, replica_fetch_max_bytes=1_000) as brokers:
        yield brokers


def alter(three: ThreeBrokers, kind: int, name: str, settings: dict[str, str | None]) -> int:
    configs = [
        {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
        for key, value in settings.items()
    ]
    body = {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}], "validate_only": False}
    return int(three.controller_client().call(44, 1, body).responses[0].error_code)


def move(three: ThreeBrokers, replicas: list[int]) -> None:
    partitions = [{"partition_index": 0, "replicas": replicas}]
    body: dict[str, Any] = {"timeout_ms": 30_000, "topics": [{"name": "t", "partitions": partitions}]}
    assert three.controller_client().call(45, 0, body).error_code == 0


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_move_is_slow_until_its_throttle_is_taken_away(three: ThreeBrokers, side: str) -> None:
    assert create(three.brokers[1].client(), "t", [1]) == 0
    client = three.brokers[1].client()
    for _ in range(RECORDS):
        assert produce(client, "t", b"x" * 2_000) == 0
    assert alter(three, 2, "t", {f"{side}.replication.throttled.replicas": "0:2"}) == 0
    slow = "1" if side == "leader" else "2"
    assert alter(three, 4, slow, {f"{side}.replication.throttled.rate": "10"}) == 0
    rate = f"{side}_replication_throttled_rate"
    wait_until(
        lambda: getattr(three.brokers[int(slow)].node.config, rate) == 10,
        "the broker has the rate",
    )
    wait_until(lambda: "t" in three.brokers[2].node.metadata.image.topics, "broker 2 knows the topic")
    move(three, [1, 2])
    wait_until(lambda: three.brokers[2].node.partitions.get("t", 0) is not None, "broker 2 has a replica")
    copy = three.brokers[2].partition("t")
    wait_until(lambda: copy.log_end_offset > 0, "the first records are copied")
    leader = three.brokers[1].partition("t")
    asked = leader.leader_state.remotes[2] if leader.leader_state is not None else None
    if side == "leader":  # it goes on asking, and gets nothing
        assert asked is not None
        before = asked.fetched_ms
        wait_until(lambda: asked.fetched_ms > before, "the follower has asked again")
    assert copy.log_end_offset < RECORDS  # at 10 bytes a second it would need an hour
    assert alter(three, 4, slow, {f"{side}.replication.throttled.rate": None}) == 0
    three.await_partition("t", lambda each: set(each.isr) == {1, 2}, "the move ends")
    assert copy.log_end_offset == RECORDS


def test_replicas_are_named_in_kafkas_form(three: ThreeBrokers) -> None:
    assert create(three.brokers[1].client(), "t", [1]) == 0
    for words in ("*", "0:1,0:2", ""):
        assert alter(three, 2, "t", {"leader.replication.throttled.replicas": words}) == 0
    assert alter(three, 2, "t", {"leader.replication.throttled.replicas": "0-1"}) == ErrorCode.INVALID_CONFIG
