"""Settings of the broker that are changed while it runs reach the parts that keep them, and are kept over a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient

TOPIC, BROKER = 2, 4


def alter(broker: LiveBroker, **settings: int) -> int:
    configs = [
        {"name": key.replace("_", "."), "config_operation": 0, "value": str(value)} for key, value in settings.items()
    ]
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": configs}
    with broker.client() as client:
        answer = client.call(44, 1, {"resources": [resource], "validate_only": False})
    code: int = answer.responses[0].error_code
    return code


def kept(broker: LiveBroker) -> Any:
    node = broker.node
    return (
        node.processor.limits.max_connections,
        node.logs.cleaner.dedupe_bytes,
        node.logs.config.producer_id_expiration_ms,
    )


def test_new_limits_hold_at_once_and_after_a_restart(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as broker:
        assert (
            alter(broker, max_connections=3, log_cleaner_dedupe_buffer_size=1_000_000, producer_id_expiration_ms=7) == 0
        )
        assert broker.on_data_plane(lambda: kept(broker)) == (3, 900_000, 7)
        clients = [broker.client() for _ in range(3)]
        for client in clients:
            assert client.call(18, 0, {}).error_code == 0
        assert broker.client().closed_by_peer()
    with LiveBroker(tmp_path) as broker:
        assert broker.on_data_plane(lambda: kept(broker)) == (3, 900_000, 7)


def test_no_more_replicas_must_be_in_sync_than_a_partition_has(tmp_path: Path) -> None:
    # As in Apache Kafka. Without this a single broker could not even commit offsets, and a transaction on the topic never ended.
    with Cluster(data=tmp_path, config={"min.insync.replicas": 2}) as cluster:
        cluster.create_topic("inherits")
        cluster.create_topic("asks", config={"min.insync.replicas": "2"})
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            assert produced(client, "inherits") == ErrorCode.NONE
            assert produced(client, "asks") == ErrorCode.NONE
            assert client.call(10, 0, {"key": "g"}).error_code == ErrorCode.NONE
            commit = {"name": "inherits", "partitions": [{"partition_index": 0, "committed_offset": 1}]}
            answer = client.call(8, 2, {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": [commit]})
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def produced(client: WireClient, topic: str) -> int:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(build_batch([NewRecord(None, b"x")]))}]}]
    answer = client.call(0, 9, {"acks": -1, "timeout_ms": 5_000, "topic_data": data})
    code: int = answer.responses[0].partition_responses[0].error_code
    return code
