"""Raw clients of consumer groups (KIP-848) and transactions of version 2: the same bytes for every broker."""

from __future__ import annotations

import selectors
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks._broker_clients import cpu_seconds, read_frame
from benchmarks._group_clients import Raw, fresh_name
from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.header import request_frame
from streamactors.broker.protocol.messages import decode_response, encode_request
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord

HEARTBEAT, PRODUCE, END, INIT, OFFSETS = 68, 0, 26, 22, 28
RETRY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
GIVE_UP_S = 120.0
_ERROR_AT = 9  # correlation id, no tags, throttle time


def await_key(raw: Raw, kind: int, key: str) -> None:
    """Ask until a group (0), transactional id (1) or share partition (2) has a coordinator."""
    give_up = time.monotonic() + GIVE_UP_S
    while raw.call(10, 6, {"key_type": kind, "coordinator_keys": [key]}).coordinators[0].error_code:
        assert time.monotonic() < give_up, "no coordinator"
        time.sleep(0.1)


# ---- consumer groups ----


@dataclass
class Member:
    """A member of a consumer group with a connection of its own."""

    raw: Raw
    group: str
    topic: str
    partitions: int
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0
    owned: dict[Any, tuple[int, ...]] = field(default_factory=dict)
    told: bool = False
    """Whether the broker has heard what the member owns."""
    due: float = 0.0
    waits: bool = False

    def frame(self) -> bytes:
        """Return the next heartbeat: a full one while the member joins or acknowledges, otherwise a short one."""
        joins = self.epoch == 0
        full = [{"topic_id": each, "partitions": parts} for each, parts in self.owned.items()]
        body = {
            "group_id": self.group, "member_id": self.name, "member_epoch": self.epoch, "instance_id": None, "rack_id": None,
            "rebalance_timeout_ms": 3_600_000 if joins else -1, "subscribed_topic_names": [self.topic] if joins else None,
            "subscribed_topic_regex": None, "server_assignor": None,
            "topic_partitions": None if self.told and not joins else full,
        }  # fmt: skip
        return request_frame(HEARTBEAT, 1, 1, "raw", encode_request(HEARTBEAT, 1, body))

    def send(self) -> None:
        self.raw.socket.sendall(self.frame())
        self.told = self.waits = True

    def receive(self) -> None:
        """Take an answer. Raises RuntimeError for an error that is not one of the first moments of a broker."""
        answer = decode_response(HEARTBEAT, 1, memoryview(read_frame(self.raw.socket)), 5)
        self.waits = False
        if answer.error_code:
            if answer.error_code not in RETRY:
                raise RuntimeError(f"{self.group}: {answer}")
            self.told = False
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {each.topic_id: tuple(each.partitions) for each in answer.assignment.topic_partitions}
            self.told = False

    @property
    def size(self) -> int:
        return sum(map(len, self.owned.values()))


def settled(members: list[Member]) -> bool:
    """Whether all members are in one epoch, together own every partition, each of them its part, and have said so."""
    sizes = [each.size for each in members]
    return (
        max(sizes) - min(sizes) <= 1  # a first member owns all of them until the others are counted
        and len({each.epoch for each in members}) == 1
        and sum(sizes) == members[0].partitions
        and all(each.told and not each.waits for each in members)
    )


def form_groups(servers: str, topic: str, partitions: int, groups: int, members: int) -> list[list[Member]]:
    """Form groups, a connection per member, and return when all of them are settled."""
    made = []
    for _ in range(groups):
        name = fresh_name("consumers")
        made.append([Member(Raw(servers), name, topic, partitions) for _ in range(members)])
    await_key(made[0][0].raw, 0, made[0][0].group)
    left = made
    give_up = time.monotonic() + GIVE_UP_S * 5
    while left:
        if time.monotonic() > give_up:
            raise RuntimeError(f"{len(left)} groups are not settled")
        beat_together(member for group in left for member in group)
        left = [group for group in left if not settled(group)]
    return made


def beat_together(members: Iterable[Member]) -> None:
    """Send the heartbeats of all members, then take the answers."""
    beating = list(members)
    for member in beating:
        member.send()
    for member in beating:
        member.receive()


def beat_for(fleets: list[list[Member]], interval_s: float, seconds: float, pids: list[int]) -> list[tuple[int, float]]:
    """Send the heartbeats of several brokers' members at the same time, evenly spread; return for each broker how many were answered without an
    error, and its CPU-seconds meanwhile."""
    selector = selectors.DefaultSelector()
    beats = []
    for broker, fleet in enumerate(fleets):
        for member in fleet:
            selector.register(member.raw.socket, selectors.EVENT_READ, broker)
            beats.append((member.raw.socket, member.frame()))
    step = max(len(fleet) for fleet in fleets)
    order = [
        beats[broker * step + place] for place in range(step) for broker in range(len(fleets))
    ]  # the brokers in turns
    answered = [0] * len(fleets)
    before = [cpu_seconds(pid) for pid in pids]
    begin = time.perf_counter()
    sent = 0
    while (now := time.perf_counter() - begin) < seconds:
        due = int(now / interval_s * len(order))
        while sent < due:
            sock, frame = order[sent % len(order)]
            sock.sendall(frame)
            sent += 1
        for key, _ in selector.select(0.005):
            answer = key.fileobj.recv(4096)  # type: ignore[union-attr]
            answered[key.data] += answer[4 + _ERROR_AT : 6 + _ERROR_AT] == b"\x00\x00"
    selector.close()
    return [(count, cpu_seconds(pid) - was) for count, pid, was in zip(answered, pids, before, strict=True)]


def settle(members: list[Member], interval_s: float = 0.1) -> float:
    """Have all members send heartbeats, at once where there is something to say and otherwise every interval, until they are settled; return the
    seconds."""
    selector = selectors.DefaultSelector()
    for member in members:
        selector.register(member.raw.socket, selectors.EVENT_READ, member)
    begin = time.perf_counter()
    while not settled(members):
        now = time.perf_counter()
        if now - begin > GIVE_UP_S:
            raise RuntimeError(
                f"epochs {sorted({each.epoch for each in members})}, {sum(m.size for m in members)} owned"
            )
        for member in members:
            if not member.waits and (not member.told or now >= member.due):
                member.send()
                member.due = now + interval_s
        for key, _ in selector.select(0.01):
            key.data.receive()
    took = time.perf_counter() - begin
    selector.close()
    return took


def leave(members: Iterable[Member]) -> None:
    """Leave the group, all members at once."""
    leaving = list(members)
    for member in leaving:
        member.epoch = -1
        member.send()
    for member in leaving:
        read_frame(member.raw.socket)
        member.raw.close()


# ---- transactions ----


@dataclass
class Transactor:
    """A transactional producer with a connection of its own, one request after the other."""

    raw: Raw
    topic: str
    group: str | None
    name: str = field(default_factory=lambda: fresh_name("transactor"))
    identity: tuple[int, int] = (-1, -1)
    stage: int = 0
    count: int = 0

    def begin(self) -> None:
        await_key(self.raw, 1, self.name)
        if self.group is not None:
            await_key(self.raw, 0, self.group)
        body = {
            "transactional_id": self.name, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1,
        }  # fmt: skip
        while (answer := self.raw.call(INIT, 5, body)).error_code in RETRY:
            time.sleep(0.05)
        assert not answer.error_code, answer
        self.identity = (answer.producer_id, answer.producer_epoch)

    def send(self) -> None:
        """Send the next request of the transaction: a record, an offset if there is a group, and the commit."""
        key, version, body = (self._record, self._offset, self._commit)[self.stage]()
        self.raw.send(key, version, body)

    def receive(self) -> bool:
        """Take the answer; return True if a transaction has ended."""
        if self.stage == 0:
            code = self.raw.receive(PRODUCE, 12).responses[0].partition_responses[0].error_code
        elif self.stage == 1:
            code = self.raw.receive(OFFSETS, 5).topics[0].partitions[0].error_code
        else:
            answer = self.raw.receive(END, 5)
            code = answer.error_code
            if not code:
                self.identity = (answer.producer_id, answer.producer_epoch)
        if code:
            if code not in RETRY:
                raise RuntimeError(f"{self.name}, request {self.stage} of a transaction: {ErrorCode(code).name}")
            return False
        ended = self.stage == 2
        self.stage = 0 if ended else self.stage + 1 if self.group is not None else 2
        self.count += ended
        return ended

    def _record(self) -> tuple[int, int, dict[str, Any]]:
        now_ms = int(time.time() * 1_000)
        record = NewRecord(None, b"x" * 100, now_ms)
        producer_id, epoch = self.identity
        batch = build_batch(
            [record], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
        )
        part = {"index": 0, "records": bytes(batch)}
        topics = [{"name": self.topic, "partition_data": [part]}]
        return PRODUCE, 12, {"transactional_id": self.name, "acks": -1, "timeout_ms": 30_000, "topic_data": topics}

    def _offset(self) -> tuple[int, int, dict[str, Any]]:
        part = {
            "partition_index": 0, "committed_offset": self.count, "committed_leader_epoch": -1, "committed_metadata": "",
        }  # fmt: skip
        body = {
            "transactional_id": self.name, "group_id": self.group, "producer_id": self.identity[0],
            "producer_epoch": self.identity[1], "generation_id": -1, "member_id": "", "group_instance_id": None,
            "topics": [{"name": self.topic, "partitions": [part]}],
        }  # fmt: skip
        return OFFSETS, 5, body

    def _commit(self) -> tuple[int, int, dict[str, Any]]:
        body = {
            "transactional_id": self.name, "producer_id": self.identity[0], "producer_epoch": self.identity[1],
            "committed": True,
        }  # fmt: skip
        return END, 5, body


def transactions(servers: str, topic: str, producers: int, seconds: float, *, offsets: bool) -> tuple[float, int]:
    """Run transactions of one record, and of an offset if wanted, by several producers at once; return transactions per second, and their number."""
    made = [Transactor(Raw(servers), topic, fresh_name("eos") if offsets else None) for _ in range(producers)]
    selector = selectors.DefaultSelector()
    for each in made:
        each.begin()
        selector.register(each.raw.socket, selectors.EVENT_READ, each)
        each.send()
    begin = time.perf_counter()
    ended = 0
    while time.perf_counter() - begin < seconds or ended < 10 * producers:
        for key, _ in selector.select(1.0):
            ended += key.data.receive()
            key.data.send()
    rate = ended / (time.perf_counter() - begin)
    selector.close()
    for each in made:
        each.raw.close()
    return rate, ended
