"""A member of a share group (KIP-932), by single requests: it accepts most records, releases and rejects some, and forgets some until their locks end."""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from streamactors.broker.records.batch import iter_batches
from tests.faults.kinds.group_history import Acknowledged, Delivered, Gone, GroupEvent
from tests.faults.kinds.wires import ELSEWHERE, GROUP, Address, E, Lost, Wires
from tests.faults.workload import TOPIC, Run
from tests.history import Event, Partition

SHARERS, LOCK_S, DELIVERIES = "sharers", 6.0, 10
SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.record.lock.duration.ms": str(int(LOCK_S * 1_000)),
    "share.delivery.count.limit": str(DELIVERIES),
}
GAP, ACCEPT, RELEASE, REJECT = 0, 1, 2, 3
LEAVES = -1
_SESSION_ENDED = frozenset({E.SHARE_SESSION_NOT_FOUND, E.INVALID_SHARE_SESSION_EPOCH, E.SHARE_SESSION_LIMIT_REACHED})


def configure(run: Run) -> None:
    """Set what the group needs before it has members."""
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in SETTINGS.items()]
    resource = {"resource_type": 32, "resource_name": SHARERS, "configs": configs}
    wires = Wires(run.bootstrap_servers, "share settings")
    while True:
        try:
            (answer,) = wires.anybody(44, 1, {"resources": [resource], "validate_only": False}).responses
        except Lost:
            continue
        if not answer.error_code:
            break
        time.sleep(0.1)
    wires.close()


@dataclass
class Session:
    """The share session of one member at one broker."""

    address: Address
    partitions: tuple[int, ...]
    epoch: int = 0
    acks: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """The acknowledgements that the next request brings: (offset, type) of each partition."""


class Sharer:
    """One member after the other, under one name."""

    def __init__(self, run: Run, name: str, dice: random.Random, events: list[Event], seen: list[GroupEvent]) -> None:
        self._run = run
        self._name = name
        self._dice = dice
        self._seen = seen
        self._wires = Wires(run.bootstrap_servers, name)
        self._wires.on_close = self._free
        self._member, self._epoch = "", 0
        self._assigned: set[int] = set()
        self._sessions: dict[Address, Session] = {}
        self._topic_id = uuid.UUID(int=0)
        self._beat_at = 0.0

    def work(self) -> None:
        """Be a member until the run finishes."""
        while not self._run.finish.is_set():
            self._member, self._epoch, self._assigned, self._beat_at = str(uuid.uuid4()), 0, set(), 0.0
            lives_until = time.monotonic() + self._dice.uniform(3.0, 30.0)
            while not self._run.finish.is_set() and time.monotonic() < lives_until:
                self._run._breathe(self._name)
                try:
                    self._step()
                except Lost:
                    self._run.finish.wait(0.1)
            self._end_sessions()
            if self._dice.random() < 0.7:
                try:
                    self._beat(LEAVES)
                except Lost:
                    pass
        self._wires.close()

    def _step(self) -> None:
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat(self._epoch)
            self._beat_at = now + 0.3
            self._place()
        for session in list(self._sessions.values()):
            self._fetch(session)
        if not self._sessions:
            self._run.finish.wait(0.1)

    def _beat(self, epoch: int) -> None:
        body = {
            "group_id": SHARERS, "member_id": self._member, "member_epoch": epoch, "rack_id": None,
            "subscribed_topic_names": [TOPIC] if epoch == 0 else None,
        }  # fmt: skip
        answer = self._wires.coordinated(GROUP, SHARERS, 76, 1, body)
        if answer.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND):
            self._epoch = 0
            raise Lost("unknown member")
        if answer.error_code in ELSEWHERE:
            self._wires.moved(GROUP, SHARERS)
            raise Lost(str(answer.error_code))
        if answer.error_code:
            raise AssertionError(f"{self._name}: {answer}")
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._assigned = {part for topic in answer.assignment.topic_partitions for part in topic.partitions}

    def _place(self) -> None:
        """Have a session at each leader of an assigned partition, and no other."""
        self._topic_id, leaders = self._wires.leaders(TOPIC)
        wanted: dict[Address, list[int]] = {}
        for partition in sorted(self._assigned & leaders.keys()):
            wanted.setdefault(leaders[partition], []).append(partition)
        for session in list(self._sessions.values()):
            if wanted.get(session.address) != list(session.partitions):
                self._end(session)
        for address, partitions in wanted.items():
            self._sessions.setdefault(address, Session(address, tuple(partitions)))

    def _end_sessions(self) -> None:
        for session in list(self._sessions.values()):
            self._end(session)

    def _end(self, session: Session) -> None:
        """Close the connection: the broker frees what the member holds."""
        self._wires.forget(session.address)
        self._sessions.pop(session.address, None)

    def _free(self, address: Address) -> None:
        # Metadata and heartbeats go over the same connections: when one of them has no answer, the session of the node ends too.
        if address in self._sessions:
            self._seen.append(Gone(self._name_of(), SHARERS, time.monotonic()))

    def _name_of(self) -> str:
        return f"{self._name} {self._member}"

    def _epochs(self, session: Session) -> dict[int, int]:
        partitions = [
            {"partition_index": each, "timestamp": -1, "current_leader_epoch": -1} for each in session.partitions
        ]
        body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPIC, "partitions": partitions}]}
        (topic,) = self._wires.ask(session.address, 2, 5, body).topics
        return {each.partition_index: each.leader_epoch for each in topic.partitions if not each.error_code}

    def _fetch(self, session: Session) -> None:
        """Acknowledge what is done, and acquire more."""
        acks, session.acks = session.acks, {}
        named = session.partitions if session.epoch == 0 else tuple(acks)
        topics = [
            {
                "partition_index": each,
                "acknowledgement_batches": [
                    {"first_offset": offset, "last_offset": offset, "acknowledge_types": [kind]}
                    for offset, kind in acks.get(each, ())
                ],
            }
            for each in named
        ]
        body = {
            "group_id": SHARERS, "member_id": self._member, "share_session_epoch": session.epoch, "max_wait_ms": 200,
            "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 100, "batch_size": 100, "share_acquire_mode": 1,
            "is_renew_ack": False, "forgotten_topics_data": [],
            "topics": [{"topic_id": self._topic_id, "partitions": topics}] if topics else [],
        }  # fmt: skip
        asked = time.monotonic()
        outcomes: dict[int, int | None] = dict.fromkeys(acks)
        try:
            before = self._epochs(session)
            asked = time.monotonic()
            answer = self._wires.ask(session.address, 78, 2, body)
            answered = time.monotonic()
            parts = [part for topic in answer.responses for part in topic.partitions]
            if not answer.error_code:
                outcomes.update(
                    {
                        each.partition_index: each.acknowledge_error_code
                        for each in parts
                        if each.partition_index in acks
                    }
                )
        except Lost:
            self._note(acks, outcomes, asked)
            self._end(session)
            raise
        self._note(acks, outcomes, asked, answered)
        if answer.error_code:
            self._end(session)
            if answer.error_code not in _SESSION_ENDED and answer.error_code not in ELSEWHERE:
                raise AssertionError(f"{self._name}: {answer}")
            return
        session.epoch += 1
        try:
            after = self._epochs(session)
        except Lost:
            self._end(session)
            after = {}
        for part in parts:
            epoch = before.get(part.partition_index)
            certain = epoch if epoch is not None and epoch == after.get(part.partition_index) else None
            self._take(session, part, asked, answered, certain)

    def _note(
        self,
        acks: dict[int, list[tuple[int, int]]],
        outcomes: dict[int, int | None],
        asked: float,
        answered: float = 0.0,
    ) -> None:
        for partition, given in acks.items():
            code = outcomes[partition]
            for offset, kind in given:
                at = answered if code == E.NONE else None
                place: Partition = (TOPIC, partition)
                done = kind in (ACCEPT, REJECT, GAP)
                self._seen.append(Acknowledged(self._name_of(), SHARERS, place, offset, done, asked, at))

    def _take(self, session: Session, part: Any, asked: float, answered: float, epoch: int | None) -> None:
        """Note what was acquired, and decide what becomes of each record."""
        values = {
            record.offset: int(record.value or b"0")
            for batch in iter_batches(bytearray(part.records or b""))
            if not batch.is_control
            for record in batch.records()
        }
        place: Partition = (TOPIC, part.partition_index)
        for acquired in part.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                if offset not in values:
                    session.acks.setdefault(part.partition_index, []).append((offset, GAP))
                    continue
                self._seen.append(
                    Delivered(
                        self._name_of(), SHARERS, place, offset, values[offset], acquired.delivery_count, asked, answered,
                        epoch, LOCK_S,
                    )
                )  # fmt: skip
                kind = self._dice.choices((ACCEPT, RELEASE, REJECT, None), (88, 7, 3, 2))[0]
                if kind is not None:
                    session.acks.setdefault(part.partition_index, []).append((offset, kind))
