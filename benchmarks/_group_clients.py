"""Loads of groups and transactions for a broker: raw sockets where the broker is measured, librdkafka where a user would be."""

from __future__ import annotations

import itertools
import os
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Producer

from benchmarks._broker_clients import PRODUCER, connect, read_frame
from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.header import request_frame, response_header_is_flexible
from streamactors.broker.protocol.messages import decode_response, encode_request

FIND_COORDINATOR, JOIN, HEARTBEAT, SYNC, DESCRIBE_GROUPS, OFFSET_COMMIT, OFFSET_FETCH = 10, 11, 12, 14, 15, 8, 9
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"
_names = itertools.count()


def fresh_name(kind: str) -> str:
    """Return a name nobody has used."""
    return f"{kind}-{os.getpid()}-{next(_names)}"


class Raw:
    """One connection that asks and waits, or only asks."""

    def __init__(self, servers: str) -> None:
        self.socket = connect(servers)

    def send(self, key: int, version: int, body: dict[str, Any]) -> None:
        self.socket.sendall(request_frame(key, version, 1, "raw", encode_request(key, version, body)))

    def receive(self, key: int, version: int) -> Any:
        position = 5 if response_header_is_flexible(key, version) else 4
        return decode_response(key, version, memoryview(read_frame(self.socket)), position)

    def call(self, key: int, version: int, body: dict[str, Any]) -> Any:
        self.send(key, version, body)
        return self.receive(key, version)

    def close(self) -> None:
        self.socket.close()


def await_coordinator(raw: Raw, group: str) -> None:
    """Ask until the group has a coordinator that answers."""
    give_up = time.monotonic() + 60
    while raw.call(FIND_COORDINATOR, 2, {"key": group, "key_type": 0}).error_code:
        assert time.monotonic() < give_up, "no coordinator"
        time.sleep(0.1)
    while raw.call(HEARTBEAT, 2, {"group_id": group, "generation_id": 0, "member_id": "x"}).error_code in (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NONE,
    ):
        assert time.monotonic() < give_up, "the coordinator does not serve"
        time.sleep(0.05)


def join_body(group: str, member_id: str = "", session_timeout_ms: int = 45_000) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout_ms": session_timeout_ms,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }


def form_group(group: str, members: list[Raw]) -> list[tuple[str, int]]:
    """Join all members and sync them; return each one's id and generation. The first of them leads."""
    first = members[0].call(JOIN, 3, join_body(group))
    for member in members[1:]:
        member.send(JOIN, 3, join_body(group))
    # Were the first to join again before the others have been read, they would be in the generation after.
    while len(members[0].call(DESCRIBE_GROUPS, 4, {"groups": [group]}).groups[0].members) < len(members):
        pass
    members[0].send(JOIN, 3, join_body(group, first.member_id))
    joined = [member.receive(JOIN, 3) for member in members]
    generation = joined[0].generation_id
    if any(answer.error_code or answer.generation_id != generation for answer in joined):
        raise RuntimeError(f"{group}: {joined}")
    assignments = [{"member_id": answer.member_id, "assignment": b"\x00\x00"} for answer in joined]
    leader = joined[0].leader
    for member, answer in zip(members, joined, strict=True):
        mine = assignments if answer.member_id == leader else []
        body = {"group_id": group, "generation_id": generation, "member_id": answer.member_id, "assignments": mine}
        member.send(SYNC, 2, body)
    for member in members:
        answer = member.receive(SYNC, 2)
        if answer.error_code:
            raise RuntimeError(f"{group}: {answer}")
    return [(answer.member_id, generation) for answer in joined]


def commit_frame(group: str, topic: str, partition: int = 0) -> bytes:
    """Return an OffsetCommit of one offset by nobody in particular."""
    offset = {
        "partition_index": partition,
        "committed_offset": 7,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": [offset]}],
    }
    return request_frame(OFFSET_COMMIT, 7, 1, "raw", encode_request(OFFSET_COMMIT, 7, body))


@contextmanager
def heartbeating(servers: str, groups: int, members: int, interval_s: float) -> Iterator[Any]:
    """Form groups with a connection per member; yield a function that keeps them all alive for so many seconds."""
    with ExitStack() as stack:
        beats: list[tuple[socket.socket, bytes]] = []
        for _ in range(groups):
            group = fresh_name("alive")
            raws = [Raw(servers) for _ in range(members)]
            for raw in raws:
                stack.callback(raw.close)
            for raw, (member_id, generation) in zip(raws, form_group(group, raws), strict=True):
                body = {"group_id": group, "generation_id": generation, "member_id": member_id}
                beats.append((raw.socket, request_frame(HEARTBEAT, 2, 1, "raw", encode_request(HEARTBEAT, 2, body))))
        yield lambda seconds: _keep_alive(beats, interval_s, seconds)


def _keep_alive(beats: list[tuple[socket.socket, bytes]], interval_s: float, seconds: float) -> int:
    """Send every heartbeat once per interval, evenly spread; return how many were answered without an error."""
    selector = selectors.DefaultSelector()
    for sock, _ in beats:
        selector.register(sock, selectors.EVENT_READ)
    begin = time.perf_counter()
    sent = answered = 0
    while (now := time.perf_counter() - begin) < seconds:
        due = int(now / interval_s * len(beats))
        while sent < due:
            sock, frame = beats[sent % len(beats)]
            sock.sendall(frame)
            sent += 1
        for key, _ in selector.select(0.005):
            answer = key.fileobj.recv(256)  # type: ignore[union-attr]
            answered += answer[-2:] == b"\x00\x00"
    selector.close()
    return answered


def transactional_rate(servers: str, topic: str, size: int, seconds: float, commit_every_s: float) -> float:
    """Produce as fast as it goes with a commit every so often; return records per second, all of them committed."""
    settings = {**PRODUCER, "acks": "all", "transactional.id": fresh_name("tx"), "linger.ms": 5}
    producer = Producer({"bootstrap.servers": servers, **settings})
    producer.init_transactions(30)
    return _rate(producer, topic, size, seconds, commit_every_s)


def idempotent_rate(servers: str, topic: str, size: int, seconds: float) -> float:
    """Produce as fast as it goes without transactions; return records per second."""
    producer = Producer({"bootstrap.servers": servers, **PRODUCER, "acks": "all", "enable.idempotence": True})
    return _rate(producer, topic, size, seconds, None)


def _rate(producer: Producer, topic: str, size: int, seconds: float, commit_every_s: float | None) -> float:
    batch = [{"value": os.urandom(size)}] * 500
    producer_produce = producer.produce_batch
    count = 0
    begin = time.perf_counter()
    if commit_every_s is not None:
        producer.begin_transaction()
    committed_at = begin
    while (now := time.perf_counter()) < begin + seconds:
        if len(producer) < 20_000:
            count += producer_produce(topic, batch, partition=0)
        producer.poll(0.0005)
        if commit_every_s is not None and now - committed_at >= commit_every_s:
            producer.commit_transaction(30)
            producer.begin_transaction()
            committed_at = time.perf_counter()
    if commit_every_s is not None:
        producer.commit_transaction(30)
    else:
        producer.flush(60)
    return count / (time.perf_counter() - begin)
