"""The quota of changes to the metadata, on a running broker and in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quotas.mutations import DebtBucket
from streamactors.clock import VirtualClock
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient
from tests.differential.quota_script import alter, describe, remove_all

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.fixture(name="clock")
def virtual_clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(name="broker")
def live_broker(tmp_path: Path, clock: VirtualClock) -> Iterator[LiveBroker]:
    settings = {"controller.quota.window.num": 10, "controller.quota.window.size.seconds": 2}
    with LiveBroker(tmp_path, settings, clock=clock) as live:
        with WireClient("127.0.0.1", live.port) as admin:
            assert alter(admin, {"client-id": "busy"}, {"controller_mutation_rate": 1}) == [(0, None)]
        yield live


def asked(broker: LiveBroker, key: int, version: int, body: dict[str, Any], client_id: str = "busy") -> Any:
    """Ask over a connection of its own: the others are not read for a while."""
    with WireClient("127.0.0.1", broker.port, client_id) as client:
        return client.call(key, version, {"timeout_ms": 30_000, **body})


def create(broker: LiveBroker, version: int = 7, client_id: str = "busy", **partitions: int) -> tuple[list[int], int]:
    topics = [
        {"name": name, "num_partitions": n, "replication_factor": 1, "assignments": [], "configs": []}
        for name, n in partitions.items()
    ]
    answer = asked(broker, 19, version, {"topics": topics, "validate_only": False}, client_id)
    return [topic.error_code for topic in answer.topics], answer.throttle_time_ms


def test_a_client_may_change_a_burst_and_then_waits_until_its_tokens_are_back(
    broker: LiveBroker, clock: VirtualClock
) -> None:
    assert create(broker, a=20) == ([0], 0)  # 10 windows of 2 s
    assert create(broker, b=5, c=1) == ([0, EXCEEDED], 5_000)
    assert create(broker, client_id="calm", d=1) == ([0], 0)
    assert create(broker, c=1) == ([EXCEEDED], 5_000)
    clock.advance("5s")
    assert create(broker, c=1) == ([0], 0)


def test_a_topic_that_is_refused_for_another_reason_costs_nothing(broker: LiveBroker) -> None:
    assert create(broker, a=20) == ([0], 0)
    assert create(broker, a=5, b=0) == ([ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_PARTITIONS], 0)
    assert create(broker, b=1) == ([0], 0)


def test_older_requests_are_served_and_throttled(broker: LiveBroker) -> None:
    assert create(broker, version=5, a=25) == ([0], 5_000)
    assert create(broker, version=5, b=1) == ([0], 6_000)


def test_partitions_that_are_added_and_deleted_count(broker: LiveBroker) -> None:
    create(broker, a=20, b=2)
    grown = asked(broker, 37, 3, {"topics": [{"name": "a", "count": 22, "assignments": None}], "validate_only": False})
    assert [(each.error_code, each.error_message) for each in grown.results] == [(EXCEEDED, None)]
    deleted = asked(broker, 20, 6, {"topics": [{"name": "b", "topic_id": None}]})
    assert [each.error_code for each in deleted.responses] == [EXCEEDED]
    assert deleted.throttle_time_ms == 2_000
    older = asked(broker, 20, 4, {"topic_names": ["b"]})
    assert [each.error_code for each in older.responses] == [0]
    assert older.throttle_time_ms == 4_000


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 50), st.booleans()), max_size=40), st.integers(1, 20))
def test_no_client_gets_more_than_its_burst_and_its_rate_and_one_change(
    script: list[tuple[int, int, bool]], rate: int
) -> None:
    bucket, now_ms, granted, last = DebtBucket(burst_s=3), 0.0, 0, 0
    for wait_ms, amount, _ in script:
        now_ms += wait_ms
        if bucket.spend(amount, rate, now_ms, strict=True) is not None:
            granted += amount
            last = amount
    assert granted <= rate * (3 + now_ms / 1_000) + last + 1e-6


def test_tokens_of_a_long_silence_are_no_more_than_a_burst() -> None:
    bucket = DebtBucket(burst_s=3)
    assert bucket.spend(30, 10, 0, strict=True) == 0
    assert bucket.spend(30, 10, 3_600_000, strict=True) == 0
    assert bucket.spend(1, 10, 3_600_000, strict=True) == 100


def test_the_quota_of_all_users_comes_before_that_of_a_client_id_until_it_is_removed(broker: LiveBroker) -> None:
    """tests/differential found a throttle of a tenth beside Apache Kafka, where another test had left a quota of all users."""
    with broker.client() as admin:
        assert alter(admin, {"user": None}, {"controller_mutation_rate": 3}) == [(0, None)]
        assert create(broker, a=20) == ([0], 0)
        assert create(broker, b=43, c=1) == ([0, EXCEEDED], 1_000)  # 20 s of 3 tokens, and 63 are taken
        remove_all(admin)
        assert describe(admin)[2] == []
        assert alter(admin, {"client-id": "busy"}, {"controller_mutation_rate": 1}) == [(0, None)]
    assert create(broker, d=23, e=1) == ([0, EXCEEDED], 3_000)
