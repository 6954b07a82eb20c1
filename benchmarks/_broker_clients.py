"""Loads for a broker: the same librdkafka or raw client against whoever listens."""

from __future__ import annotations

import itertools
import os
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from struct import unpack_from
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streamactors.broker.protocol.header import request_frame
from streamactors.broker.protocol.messages import decode_response, encode_request
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord

PRODUCER: dict[str, Any] = {
    "acks": 1,
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 10_000_000,
    "queue.buffering.max.kbytes": 2_000_000,
    "log_level": 0,
}
CONSUMER: dict[str, Any] = {
    "group.id": "benchmark",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.queue.backoff.ms": 1,
    "check.crcs": False,
    "log_level": 0,
}
_names = itertools.count()


def fresh_topic(servers: str, partitions: int = 1, **config: Any) -> str:
    """Create a topic of a new name; settings with `_` for `.`."""
    name = f"benchmark-{os.getpid()}-{next(_names)}"
    settings = {key.replace("_", "."): str(value) for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values():
        future.result(60)
    return name


def delete_topic(servers: str, name: str) -> None:
    """Delete a topic; its space comes back."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for future in admin.delete_topics([name]).values():
        future.result(60)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


def produce(servers: str, topic: str, size: int, count: int, **config: Any) -> float:
    """Produce `count` values of `size` bytes to partition 0; return records per second until the last is
    acknowledged."""
    producer = Producer({"bootstrap.servers": servers, **PRODUCER, **config})
    value = os.urandom(size)
    producer.produce(topic, value, partition=0)
    producer.flush(30)
    messages = [{"value": value}] * min(10_000, count)
    failed: list[Any] = []
    begin = time.perf_counter()
    left = count
    while left:
        part = messages[:left] if left < len(messages) else messages
        accepted = producer.produce_batch(topic, part, partition=0)
        left -= accepted
        if accepted < len(part):
            producer.poll(0.001)
    if producer.flush(300) or failed:
        raise RuntimeError(f"{servers}: not everything was produced")
    return count / (time.perf_counter() - begin)


def consume(servers: str, topic: str, count: int, **config: Any) -> float:
    """Consume `count` records of partition 0; return records per second from the first chunk on."""
    consumer = Consumer({"bootstrap.servers": servers, **CONSUMER, **config})
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = 0
    begin = 0.0
    while got < count:
        messages = consumer.consume(500, 5.0)
        if not messages:
            raise RuntimeError(f"{servers}: nothing more comes after {got} of {count} records")
        if not begin:
            begin = time.perf_counter()
            count -= len(messages)
            continue
        got += len(messages)
    rate = got / (time.perf_counter() - begin)
    consumer.close()
    return rate


def latencies(servers: str, topic: str, size: int, rate_per_s: int, seconds: float) -> list[float]:
    """Produce at a steady rate and consume at once; return the milliseconds from produce to consumed."""
    producer = Producer({"bootstrap.servers": servers, **PRODUCER, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": servers, **CONSUMER, "fetch.wait.max.ms": 500})
    consumer.assign([TopicPartition(topic, 0, 0)])
    padding = bytes(size - 8)
    total = int(rate_per_s * seconds)
    found: list[float] = []

    def receive() -> None:
        while len(found) < total:
            message = consumer.poll(5.0)
            if message is None or message.error():
                continue
            found.append((time.perf_counter_ns() - int.from_bytes(message.value()[:8], "big")) / 1e6)

    thread = threading.Thread(target=receive)
    thread.start()
    begin = time.perf_counter()
    for number in range(total):
        due = begin + number / rate_per_s
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        producer.produce(topic, time.perf_counter_ns().to_bytes(8, "big") + padding, partition=0)
        producer.poll(0)
    producer.flush(30)
    thread.join(60)
    consumer.close()
    return found[total // 10 :]  # the first ones find cold code


def percentile(values: list[float], percent: float) -> float:
    """Return the percentile of a list."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


# ---- raw clients: they cost next to nothing, so the broker is what is measured ----


def produce_frame(topic: str, size: int, partitions: int = 1, acks: int = 1, records: int = 1) -> bytes:
    """Return a Produce request of one batch of `records` values of `size` bytes for each of the topic's first
    partitions."""
    now_ms = int(time.time() * 1000)
    batch = bytes(build_batch([NewRecord(None, os.urandom(size), now_ms) for _ in range(records)]))
    wanted = [{"name": topic, "partition_data": [{"index": each, "records": batch} for each in range(partitions)]}]
    body = encode_request(0, 9, {"acks": acks, "timeout_ms": 30_000, "topic_data": wanted})
    return request_frame(0, 9, 7, "raw", body)


def fetch_frame(topic: str) -> bytes:
    """Return a Fetch request for the first records of partition 0."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    body = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }
    return request_frame(1, 12, 7, "raw", encode_request(1, 12, {"replica_id": -1, **body}))


def connect(servers: str) -> socket.socket:
    """Return a connection to the first server."""
    host, _, port = servers.split(",")[0].rpartition(":")
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_frame(sock: socket.socket) -> bytes:
    """Return the next response without its size."""
    head = _read_exactly(sock, 4)
    return _read_exactly(sock, unpack_from(">i", head)[0])


def _read_exactly(sock: socket.socket, size: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < size:
        piece = sock.recv(size - len(chunks))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        chunks += piece
    return bytes(chunks)


def first_produce(sock: socket.socket, frame: bytes) -> int:
    """Send a request until it succeeds (a new topic may take a moment); return the size of the response's frame."""
    give_up = time.perf_counter() + 60
    while True:
        sock.sendall(frame)
        answer = read_frame(sock)
        position = 5 + 1
        position += answer[position]  # compact string: length + 1
        while answer[position] & 0x80:  # the number of partitions, a varint
            position += 1
        code = unpack_from(">h", answer, position + 1 + 4)[0]
        if not code:
            return len(answer) + 4
        if time.perf_counter() > give_up:
            raise RuntimeError(f"produce failed with error {code}")
        time.sleep(0.05)


def write_once(servers: str, topic: str, partitions: int) -> None:
    """Produce one record to each of a topic's partitions, all in one request, until each has taken it."""
    frame = produce_frame(topic, 100, partitions=partitions)
    give_up = time.perf_counter() + 120
    with connect(servers) as sock:
        while True:
            sock.sendall(frame)
            answer = decode_response(0, 9, memoryview(read_frame(sock)), 5)  # after the correlation id and no tags
            codes = {each.error_code for part in answer.responses for each in part.partition_responses}
            if codes == {0}:
                return
            if time.perf_counter() > give_up:
                raise RuntimeError(f"{topic}: produce failed with errors {sorted(codes)}")
            time.sleep(0.05)


def pipelined(
    servers: str, frame: bytes, depth: int, seconds: float, *, produces: bool = True
) -> tuple[float, list[float]]:
    """Keep `depth` requests in flight; return (requests per second, their latencies in ms)."""
    sock = connect(servers)
    if produces:
        first_produce(sock, frame)
    sent_at: list[float] = []
    found: list[float] = []
    end = time.perf_counter() + seconds
    reader = _Responses(sock)
    begin = time.perf_counter()
    for _ in range(depth):
        sent_at.append(time.perf_counter())
        sock.sendall(frame)
    answered = 0
    while True:
        done = reader.wait()
        now = time.perf_counter()
        for _ in range(done):
            found.append((now - sent_at[answered]) * 1e3)
            answered += 1
        if now >= end:
            break
        for _ in range(done):
            sent_at.append(time.perf_counter())
            sock.sendall(frame)
    rate = answered / (now - begin)
    while answered < len(sent_at):
        answered += reader.wait()
    sock.close()
    return rate, found


class _Responses:
    """Counts complete responses of one connection without looking into them."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray()

    def wait(self) -> int:
        """Return how many responses have come; at least one."""
        count = 0
        while not count:
            piece = self._sock.recv(1 << 18)
            if not piece:
                raise ConnectionError("the broker closed the connection")
            buffer = self._buffer
            buffer += piece
            position = 0
            while len(buffer) - position >= 4:
                size = unpack_from(">i", buffer, position)[0] + 4
                if len(buffer) - position < size:
                    break
                position += size
                count += 1
            del buffer[:position]
        return count


def flood(servers: str, frame: bytes, depth: int, requests: int) -> float:
    """Send small requests with `depth` in flight as fast as they are answered; return the wall seconds. Frames are sent
    by the half window, so the client takes next to no CPU."""
    sock = connect(servers)
    size = first_produce(sock, frame)
    half = max(1, depth // 2)
    burst = frame * half
    buffer = bytearray(1 << 20)
    sent = received = pending = 0
    begin = time.perf_counter()
    while received < requests:
        while sent - received <= depth - half and sent < requests:
            sock.sendall(burst)
            sent += half
        pending += sock.recv_into(buffer)
        received += pending // size
        pending %= size
    took = time.perf_counter() - begin
    sock.close()
    return took


def many_connections(servers: str, frames: list[bytes], seconds: float) -> tuple[float, list[float]]:
    """One connection per frame, each with one request in flight; return (requests per second in all, latencies in
    ms)."""
    return connections_to([(servers, frame) for frame in frames], seconds)


def connections_to(asked: list[tuple[str, bytes]], seconds: float) -> tuple[float, list[float]]:
    """`many_connections` with an address for each frame."""
    frames = [frame for _, frame in asked]
    selector = selectors.DefaultSelector()
    socks = []
    for servers, frame in asked:
        sock = connect(servers)
        first_produce(sock, frame)
        socks.append(sock)
    found: list[float] = []
    begin = time.perf_counter()
    end = begin + seconds
    for sock, frame in zip(socks, frames, strict=True):
        sock.sendall(frame)
        selector.register(sock, selectors.EVENT_READ, [frame, time.perf_counter()])
    count = 0
    while time.perf_counter() < end:
        for key, _ in selector.select(1.0):
            key.fileobj.recv(4096)  # type: ignore[union-attr]  # one small answer in one piece
            now = time.perf_counter()
            found.append((now - key.data[1]) * 1e3)
            count += 1
            key.data[1] = now
            key.fileobj.sendall(key.data[0])  # type: ignore[union-attr]
    rate = count / (time.perf_counter() - begin)
    for sock in socks:
        sock.close()
    return rate, found


def in_turns(peers: list[Any], measure: Callable[[Any], float], rounds: int) -> Iterator[list[float]]:
    """Measure all peers round by round, forwards and backwards in turns; yield the figures of one round in the peers'
    order."""
    for number in range(rounds):
        order = peers if number % 2 == 0 else list(reversed(peers))
        figures = {id(peer): measure(peer) for peer in order}
        yield [figures[id(peer)] for peer in peers]


def median_and_spread(rounds: list[list[float]]) -> tuple[float, float, float, str]:
    """Return (median of the first, median of the second, median ratio, its range) of two peers' rounds."""
    ratios = [ours / theirs for ours, theirs in rounds]
    return (
        statistics.median(ours for ours, _ in rounds),
        statistics.median(theirs for _, theirs in rounds),
        statistics.median(ratios),
        f"{min(ratios):.2f}-{max(ratios):.2f}",
    )


def p99_from_outside(servers: str, topic: str, kind: str) -> float:
    """Return the P99 in ms of requests one by one, from a process that nobody else keeps busy."""
    command = [sys.executable, "-m", "benchmarks._broker_clients", servers, topic, kind]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)


def main(servers: str, topic: str, kind: str) -> None:
    """Print the P99 for `p99_from_outside`."""
    frame = produce_frame(topic, 1_000) if kind == "Produce" else fetch_frame(topic)
    print(percentile(pipelined(servers, frame, 1, 3.0, produces=kind == "Produce")[1], 99))


if __name__ == "__main__":
    main(*sys.argv[1:])
