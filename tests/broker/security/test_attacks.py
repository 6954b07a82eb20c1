"""What an attacker tries, over the wire: names that lead out of the data folder, names that forge lines of the log, requests that never
end, sizes that are not there. The broker serves everybody else meanwhile."""

from __future__ import annotations

import logging
import socket
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker import Acl, Cluster
from streamactors.broker.errors import ErrorCode
from tests.broker.wire import WireClient

ESCAPES = ["..", ".", "../t", "/etc/passwd", "a/b", "a\\b", "a\0b", "a\nb", "t-0", "%2e%2e", "", "x" * 250, "é", " "]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(data=tmp_path_factory.mktemp("attacked") / "data") as running:
        yield running


def client_of(cluster: Cluster, client_id: str = "test") -> WireClient:
    host, port = cluster.bootstrap_servers.split(":")
    return WireClient(host, int(port), client_id)


def test_no_name_of_a_topic_leads_out_of_the_data_folder(cluster: Cluster) -> None:
    around = cluster.data_folder.parent
    before = set(around.iterdir())
    with client_of(cluster) as client:
        for name in ESCAPES:
            topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
            answer = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000}).topics[0].error_code
            legal = name == "t-0"
            assert answer == (ErrorCode.NONE if legal else ErrorCode.INVALID_TOPIC_EXCEPTION), name
            asked = client.call(3, 9, {"topics": [{"name": name}], "allow_auto_topic_creation": True}).topics[0]
            assert asked.error_code == (ErrorCode.NONE if legal else ErrorCode.INVALID_TOPIC_EXCEPTION), name
    assert set(around.iterdir()) == before
    with client_of(cluster) as client:
        there = {topic.name for topic in client.call(3, 9, {"topics": None}).topics}
        assert there - {"__consumer_offsets"} == {"t-0"}


def test_a_name_forges_no_line_of_the_log(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    forged = "x\n2026-01-01 ERROR streamactors.broker: all data is lost\r\x1b[2J"
    with caplog.at_level(logging.DEBUG):
        with client_of(cluster, forged) as client:
            topic = {"name": forged, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
            client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000})
            client.call(3, 9, {"topics": [{"name": forged}], "allow_auto_topic_creation": True})
            client.call(10, 3, {"key": forged, "key_type": 0})
            client.call(49, 1, _quota(forged))
            client.call(20, 6, {"topics": [{"name": forged, "topic_id": uuid.UUID(int=0)}], "timeout_ms": 1_000})
        with client_of(cluster, forged) as client:
            client.send_raw(struct.pack(">ihhih", 10, 999, 0, 1, -1))
            assert client.closed_by_peer()
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("streamactors")]
    assert not [line for line in lines if "\n" in line or "\r" in line or "\x1b" in line]


def _quota(name: str) -> dict[str, object]:
    op = {"key": name, "value": 1.0, "remove": False}
    return {
        "entries": [{"entity": [{"entity_type": "user", "entity_name": name}], "ops": [op]}],
        "validate_only": False,
    }


def test_requests_that_never_end_keep_nobody_out(cluster: Cluster) -> None:
    host, port = cluster.bootstrap_servers.split(":")
    slow = [socket.create_connection((host, int(port)), 30) for _ in range(200)]
    for number, each in enumerate(slow):
        each.sendall(struct.pack(">i", 100_000_000)[: number % 5] + bytes(number % 3))
    with client_of(cluster) as client:
        for _ in range(20):
            assert client.call(18, 0, {}).error_code == 0
    for each in slow:
        each.close()


@pytest.mark.parametrize("size", [-1, -(2**31), 104_857_601, 2**31 - 1])
def test_a_size_that_is_not_allowed_is_refused_before_anything_is_allocated(cluster: Cluster, size: int) -> None:
    with client_of(cluster) as client:
        client.send_raw(struct.pack(">i", size))
        assert client.closed_by_peer()


def test_after_the_login_a_client_cannot_become_somebody_else(tmp_path: Path) -> None:
    with Cluster(users={"ann": "a", "boss": "b"}, acls=[Acl("boss", "ALL", "CLUSTER")]) as cluster:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        ann = AdminClient({**cluster.client_properties("ann"), "client.id": "User:boss"})
        with pytest.raises(KafkaException, match=r"TOPIC_AUTHORIZATION_FAILED|CLUSTER_AUTHORIZATION_FAILED"):
            ann.create_topics([NewTopic("t", 1)])["t"].result(30)
        boss = AdminClient(cluster.client_properties("boss"))
        boss.create_topics([NewTopic("t", 1)])["t"].result(30)
