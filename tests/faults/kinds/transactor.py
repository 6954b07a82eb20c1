"""A producer with transactions of version 2 (KIP-890), by single requests: records of the topic, and its number as the offset of a group of its own.

A request whose answer was lost is sent again as it was. What the broker then says of the transaction must be true: the records and the offset are there,
or neither is."""

from __future__ import annotations

import random
import time
from typing import Any

from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.faults.kinds.group_history import Entered, GroupEvent
from tests.faults.kinds.wires import ELSEWHERE, GROUP, TRANSACTION, E, Lost, Wires
from tests.faults.workload import TOPIC, Run
from tests.history import Event, Outcome, Transaction, Value, Write

GIVE_UP_S = 45.0


class Refused(Exception):
    """The transaction cannot go on."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


def ledger_of(name: str) -> str:
    """Return the group to which a producer commits the number of its last transaction."""
    return f"ledger of {name}"


class Transactor:
    """One transactional id, with one transaction after the other."""

    def __init__(self, run: Run, name: str, dice: random.Random, events: list[Event], seen: list[GroupEvent]) -> None:
        self._run = run
        self._name = name
        self._dice = dice
        self._events = events
        self._seen = seen
        self._wires = Wires(run.bootstrap_servers, name)
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}
        self._number = 0

    def work(self) -> None:
        """Write transactions until the producers of the run stop."""
        while not self._run.stop.is_set():
            self._run._breathe(self._name)
            try:
                if self._identity is None:
                    self._begin()
                self._transaction()
            except (Refused, Lost):
                self._identity = None
                self._run.stop.wait(0.1)
        self._wires.close()

    def _again(self, ask: Any, known: frozenset[int] = frozenset(), moved: Any = None) -> int:
        """Ask until the answer is success, or one of the errors that are raised as Refused. Raises Lost after a long time."""
        give_up = time.monotonic() + GIVE_UP_S
        while time.monotonic() < give_up:
            try:
                code = ask()
            except Lost:
                self._run.finish.wait(0.05)
                continue
            if code == E.NONE or code in known:
                return int(code)
            if code not in ELSEWHERE and code != E.CONCURRENT_TRANSACTIONS:
                raise Refused(code)
            if moved is not None and code in ELSEWHERE:
                moved()
            self._run.finish.wait(0.02)
        raise Lost("given up")

    def _elsewhere(self) -> None:
        self._wires.moved(TRANSACTION, self._name)

    def _begin(self) -> None:
        body = {
            "transactional_id": self._name, "transaction_timeout_ms": self._run.transaction_timeout_ms,
            "producer_id": -1, "producer_epoch": -1,
        }  # fmt: skip

        def ask() -> int:
            answer = self._wires.coordinated(TRANSACTION, self._name, 22, 5, body)
            if not answer.error_code:
                self._identity, self._sequences = (answer.producer_id, answer.producer_epoch), {}
            return int(answer.error_code)

        self._again(ask, moved=self._elsewhere)

    def _transaction(self) -> None:
        self._number += 1
        writes: dict[Value, Write] = {}
        asked_to_commit = False
        outcome = Outcome.FAIL
        try:
            for _ in range(self._dice.randrange(1, 4)):
                self._produce(writes)
            self._commit_number()
            if self._dice.random() < 0.1:
                self._run.stop.wait(self._run.transaction_timeout_ms / 1_000 + 1)  # the coordinator ends it
            if self._dice.random() < 0.75:
                asked_to_commit = True
                outcome = Outcome.UNKNOWN
                self._end(committed=True)
                outcome = Outcome.OK
            else:
                self._end(committed=False)
        except Refused as error:
            if asked_to_commit or error.code != E.TRANSACTION_ABORTABLE:
                raise
            self._end(committed=False)
        finally:
            values = tuple(writes)
            self._events.append(Transaction(self._name, outcome, tuple(writes.values())))
            if values and outcome is not Outcome.FAIL:
                self._seen.append(Entered(ledger_of(self._name), self._number, values))

    def _produce(self, writes: dict[Value, Write]) -> None:
        assert self._identity is not None
        partition = self._dice.randrange(self._run.partitions)
        values = [next(self._run.values) for _ in range(self._dice.randrange(1, 4))]
        for value in values:
            writes[value] = Write((TOPIC, partition), value)
        now_ms = int(time.time() * 1_000)
        batch = build_batch(
            [NewRecord(None, str(value).encode(), now_ms) for value in values],
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=self._sequences.get(partition, 0),
            transactional=True,
        )
        part = {"index": partition, "records": bytes(batch)}
        body = {
            "transactional_id": self._name, "acks": -1, "timeout_ms": 5_000,
            "topic_data": [{"name": TOPIC, "partition_data": [part]}],
        }  # fmt: skip
        base = -1

        def ask() -> int:
            nonlocal base
            _, leaders = self._wires.leaders(TOPIC)
            if partition not in leaders:
                raise Lost("no leader")
            (found,) = self._wires.ask(leaders[partition], 0, 12, body).responses[0].partition_responses
            base = found.base_offset
            return int(found.error_code)

        code = self._again(ask, known=frozenset({E.DUPLICATE_SEQUENCE_NUMBER}))
        self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
        if code == E.NONE and base >= 0:
            for place, value in enumerate(values):
                writes[value] = Write((TOPIC, partition), value, base + place)

    def _commit_number(self) -> None:
        assert self._identity is not None
        group = ledger_of(self._name)
        part = {
            "partition_index": 0, "committed_offset": self._number, "committed_leader_epoch": -1, "committed_metadata": "",
        }  # fmt: skip
        body = {
            "transactional_id": self._name, "group_id": group, "producer_id": self._identity[0],
            "producer_epoch": self._identity[1], "generation_id": -1, "member_id": "",
            "group_instance_id": None, "topics": [{"name": TOPIC, "partitions": [part]}],
        }  # fmt: skip

        def ask() -> int:
            answer = self._wires.coordinated(GROUP, group, 28, 5, body)
            return int(answer.topics[0].partitions[0].error_code)

        self._again(ask, moved=lambda: self._wires.moved(GROUP, group))

    def _end(self, *, committed: bool) -> None:
        assert self._identity is not None
        producer_id, epoch = self._identity
        body = {
            "transactional_id": self._name, "producer_id": producer_id, "producer_epoch": epoch, "committed": committed,
        }  # fmt: skip

        def ask() -> int:
            answer = self._wires.coordinated(TRANSACTION, self._name, 26, 5, body)
            if not answer.error_code:
                self._identity, self._sequences = (answer.producer_id, answer.producer_epoch), {}
            return int(answer.error_code)

        self._again(ask, moved=self._elsewhere)


def ledgers(servers: str, names: list[str]) -> dict[str, int]:
    """Return the last offset of each producer's group. Every transaction must have ended."""
    wires = Wires(servers, "ledgers")
    found: dict[str, int] = {}
    give_up = time.monotonic() + GIVE_UP_S
    while len(found) < len(names) and time.monotonic() < give_up:
        for name in names:
            group = ledger_of(name)
            topics = [{"name": TOPIC, "partition_indexes": [0]}]
            asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}
            try:
                answer = wires.coordinated(GROUP, group, 9, 9, {"groups": [asked], "require_stable": True})
            except Lost:
                continue
            (of_group,) = answer.groups
            if of_group.error_code:
                wires.moved(GROUP, group)
                continue
            (part,) = [each for topic in of_group.topics for each in topic.partitions]
            if not part.error_code:
                found[group] = max(part.committed_offset, 0)
    wires.close()
    assert len(found) == len(names), f"the offsets of transactions are not stable: {found} of {names}"
    return found
