"""`streamactors groups list | describe` of a share group."""

from __future__ import annotations

import threading
import uuid
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from streamactors import Keep, Sink
from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from streamactors.cli.clusters.share_groups import (
    DESCRIBE,
    DESCRIBE_OFFSETS,
    LIST_GROUPS,
    WITH_TYPES,
    listed_share_groups,
    share_group,
)
from streamactors.kafka import Consumer, SharedRecord, SharedSourceSettings
from streamactors.kafka.client.cluster_requests import ClusterRequests, Refused
from tests.broker.wire import wait_until
from tests.cli.ran import Run


def test_a_share_group_is_listed_and_described_with_what_is_not_done(streamactors: Run, broker: Cluster) -> None:
    """librdkafka does not know share groups: they were neither listed nor found."""
    name = topic = f"s-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(20):
        producer.produce(topic, b"x")
    producer.flush(10)
    settings = SharedSourceSettings(broker.bootstrap_servers, name, auto_offset_reset="earliest", max_in_flight=4)
    go_on = threading.Event()

    def hold(record: SharedRecord) -> SharedRecord:
        assert record.offset < 8 or go_on.wait(120)
        return record

    control, done = Consumer.shared_source(settings, topic).map(hold).to_mat(Sink.ignore(), Keep.both).run()
    try:
        wait_until(lambda: control.snapshot()["accepted"] >= 8)
        (listed,) = [each for each in streamactors("groups", "list", "--json").json if each["group"] == name]
        assert (listed["state"], listed["protocol"]) == ("Stable", "share")
        ran = streamactors("groups", "describe", name)
        assert f"{name}: Stable, a share group, 1 member, 12 records not done" in ran.out
        assert [topic, "0", "12"] in [[*row[:2], row[-1]] for row in ran.rows]
        (found,) = streamactors("groups", "describe", name, "--json").json
        assert 0 <= found.pop("start") <= 8
        assert found == {"group": name, "type": "share", "state": "Stable", "topic": topic, "partition": 0, "lag": 12}
    finally:
        go_on.set()
    wait_until(lambda: control.snapshot()["accepted"] >= 20)
    control.drain_and_shutdown(done, timeout=60)
    assert (
        f"{name}: Empty, a share group, 0 members, 0 records not done" in streamactors("groups", "describe", name).out
    )


def test_a_group_that_does_not_exist_is_said_to_be_none(streamactors: Run) -> None:
    ran = streamactors("groups", "describe", "nobody")
    assert ran.code == 1
    assert "there is no group 'nobody'" in ran.err


class _Wire(ClusterRequests):
    """Gives answers in their order."""

    def __init__(self, *answers: SimpleNamespace) -> None:
        super().__init__("127.0.0.1:1")
        self._answers = list(answers)

    def versions(self) -> dict[int, int]:
        return {LIST_GROUPS: WITH_TYPES, DESCRIBE: 1, DESCRIBE_OFFSETS: 1}

    def brokers(self) -> list[int]:
        return [1]

    def call(self, *_: object) -> SimpleNamespace:
        return self._answers.pop(0)

    call_coordinator = call


def test_a_broker_that_cannot_list_its_groups_yet_is_asked_again_and_a_refusal_is_an_error() -> None:
    """Its share groups were left out of the list without a word."""
    loading = SimpleNamespace(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=())
    there = SimpleNamespace(error_code=0, groups=[SimpleNamespace(group_id="g", group_state="Stable")])
    assert [each.group for each in listed_share_groups(_Wire(loading, there))] == ["g"]
    with pytest.raises(Refused, match="cluster authorization failed"):
        listed_share_groups(_Wire(SimpleNamespace(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, groups=())))


def test_a_share_group_whose_offsets_are_refused_is_not_shown_as_one_without_partitions() -> None:
    group = SimpleNamespace(error_code=0, group_state="Stable", members=())
    refused = SimpleNamespace(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, topics=())
    with pytest.raises(Refused, match="group authorization failed"):
        share_group(_Wire(SimpleNamespace(groups=[group]), SimpleNamespace(groups=[refused])), "g")
