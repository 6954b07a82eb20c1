"""`streamactors broker --processes 2` beside one process and beside one broker of Apache Kafka: 200 connections that write.

Each connection writes 1 KB to a partition of its own, at the broker that leads it, with one request under way. The client is one thread of this
process, so it takes a core as well: two brokers can only be faster than one where more than two cores are free."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks import _apache_kafka
from benchmarks._apache_kafka import ApacheKafka, free_ports
from benchmarks._broker_clients import (
    connections_to,
    cpu_seconds,
    fresh_topic,
    in_turns,
    median_and_spread,
    produce_frame,
)

Row = dict[str, Any]

CONNECTIONS = 200
ROUNDS = 4
SECONDS = 3.0
READY_S = 60.0
KAFKA = f"Apache Kafka {_apache_kafka.VERSION}"


class Processes:
    """Our brokers, as many processes on one host as are asked for."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._ends = contextlib.ExitStack()
        self.bootstrap_servers = ""

    def __enter__(self) -> Processes:
        port = _consecutive_ports(self._count)
        folder = self._ends.enter_context(tempfile.TemporaryDirectory())
        command = [sys.executable, "-m", "streamactors.cli.main", "broker", "--data", folder]
        command += ["--listen", f"127.0.0.1:{port}", "--processes", str(self._count)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._ends.callback(process.wait)
        self._ends.callback(process.send_signal, signal.SIGTERM)
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port + number}" for number in range(self._count))
        self.pids = [process.pid]
        _await_brokers(self.bootstrap_servers, self._count)
        self.pids += _children(process.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()


def _consecutive_ports(count: int) -> int:
    """Return a free port with free ports behind it."""
    while True:
        (port,) = free_ports(1)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for number in range(count):
                stack.enter_context(socket.create_server(("127.0.0.1", port + number)))
            return port


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def _await_brokers(servers: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    give_up = time.monotonic() + READY_S
    while time.monotonic() < give_up:
        with contextlib.suppress(KafkaException):
            if len(admin.list_topics(timeout=2).brokers) == count:
                return
    raise RuntimeError(f"{servers}: {count} brokers did not start")


def run() -> list[Row]:
    """Return the rows."""
    with contextlib.ExitStack() as stack:
        peers: list[Any] = [stack.enter_context(Processes(each)) for each in (2, 1)]
        names = ["one process"]
        if _apache_kafka.available():
            peers.append(stack.enter_context(ApacheKafka()))
            names.append(KAFKA)
        return list(_rows(peers, names))


def _rows(peers: list[Any], names: list[str]) -> Iterator[Row]:
    frames = {id(peer): _frames(peer.bootstrap_servers) for peer in peers}
    used: dict[int, list[float]] = {id(peer): [] for peer in peers}

    def measure(peer: Any) -> float:
        pids = getattr(peer, "pids", None) or [peer.pid]
        before = sum(map(cpu_seconds, pids))
        rate = connections_to(frames[id(peer)], SECONDS)[0]
        used[id(peer)].append((sum(map(cpu_seconds, pids)) - before) / (rate * SECONDS) * 1_000)
        return rate

    for peer in peers:
        measure(peer)
    rounds = list(in_turns(peers, measure, ROUNDS))
    cores = len(os.sched_getaffinity(0))
    for at, name in enumerate(names, 1):
        value, other, ratio, spread = median_and_spread([[each[0], each[at]] for each in rounds])
        target = ">= 1 on four cores" if name == KAFKA else ""
        yield {
            "name": f"{CONNECTIONS} connections over --processes 2, 1 KB, beside {name}, on {cores} cores",
            "value": round(value),
            "unit": "requests/s",
            "peer": f"{name} {other:,.0f}",
            "ratio": round(ratio, 2),
            "spread": spread,
            "target": target,
        }
        mine, theirs = used[id(peers[0])][1:], used[id(peers[at])][1:]
        value, other, ratio, spread = median_and_spread([list(each) for each in zip(mine, theirs, strict=True)])
        yield {
            "name": f"the same, CPU of the brokers, beside {name}",
            "value": round(value, 3),
            "unit": "ms per request",
            "peer": f"{name} {other:.3f}",
            "ratio": round(ratio, 2),
            "spread": spread,
            "target": "",
        }


def _frames(servers: str) -> list[tuple[str, bytes]]:
    """Return a request for each partition of a new topic, with the address of the broker that leads it."""
    topic = fresh_topic(servers, CONNECTIONS)
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    found: dict[int, tuple[str, bytes]] = {}
    give_up = time.monotonic() + READY_S
    while len(found) < CONNECTIONS and time.monotonic() < give_up:
        known = admin.list_topics(topic, timeout=10)
        for number, partition in known.topics[topic].partitions.items():
            if partition.leader in known.brokers:
                leader = known.brokers[partition.leader]
                frame = bytearray(produce_frame(topic, 1_000))
                position = frame.index(topic.encode()) + len(topic) + 1
                frame[position : position + 4] = number.to_bytes(4, "big")
                found[number] = f"{leader.host}:{leader.port}", bytes(frame)
    return list(found.values())
