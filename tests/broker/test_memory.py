"""Memory stays flat, however much passes through and however slowly somebody reads."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.broker.protocol.header import request_frame
from streamactors.broker.protocol.messages import encode_request
from tests.broker.live_broker import batch, fetch_body, produce_body
from tests.broker.wire import WireClient, wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see another process")

MB = 1 << 20


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    config = {
        "log.segment.bytes": 64 * MB,
        "log.retention.bytes": 128 * MB,
        "log.retention.check.interval.ms": 500,
        "log.segment.delete.delay.ms": 100,
    }
    with Cluster(process=True, config=config) as cluster:
        cluster.create_topic("orders")
        yield cluster


def client_of(cluster: Cluster, receive_buffer: int | None = None) -> WireClient:
    host, port = cluster.bootstrap_servers.split(":")
    return WireClient(host, int(port), receive_buffer=receive_buffer)


def resident(cluster: Cluster) -> int:
    text = Path(f"/proc/{cluster.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024


def pass_through(cluster: Cluster, total: int) -> None:
    """Produce and consume so many bytes, five requests of 1 MB in flight."""
    frame = request_frame(0, 9, 1, "memory", encode_request(0, 9, produce_body(batch(bytes(1_000_000)), acks=1)))
    offset = 0
    with client_of(cluster) as producer, client_of(cluster) as consumer:
        for number in range(total // MB):
            producer.send_raw(frame)
            if number >= 5:
                producer.read_frame()
            if number % 10 == 9:
                body = fetch_body(offset, max_bytes=10 * MB, partition_max_bytes=10 * MB, max_wait_ms=30_000)
                consumer.send_raw(request_frame(1, 12, 1, None, encode_request(1, 12, body)))
                (high_watermark,) = struct.unpack_from(">q", consumer.read_frame(), 4 + 1 + 4 + 2 + 4 + 1 + 7 + 1 + 6)
                offset = high_watermark
        for _ in range(min(5, total // MB)):
            producer.read_frame()


def check_flat(cluster: Cluster, total: int) -> None:
    pass_through(cluster, 64 * MB)
    before = resident(cluster)
    pass_through(cluster, total)
    assert resident(cluster) - before < 16 * MB


def test_memory_stays_flat_while_half_a_gigabyte_passes(cluster: Cluster) -> None:
    check_flat(cluster, 512 * MB)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_memory_stays_flat_while_ten_gigabytes_pass(cluster: Cluster) -> None:
    check_flat(cluster, 10 << 30)


def test_a_consumer_that_reads_a_byte_at_a_time_costs_no_more_than_its_socket_buffer(cluster: Cluster) -> None:
    pass_through(cluster, 64 * MB)
    before = resident(cluster)
    body = fetch_body(0, max_bytes=50 * MB, partition_max_bytes=50 * MB)
    request = request_frame(1, 12, 1, None, encode_request(1, 12, body))
    slow = [client_of(cluster, receive_buffer=4096) for _ in range(20)]
    for client in slow:
        client.send_raw(request * 50)  # 50 GB, if anybody held it
    for client in slow:
        for _ in range(20):
            assert client.read_exactly(1)
    with client_of(cluster) as other:
        assert other.call(18, 0, {}).error_code == 0
    assert resident(cluster) - before < 16 * MB
    for client in slow:
        client.close()


def test_half_sent_requests_cost_no_more_than_what_was_sent(cluster: Cluster) -> None:
    before = resident(cluster)
    host, port = cluster.bootstrap_servers.split(":")
    halves = []
    for _ in range(200):
        half = socket.create_connection((host, int(port)))
        half.sendall(struct.pack(">i", 100 * MB) + b"only the beginning")
        halves.append(half)
    with client_of(cluster) as other:
        assert other.call(18, 0, {}).error_code == 0
    assert resident(cluster) - before < 32 * MB
    for half in halves:
        half.close()
    wait_until(lambda: resident(cluster) - before < 32 * MB)
