"""Consumers that read from a follower in their own rack (KIP-392): the choice, and what a follower answers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import BrokerRegistration
from streamactors.broker.replication.leader_state import LeaderState
from streamactors.broker.replication.read_replica import RACK_AWARE, STAY, preferred_replica
from tests.broker.controller_apis.test_three_brokers import create, produce
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.live_broker import fetch_body
from tests.broker.wire import WireClient, wait_until


def brokers(**racks: str) -> dict[int, BrokerRegistration]:
    return {int(b[1:]): BrokerRegistration(int(b[1:]), uuid.UUID(int=1), 1, rack=rack) for b, rack in racks.items()}


def leading(**ends: int) -> LeaderState:
    state = LeaderState(1, epoch=1, start_offset=0, replicas=(1, 2, 3), isr=(1, 2, 3), partition_epoch=1, now_ms=0.0)
    for each, end in ends.items():
        state.fetched(int(each[1:]), 1, end, 10, 1.0)
    return state


@pytest.mark.parametrize(
    ("rack", "offset", "chosen"),
    [("a", 0, STAY), ("b", 0, 3), ("b", 9, 3), ("b", 10, STAY), ("none", 0, STAY)],
)
def test_the_replica_of_the_rack_that_has_most_is_chosen(rack: str, offset: int, chosen: int) -> None:
    assert preferred_replica(leading(b2=5, b3=9), brokers(b1="a", b2="b", b3="b"), rack, offset) == chosen


def test_a_replica_outside_the_isr_or_fenced_is_not_chosen() -> None:
    state = leading(b2=10, b3=10)
    state.learn((1, 2, 3), (1, 3), 2)
    assert preferred_replica(state, brokers(b1="a", b2="b", b3="c"), "b", 0) == STAY
    fenced = {3: BrokerRegistration(3, uuid.UUID(int=1), 1, rack="c", fenced=True)}
    assert preferred_replica(state, fenced, "c", 0) == STAY


class Racks(ThreeBrokers):
    """Broker n stands in rack n."""

    def _start(self, broker: int, settings: dict[str, Any]) -> None:
        super()._start(broker, {**settings, "broker.rack": f"rack-{broker}"})


@pytest.fixture
def racks(tmp_path: Path) -> Iterator[Racks]:
    with Racks(tmp_path, replica_selector_class=RACK_AWARE, offsets_topic_num_partitions=1) as three:
        assert create(three.brokers[1].client(), "t", [1, 2, 3]) == 0
        three.await_partition("t", lambda each: len(each.isr) == 3, "three in sync", seen_by=3)
        for value in (b"a", b"b"):
            assert produce(three.brokers[1].client(), "t", value) == 0
        follower = three.brokers[3].partition("t")
        wait_until(lambda: follower.high_watermark == 2, "the follower knows the high watermark")
        yield three


def fetch(client: WireClient, version: int = 12, **body: Any) -> Any:
    asked = {**fetch_body(topic="t", offset=0), **body}
    return client.call(1, version, asked).responses[0].partitions[0]


def test_the_leader_names_the_replica_of_the_rack_and_that_one_has_the_records(racks: Racks) -> None:
    client = racks.brokers[1].client()
    sent_on = fetch(client, rack_id="rack-3")
    assert (sent_on.preferred_read_replica, sent_on.records or b"", sent_on.high_watermark) == (3, b"", 2)
    for rack in ("rack-1", "rack-9", ""):
        stays = fetch(client, rack_id=rack)
        assert stays.preferred_read_replica == -1
        assert stays.records
    followed = fetch(racks.brokers[3].client(), rack_id="rack-3")
    assert followed.error_code == 0
    assert followed.records == fetch(client).records


def test_a_follower_answers_no_client_that_does_not_know_of_it(racks: Racks) -> None:
    assert fetch(racks.brokers[3].client(), version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_consumer_that_waits_at_a_follower_gets_what_is_committed(racks: Racks) -> None:
    waiting = racks.brokers[3].client()
    asked = {**fetch_body(topic="t", offset=2), "max_wait_ms": 20_000, "min_bytes": 1, "rack_id": "rack-3"}
    waiting.send(1, 12, asked)
    assert produce(racks.brokers[1].client(), "t", b"c") == 0
    answer = waiting.receive()[1].responses[0].partitions[0]
    assert answer.records
    assert answer.high_watermark == 3


def test_librdkafka_reads_from_the_replica_of_its_rack(racks: Racks) -> None:
    fetches: dict[int, int] = {}

    def count(statistics: str) -> None:
        for each in json.loads(statistics)["brokers"].values():
            fetches[each["nodeid"]] = each["req"].get("Fetch", 0)

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": racks.brokers[1].address,
            "group.id": "g",
            "client.rack": "rack-3",
            "statistics.interval.ms": 50,
            "stats_cb": count,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    values: list[bytes | None] = []

    def has_read(*wanted: bytes) -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
        return values == [*wanted]

    wait_until(lambda: has_read(b"a", b"b"), "both records")
    assert produce(racks.brokers[1].client(), "t", b"c") == 0
    wait_until(lambda: has_read(b"a", b"b", b"c"), "the next record")
    wait_until(lambda: has_read(b"a", b"b", b"c") and fetches.get(3, 0) > 0, "the follower was asked")
    consumer.close()
