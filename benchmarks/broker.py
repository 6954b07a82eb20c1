"""The broker beside Apache Kafka (where Java and Maven are found) and librdkafka's mock cluster, with the same clients.

Every broker has a process of its own, except the mock, which is a thread of the client. Rounds are taken forwards and
backwards in turns after one round to warm up; the ratio is the median of the rounds' ratios. Both have the same
settings but for what a row names."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import _apache_kafka
from benchmarks._apache_kafka import ApacheKafka
from benchmarks._broker_clients import (
    consume,
    cpu_seconds,
    delete_topic,
    flood,
    fresh_topic,
    in_turns,
    latencies,
    many_connections,
    median_and_spread,
    p99_from_outside,
    percentile,
    pipelined,
    produce,
    produce_frame,
    resident_mb,
    write_once,
)
from streamactors.broker.cluster.cluster import Cluster

Row = dict[str, Any]

ROUNDS = 4
VOLUMES = {65_536: 5_000, 1_000: 300_000, 100: 1_500_000}  # size of a value: how many a round
NAMES = {65_536: "64 KB", 1_000: "1 KB", 100: "100 B"}
PRODUCE_TARGETS = {65_536: 1.8, 1_000: 1.2, 100: 1.6}
CONSUME_TARGETS = {65_536: 1.0, 1_000: 1.4, 100: 0.9}
FSYNC_SECONDS = 3.0
KAFKA = f"Apache Kafka {_apache_kafka.VERSION}"


def run() -> list[Row]:
    """Return the rows of every section."""
    return list(rows())


def rows() -> Iterator[Row]:
    """Yield row after row."""
    yield from _starting()
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(Cluster(process=True))
        kafka = stack.enter_context(ApacheKafka()) if _apache_kafka.available() else None
        for section in (_fsync, _throughput, _prepared, _latency, _shapes):
            os.sync()  # the kernel has gigabytes of the section before to write, which would slow down this one
            yield from section(ours, kafka)
        yield from _mock(ours)
        yield from _small_requests(ours)
    yield from _idle_partitions()
    yield from _beside_user_code()


def _row(name: str, value: float, unit: str, **more: Any) -> Row:
    return {"name": name, "value": round(value) if value >= 100 else round(value, 2), "unit": unit, **more}


def _compared(
    name: str, unit: str, ours: Any, kafka: Any, measure: Callable[[Any], float], target: str = "", rounds: int = ROUNDS
) -> Row:
    """Measure both in turns, the first round for nothing; without Kafka ours alone."""
    if kafka is None:
        figures = [measure(ours) for _ in range(rounds)]
        return _row(name, statistics.median(figures), unit, peer=f"no {KAFKA} here", target=target)
    measure(kafka)
    measure(ours)
    value, peer, ratio, spread = median_and_spread(list(in_turns([ours, kafka], measure, rounds)))
    shown = f"{peer:,.0f}" if peer >= 100 else f"{peer:.2f}"
    return _row(name, value, unit, peer=f"{KAFKA} {shown}", ratio=round(ratio, 2), spread=spread, target=target)


def _starting() -> Iterator[Row]:
    begin = time.perf_counter()
    command = [sys.executable, "-m", "streamactors.cli.main", "broker", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready_s = time.perf_counter() - begin
        if line:
            yield _row("ready, from typing", ready_s, "s", peer=f"{KAFKA} 2.5-3.0", target="<= 1")
            yield _row("resident when idle", resident_mb(process.pid), "MB", peer=f"{KAFKA} 335", target="<= 60")
        process.terminate()
        process.communicate(timeout=20)


class _Cpu:
    """CPU time that the brokers take for what is measured: on a busy machine it says more than the wall clock."""

    def __init__(self) -> None:
        self._used: dict[int, list[float]] = {}

    @contextlib.contextmanager
    def of(self, peer: Any, units: Callable[[], float]) -> Iterator[None]:
        before = cpu_seconds(peer.pid)
        yield
        self._used.setdefault(id(peer), []).append((cpu_seconds(peer.pid) - before) / units())

    def row(self, name: str, unit: str, ours: Any, kafka: Any) -> Row:
        """Medians per unit, the first round left out."""
        mine = statistics.median(self._used[id(ours)][1:])
        if kafka is None:
            return _row(name, mine, unit)
        rounds = list(zip(self._used[id(ours)][1:], self._used[id(kafka)][1:], strict=True))
        value, peer, ratio, spread = median_and_spread([list(each) for each in rounds])
        return _row(name, value, unit, peer=f"{KAFKA} {peer:.2f}", ratio=round(ratio, 2), spread=spread, target="<= 1")


def _throughput(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    consumed: dict[int, dict[int, list[float]]] = {size: {} for size in VOLUMES}
    for size, count in VOLUMES.items():
        os.sync()
        cpu = _Cpu()
        gigabytes = size * count / 1e9

        def measure(
            peer: Any, size: int = size, count: int = count, cpu: _Cpu = cpu, gigabytes: float = gigabytes
        ) -> float:
            topic = fresh_topic(peer.bootstrap_servers)
            with cpu.of(peer, lambda: gigabytes):
                rate = produce(peer.bootstrap_servers, topic, size, count)
            best = max(consume(peer.bootstrap_servers, topic, count) for _ in range(3))  # each is short
            consumed[size].setdefault(id(peer), []).append(best)
            delete_topic(peer.bootstrap_servers, topic)
            return rate

        target = f">= {PRODUCE_TARGETS[size]}, try for 2"
        yield _compared(f"produce {NAMES[size]}, acks=1", "records/s", ours, kafka, measure, target)
        yield cpu.row(f"produce {NAMES[size]}: CPU of the broker", "s per GB", ours, kafka)
    for size in VOLUMES:
        mine = consumed[size][id(ours)]
        row = _row(f"consume {NAMES[size]}", statistics.median(mine[1:]), "records/s")
        if kafka is not None:
            rounds = list(zip(mine[1:], consumed[size][id(kafka)][1:], strict=True))
            value, peer, ratio, spread = median_and_spread([list(each) for each in rounds])
            row = _row(
                f"consume {NAMES[size]}",
                value,
                "records/s",
                peer=f"{KAFKA} {peer:,.0f}",
                ratio=round(ratio, 2),
                spread=spread,
                target=f">= {CONSUME_TARGETS[size]}",
            )
        yield row


def _prepared(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    """As producing, with batches made beforehand: what the brokers can take, where a client's own work is the limit."""
    for size in (1_000, 100):
        many = 800_000 // size  # about as much as a full batch of the client above

        def measure(peer: Any, size: int = size, many: int = many) -> float:
            topic = fresh_topic(peer.bootstrap_servers)
            frame = produce_frame(topic, size, records=many)
            rate = pipelined(peer.bootstrap_servers, frame, 5, 1.0)[0] * many
            delete_topic(peer.bootstrap_servers, topic)
            return rate

        name = f"produce {NAMES[size]}, acks=1, batches of {many:,} made beforehand, 5 in flight"
        yield _compared(name, "records/s", ours, kafka, measure, f">= {PRODUCE_TARGETS[size]}")


def _fsync(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    with Cluster(process=True, pipelining=False) as one_at_a_time:
        peers = [ours, one_at_a_time] + ([kafka] if kafka is not None else [])
        frames = {}
        for peer in peers:
            topic = fresh_topic(peer.bootstrap_servers, flush_messages=1, segment_bytes=1 << 30)
            frames[id(peer)] = produce_frame(topic, 64_000)
        for depth in (5, 64):
            tails: dict[int, list[float]] = {id(peer): [] for peer in peers}

            def measure(peer: Any, depth: int = depth, tails: dict[int, list[float]] = tails) -> float:
                rate, found = pipelined(peer.bootstrap_servers, frames[id(peer)], depth, FSYNC_SECONDS)
                tails[id(peer)].append(percentile(found, 99))
                return rate * 0.064

            for peer in peers:
                measure(peer)
            for found in tails.values():
                found.clear()
            rounds = list(in_turns(peers, measure, 3))
            p99 = {id(peer): statistics.median(tails[id(peer)]) for peer in peers}
            yield _against(rounds, 1, f"fsync per message, 64 KB, {depth} in flight", "our one at a time", ">= 2.2")
            yield _row(
                f"the same, P99 of a request, {depth} in flight",
                p99[id(ours)],
                "ms",
                peer=f"our one at a time {p99[id(one_at_a_time)]:.1f}",
                ratio=round(p99[id(ours)] / p99[id(one_at_a_time)], 2),
                target="<= 0.33",
            )
            if kafka is not None:
                name = f"fsync per message, 64 KB, {depth} in flight"
                yield _against(rounds, 2, name, f"{KAFKA}, P99 {p99[id(kafka)]:.0f} ms,", ">= 3.5")


def _against(rounds: list[list[float]], other: int, name: str, peer_name: str, target: str) -> Row:
    value, peer, ratio, spread = median_and_spread([[each[0], each[other]] for each in rounds])
    return _row(
        name, value, "MB/s", peer=f"{peer_name} {peer:.0f}", ratio=round(ratio, 2), spread=spread, target=target
    )


def _latency(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    peers = [ours] + ([kafka] if kafka is not None else [])
    found: dict[int, list[list[float]]] = {id(peer): [] for peer in peers}

    def measure(peer: Any) -> float:
        topic = fresh_topic(peer.bootstrap_servers)
        found[id(peer)].append(latencies(peer.bootstrap_servers, topic, 1_000, 1_000, 4.0))
        return 0.0

    list(in_turns(peers, measure, 4))
    for percent in (50, 99):
        figures = {key: statistics.median(percentile(each, percent) for each in runs) for key, runs in found.items()}
        row = _row(f"produce to consumed, 1 KB at 1,000/s, p{percent}", figures[id(ours)], "ms")
        if kafka is not None:
            peer = figures[id(kafka)]
            row |= {
                "peer": f"{KAFKA} {peer:.2f}",
                "ratio": round(figures[id(ours)] / peer, 2),
                "target": "<= 1",
            }
        yield row


def _shapes(ours: Cluster, kafka: ApacheKafka | None) -> Iterator[Row]:
    topics = {}
    peers = [ours] + ([kafka] if kafka is not None else [])
    for peer in peers:
        topics[id(peer)] = (fresh_topic(peer.bootstrap_servers, 200), fresh_topic(peer.bootstrap_servers, 1_000))

    cpu = {"connections": _Cpu(), "partitions": _Cpu()}

    def connections(peer: Any) -> float:
        topic = topics[id(peer)][0]
        frames = [_frame_of_partition(topic, partition) for partition in range(200)]
        rate = 0.0
        with cpu["connections"].of(peer, lambda: rate * 3 / 1_000):  # thousands of requests: ms of each
            rate = many_connections(peer.bootstrap_servers, frames, 3.0)[0]
        return rate

    def partitions(peer: Any) -> float:
        frame = produce_frame(topics[id(peer)][1], 100, partitions=1_000)
        rate = 0.0
        with cpu["partitions"].of(peer, lambda: rate * 3):
            rate = pipelined(peer.bootstrap_servers, frame, 5, 3.0)[0]
        return rate * 1_000

    yield _compared("200 connections, a partition each, 1 KB", "requests/s", ours, kafka, connections, ">= 1", 4)
    yield cpu["connections"].row("200 connections: CPU of the broker", "ms per request", ours, kafka)
    yield _compared("1 connection, 1,000 partitions, 100 B", "batches/s", ours, kafka, partitions, ">= 1", 4)
    yield cpu["partitions"].row("1,000 partitions: CPU of the broker", "s per 1,000 batches", ours, kafka)


def _frame_of_partition(topic: str, partition: int) -> bytes:
    """A request for one partition: made for partition 0 and changed in place."""
    frame = bytearray(produce_frame(topic, 1_000))
    position = frame.index(topic.encode()) + len(topic) + 1
    frame[position : position + 4] = partition.to_bytes(4, "big")
    return bytes(frame)


def _mock(ours: Cluster) -> Iterator[Row]:
    for size, count in VOLUMES.items():
        rounds = []
        for _ in range(3):
            topic = fresh_topic(ours.bootstrap_servers)
            mine = produce(ours.bootstrap_servers, topic, size, count)
            delete_topic(ours.bootstrap_servers, topic)
            mock = produce("", "mock", size, count, **{"test.mock.num.brokers": 1})
            rounds.append([mine, mock])
        value, peer, ratio, spread = median_and_spread(rounds)
        yield _row(
            f"produce {NAMES[size]}, acks=1",
            value,
            "records/s",
            peer=f"librdkafka's mock (in C, keeps nothing) {peer:,.0f}",
            ratio=round(ratio, 2),
            spread=spread,
        )


def _small_requests(ours: Cluster) -> Iterator[Row]:
    topic = fresh_topic(ours.bootstrap_servers)
    frame = produce_frame(topic, 100)
    flood(ours.bootstrap_servers, frame, 64, 20_000)
    per_cpu_s = []
    for _ in range(5):
        before = cpu_seconds(ours.pid)
        flood(ours.bootstrap_servers, frame, 64, 100_000)
        per_cpu_s.append(100_000 / (cpu_seconds(ours.pid) - before))
    yield _row(
        "small Produce requests, 64 in flight",
        statistics.median(per_cpu_s),
        "requests per CPU second of the broker",
        spread=f"{min(per_cpu_s):,.0f}-{max(per_cpu_s):,.0f}",
        target=">= 60,000",
    )


def _idle_partitions() -> Iterator[Row]:
    """Ten thousand partitions: what they cost to make and at rest. Apache Kafka answers before it has made their
    folders, ours after; with one write to each the two did the same."""
    peers: list[tuple[str, Callable[[], Any]]] = [("ours", lambda: Cluster(process=True))]
    if _apache_kafka.available():
        peers.append((KAFKA, ApacheKafka))
    figures = []
    for _, make in peers:
        with make() as peer:
            before = resident_mb(peer.pid)
            begin = time.perf_counter()
            topics = [fresh_topic(peer.bootstrap_servers, 1_000) for _ in range(10)]
            created_s = time.perf_counter() - begin
            time.sleep(3)  # until it has come to rest
            cpu, begin = cpu_seconds(peer.pid), time.perf_counter()
            time.sleep(10)
            used = (cpu_seconds(peer.pid) - cpu) / (time.perf_counter() - begin) * 100
            resident = resident_mb(peer.pid)
            begin = time.perf_counter()
            for topic in topics:
                write_once(peer.bootstrap_servers, topic, 1_000)
            written_s = created_s + time.perf_counter() - begin
            figures.append((created_s, written_s, resident, resident - before, used))
    for index, (name, unit) in enumerate(
        (
            ("creation answered", "s"),
            ("creation and one write to each", "s"),
            ("resident", "MB"),
            ("resident for the partitions", "MB"),
            ("CPU at rest", "% of a core"),
        )
    ):
        row = _row(f"10,000 partitions: {name}", figures[0][index], unit)
        if len(figures) > 1:
            row["peer"] = f"{KAFKA} {figures[1][index]:.2f}"
        yield row


def _beside_user_code() -> Iterator[Row]:
    """P99 of requests while Python code of the user burns the CPU, in the broker's process and outside."""
    stop = threading.Event()

    def burn() -> None:
        number = 0
        while not stop.is_set():
            for _ in range(10_000):
                number = (number * 31 + 7) % 1_000_003

    for in_process in (True, False):
        with Cluster(process=not in_process) as cluster:
            topic = fresh_topic(cluster.bootstrap_servers)
            stop.clear()
            thread = threading.Thread(target=burn)
            thread.start()
            try:
                p99 = {kind: p99_from_outside(cluster.bootstrap_servers, topic, kind) for kind in ("Produce", "Fetch")}
            finally:
                stop.set()
                thread.join()
        where = "in the same process" if in_process else "with process=True"
        for kind, value in p99.items():
            yield _row(f"{kind} P99 while user code burns the CPU, {where}", value, "ms")


if __name__ == "__main__":
    for each in rows():
        print(" | ".join(f"{key} {value}" for key, value in each.items() if value), flush=True)
