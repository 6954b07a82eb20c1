"""TLS on the broker beside Apache Kafka: producing, consuming and handshakes with the same certificate and the same client."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import _apache_kafka
from benchmarks._apache_kafka import ApacheKafka
from benchmarks._broker_clients import (
    consume,
    cpu_seconds,
    delete_topic,
    fresh_topic,
    in_turns,
    median_and_spread,
    produce,
)
from streamactors.broker.cluster.cluster import Cluster
from streamactors.broker.cluster.cluster_credentials import make_certificates

Row = dict[str, Any]

ROUNDS = 5
VOLUMES = {65_536: 3_000, 1_000: 200_000}  # size of a value: how many a round
HANDSHAKES = 400  # in each of two processes
KAFKA = f"Apache Kafka {_apache_kafka.VERSION}"


class Peer(NamedTuple):
    """A broker: its plain listener for the admin client, its listener with TLS, and what a client needs for that."""

    plain: str
    servers: str
    client: dict[str, Any]
    pid: int = 0


def run() -> list[Row]:
    """Return the rows."""
    if not _apache_kafka.available():
        return []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        certificates = make_certificates(Path(folder))
        peers = list(_peers(stack, certificates))
        return [*_throughput(peers), _handshakes(peers, certificates), _cost(peers[0])]


def _peers(stack: contextlib.ExitStack, certificates: Path) -> Iterator[Peer]:
    client = {"security.protocol": "SSL", "ssl.ca.location": str(certificates / "ca.pem")}
    ours = stack.enter_context(
        Cluster(
            process=True,
            listen=["PLAINTEXT://127.0.0.1:0", "SSL://127.0.0.1:0"],
            config={"ssl.keystore.location": str(certificates / "server.pem")},
        )
    )
    plain, encrypted = ours.bootstrap_servers.split(",")
    assert ours.pid is not None
    yield Peer(plain, encrypted, client, ours.pid)
    store = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(_as_java_reads_it(certificates / "server.pem")),
    }
    kafka = stack.enter_context(ApacheKafka(store, tls=True))
    yield Peer(kafka.bootstrap_servers, kafka.tls_servers, client)


def _as_java_reads_it(server: Path) -> Path:
    """Return a copy of a PEM file whose key is in PKCS 8, the only form that Java reads."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

    text = server.read_bytes()
    key = load_pem_private_key(text, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    copy = server.with_name("java.pem")
    copy.touch(mode=0o600)
    copy.write_bytes(key + text[text.index(b"-----BEGIN CERTIFICATE-----") :])
    return copy


def _throughput(peers: list[Peer]) -> Iterator[Row]:
    for size, count in VOLUMES.items():
        consumed: dict[str, list[float]] = {peer.servers: [] for peer in peers}

        def measure(
            peer: Peer, size: int = size, count: int = count, consumed: dict[str, list[float]] = consumed
        ) -> float:
            topic = fresh_topic(peer.plain)
            rate = produce(peer.servers, topic, size, count, **peer.client)
            consumed[peer.servers].append(max(consume(peer.servers, topic, count, **peer.client) for _ in range(2)))
            delete_topic(peer.plain, topic)
            return rate

        for peer in peers:
            measure(peer)
        for found in consumed.values():
            found.clear()
        shown = f"{size // 1_000} KB"
        yield _row(f"produce {shown} over TLS, acks=1", "records/s", list(in_turns(peers, measure, ROUNDS)), ">= 1")
        rounds = [list(each) for each in zip(*consumed.values(), strict=True)]
        yield _row(f"consume {shown} over TLS", "records/s", rounds, ">= 1")


def _handshakes(peers: list[Peer], certificates: Path) -> Row:
    def measure(peer: Peer) -> float:
        command = [sys.executable, "-m", "benchmarks.tls", peer.servers, str(certificates / "ca.pem")]
        begin = time.perf_counter()
        clients = [subprocess.Popen(command) for _ in range(2)]
        if any(client.wait(120) for client in clients):
            raise RuntimeError(f"{peer.servers}: a client failed")
        return 2 * HANDSHAKES / (time.perf_counter() - begin)

    for peer in peers:
        measure(peer)
    return _row("TLS handshakes, two clients", "a second", list(in_turns(peers, measure, ROUNDS)), ">= 0.8")


def _cost(ours: Peer) -> Row:
    """What encryption costs the broker: without TLS the kernel sends records from the file (sendfile), with TLS they are read and encrypted."""
    size, count = 65_536, 8_000
    topic = fresh_topic(ours.plain)
    produce(ours.plain, topic, size, count)

    def measure(door: tuple[str, dict[str, Any]]) -> float:
        began = cpu_seconds(ours.pid)
        consume(door[0], topic, count, **door[1])
        return (cpu_seconds(ours.pid) - began) / (size * count / 1e9)

    doors = [(ours.servers, ours.client), (ours.plain, {})]
    value, plain, ratio, spread = median_and_spread(list(in_turns(doors, measure, ROUNDS)))
    delete_topic(ours.plain, topic)
    return {
        "name": "the broker's CPU for 1 GB consumed over TLS",
        "value": round(value, 2),
        "unit": "s of CPU",
        "peer": f"over PLAINTEXT, with sendfile {plain:.2f}",
        "ratio": round(ratio, 2),
        "spread": spread,
        "target": "",
    }


def _row(name: str, unit: str, rounds: list[list[float]], target: str) -> Row:
    value, peer, ratio, spread = median_and_spread(rounds)
    return {
        "name": name,
        "value": round(value),
        "unit": unit,
        "peer": f"{KAFKA} {peer:,.0f}",
        "ratio": round(ratio, 2),
        "spread": spread,
        "target": target,
    }


def _shake_hands(address: str, authority: str) -> None:
    """Connect again and again, with a full handshake each time: a context of its own remembers no session."""
    import socket

    host, port = address.split(":")
    context = ssl.create_default_context(cafile=authority)
    for _ in range(HANDSHAKES):
        with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain, server_hostname=host):
            pass


if __name__ == "__main__":
    _shake_hands(sys.argv[1], sys.argv[2])
