"""Clients push their metrics to a broker that serves /metrics."""

from __future__ import annotations

import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from streamactors.broker import Cluster
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.broker.errors import ErrorCode
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient, wait_until

SET, DELETE = 0, 1
METRICS = 16


def alter(client: WireClient, name: str, *changes: tuple[str, int, str | None], only_check: bool = False) -> Any:
    configs = [{"name": n, "config_operation": operation, "value": value} for n, operation, value in changes]
    resource = {"resource_type": METRICS, "resource_name": name, "configs": configs}
    return client.call(44, 1, {"resources": [resource], "validate_only": only_check}).responses[0]


def listed(client: WireClient) -> set[int]:
    body = {"client_software_name": "x", "client_software_version": "1"}
    return {each.api_key for each in client.call(18, 3, body).api_keys}


def test_the_apis_are_listed_where_the_metrics_are_shown(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "a") as silent, silent.client() as client:
        assert not {71, 72} & listed(client)
    with LiveBroker(tmp_path / "b") as live:
        live.node.receives_telemetry = True
        with live.client() as client:
            assert {71, 72} <= listed(client)


def test_resources_are_described_listed_and_removed(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as live, live.client() as client:
        assert alter(client, "m", ("interval.ms", SET, "500"), ("metrics", SET, "a,b")).error_code == 0
        asked = {"resource_type": METRICS, "resource_name": "m", "configuration_keys": None}
        entries = client.call(32, 4, {"resources": [asked], "include_synonyms": True}).results[0].configs
        assert [(each.name, each.value, each.config_source) for each in entries] == [
            ("interval.ms", "500", 7),
            ("match", "", 5),
            ("metrics", "a,b", 7),
        ]
        for version, body in ((0, {}), (1, {"resource_types": [METRICS]})):
            found = client.call(74, version, body).config_resources
            assert [each.resource_name for each in found] == ["m"]
        assert alter(client, "m", ("interval.ms", SET, "1")).error_code == ErrorCode.INVALID_REQUEST
        alter(client, "m", ("interval.ms", DELETE, None), ("metrics", DELETE, None))
        assert not client.call(74, 0, {}).config_resources


def test_a_changed_resource_reaches_a_client_before_its_interval_is_over(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as live, live.client() as client:
        live.node.receives_telemetry = True
        first = client.call(71, 0, {"client_instance_id": None})
        assert (first.requested_metrics, first.push_interval_ms, first.error_code) == ((), 300_000, 0)
        assert first.accepted_compression_types == (4, 3, 1, 2)
        alter(client, "m", ("metrics", SET, "*"), ("interval.ms", SET, "100000"), ("match", SET, "client_id=te.t"))
        second = client.call(71, 0, {"client_instance_id": first.client_instance_id})
        assert (second.requested_metrics, second.push_interval_ms) == (("*",), 100_000)
        assert second.client_instance_id == first.client_instance_id
        push = {"client_instance_id": first.client_instance_id, "subscription_id": second.subscription_id}
        push |= {"terminating": False, "compression_type": 0, "metrics": b""}
        assert client.call(72, 0, push).error_code == 0
        assert client.call(72, 0, push).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        alter(client, "m", ("metrics", SET, "x"))
        assert client.call(72, 0, push).error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        alter(client, "m", ("metrics", SET, "*"))
        assert client.call(71, 0, {"client_instance_id": uuid.UUID(int=77)}).requested_metrics == ("*",)


@pytest.mark.expects_log("are not shown")
def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with LiveBroker(tmp_path, {"telemetry.max.bytes": 10_000}) as live, live.client() as client:
        live.node.receives_telemetry = True

        def push(content: bytes, compression: int = 0, instance: int = 9) -> int:
            found = client.call(71, 0, {"client_instance_id": uuid.UUID(int=instance)})
            body = {"client_instance_id": uuid.UUID(int=instance), "subscription_id": found.subscription_id}
            body |= {"terminating": False, "compression_type": compression, "metrics": content}
            code: int = client.call(72, 0, body).error_code
            return code

        bomb = bytes.fromhex("04224d18") + b"\xff" * 100
        assert push(b"\xff" * 40, instance=2) == ErrorCode.INVALID_RECORD
        assert push(b"not gzip", compression=1, instance=3) == ErrorCode.INVALID_RECORD
        assert push(bomb, compression=3, instance=4) == ErrorCode.INVALID_RECORD
        assert push(bytes(10_001), instance=5) == ErrorCode.TELEMETRY_TOO_LARGE
        assert push(b"", instance=6) == 0
        none = {
            "client_instance_id": None,
            "subscription_id": 1,
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        }
        assert client.call(72, 0, none).error_code == ErrorCode.INVALID_REQUEST


def test_librdkafka_pushes_and_metrics_shows_it() -> None:
    port = free_port()
    with Cluster(metrics_port=port) as cluster:
        host, broker_port = cluster.bootstrap_servers.rsplit(":", 1)
        with WireClient(host, int(broker_port)) as client:
            assert alter(client, "all", ("metrics", SET, "*"), ("interval.ms", SET, "100")).error_code == 0
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "shop"})
        producer.produce("t", b"x")
        producer.flush()

        token = {"Authorization": f"Bearer {cluster.metrics_token}"}
        address = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=token)

        def shown() -> str:
            producer.poll(0)
            with urllib.request.urlopen(address) as page:
                return str(page.read(), "utf-8")

        wait_until(lambda: "streamactors_client_producer_" in shown(), "the metrics of the producer", describe=shown)
        lines = [each for each in shown().splitlines() if each.startswith("streamactors_client_producer_connection")]
        assert any('client_id="shop"' in each and 'client_instance_id="' in each for each in lines), lines
