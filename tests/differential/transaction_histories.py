"""Random histories of transactions: producers of both protocols, late and wrong requests, and what the brokers wrote meanwhile.

A history is a script for `coordinator_steps.play`. Requests name producers by the answers that were seen before, so that the same history
runs on two brokers with different producer ids. Each end and each fence is followed by a wait for its markers: a history has one order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streamactors.broker.protocol.decoding import Decoded
from streamactors.broker.records.batch import RecordBatch, iter_batches
from streamactors.broker.records.control import read_marker
from streamactors.broker.transaction.transaction import Transaction
from streamactors.broker.transaction.transaction_record import decode_transaction_key, decode_transaction_value
from tests.broker.wire import WireClient
from tests.differential.coordinator_steps import LOADING, NOT_AVAILABLE, NOT_COORDINATOR, Seen, Step, Until, errors_in
from tests.differential.group_requests import find, topic_of
from tests.differential.transaction_script import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    CONCURRENT,
    DESCRIBE,
    END,
    FETCH,
    INIT,
    PRODUCE,
    TOPIC,
    TXN_COMMIT,
    add,
    add_offsets,
    end,
    init,
    produce,
    txn_commit,
    verify,
)

STATE_TOPIC = "__transaction_state"
PARTITIONS = 3
_NOT_ENOUGH_REPLICAS = 19  # how Produce up to version 11 says that the transaction before is still ending
BUSY = (LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT)
Pid = Callable[[Seen], tuple[int, int]]


def latest(names: Sequence[str], back: int = 0, shift: int = 0) -> Pid:
    """Return the producer of one of the latest answers among these, with its epoch moved."""

    def found(seen: Seen) -> tuple[int, int]:
        given = [
            (answer.producer_id, answer.producer_epoch)
            for name in names
            if (answer := seen.get(name)) is not None and getattr(answer, "producer_id", -1) >= 0
        ]
        producer_id, epoch = given[max(-len(given), -1 - back)] if given else (0, 0)
        return producer_id, min(max(epoch + shift, 0), 32_767)

    return found


def settled(name: str, number: str) -> Until:
    """Wait for the markers of an id."""

    def wanted(answer: Any) -> bool:
        return not str(answer.transaction_states[0].transaction_state).startswith("Prepare")

    return Until(f"{number} is settled", DESCRIBE, 0, {"transactional_ids": [name]}, wanted)


def history(seed: int, length: int = 60, *, bumps: bool = True) -> list[Step | Until]:
    """Return the history of one transactional id. `bumps`: some producers use the protocol of transaction.version 2."""
    chance = random.Random(seed)
    name, group = f"h-{seed}", f"g-{seed}"
    script: list[Step | Until] = [init(f"{seed}/0", name)]
    answers = [f"init {seed}/0"]
    for at in range(1, length):
        label = f"{seed}/{at}"
        back = chance.choice([0, 0, 0, 0, 0, 1, 2])
        pid = latest(tuple(answers), back, chance.choice([0, 0, 0, 0, 0, 0, -1, 1]))
        partition = chance.randrange(PARTITIONS)
        step = _step(chance, label, name, group, pid, latest(tuple(answers)), partition, bumps)
        step = step._replace(again_while=(*BUSY, _NOT_ENOUGH_REPLICAS) if step.key == PRODUCE else BUSY)
        script.append(step)
        if step.key in (INIT, END):
            answers.append(step.name)
            script.append(settled(name, label))
    return script


def _step(
    chance: random.Random, label: str, name: str, group: str, pid: Pid, newest: Pid, partition: int, bumps: bool
) -> Step:
    kind = chance.choices(
        ["init", "claim", "add", "add as a broker", "verify", "produce", "add offsets", "commit", "end"],
        [2, 1, 4, 1, 1, 12, 1, 4, 9],
    )[0]
    new = bumps and chance.random() < 0.7
    match kind:
        case "init":
            return init(label, name)
        case "claim":  # of the newest producer: here an older one cannot abort the transaction of its successor, with Apache Kafka it can
            return init(label, name, newest)
        case "add":
            return add(label, name, pid, partition)
        case "add as a broker":
            return verify(label, name, pid, partition, version=5, only=not bumps)
        case "verify":
            return verify(label, name, pid, partition, version=5)
        case "produce":
            # Always sequence 0: after a retry of an earlier batch Apache Kafka refuses the next one while the transaction has no batch.
            return produce(label, name, pid, partition=partition, version=12 if new else chance.choice([9, 11]))
        case "add offsets":
            return add_offsets(label, name, pid, group)
        case "commit":
            return txn_commit(label, name, pid, group, partition=partition, version=5 if new else chance.choice([3, 4]))
        case _:
            return end(label, name, pid, commits=chance.random() < 0.6, version=5 if new else 3)


def beginning(groups: Sequence[str]) -> list[Step]:
    """Return what makes the topic and the coordinators."""
    return [
        topic_of(TOPIC, PARTITIONS),
        *(find(f"the coordinator of {group}", 3, 0, group) for group in groups),
        find("the transactions' coordinator", 3, 1, "x"),
    ]


COMPARED = frozenset({INIT, ADD_PARTITIONS, ADD_OFFSETS, END, TXN_COMMIT, PRODUCE})


def outcome(step: Step, seen: Seen, names: Mapping[int, str]) -> Any:
    """Return what must be the same of an answer: its errors, and a producer's identity or a batch's offset."""
    answer = seen[step.name]
    if not isinstance(answer, Decoded):
        return answer
    identity = ()
    if step.key in (INIT, END) and getattr(answer, "producer_id", -1) >= 0:
        identity = (names.get(answer.producer_id, "?"), answer.producer_epoch)
    offset = answer.responses[0].partition_responses[0].base_offset if step.key == PRODUCE else None
    return errors_in(answer), identity, offset


def producer_names(script: Sequence[Step | Until], seen: Seen) -> dict[int, str]:
    """Name the producer ids in the order in which they were given."""
    names: dict[int, str] = {}
    for step in script:
        answer = seen.get(step.name) if isinstance(step, Step) and step.key in (INIT, END) else None
        if getattr(answer, "producer_id", -1) >= 0:
            names.setdefault(answer.producer_id, f"<producer {len(names)}>")
    return names


# -- what the brokers wrote ----------------------------------------------------------------------------------------------


def batches(client: WireClient, topic: str, partition: int) -> list[RecordBatch]:
    """Return every batch of a partition."""
    found: list[RecordBatch] = []
    while True:
        offset = found[-1].next_offset if found else 0
        asked = {
            "partition": partition,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1_000_000,
        }
        body = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 10_000_000,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [asked]}],
            "forgotten_topics_data": (),
            "rack_id": "",
        }
        answer = client.call(FETCH, 12, body).responses[0].partitions[0]
        assert answer.error_code == 0
        found += iter_batches(bytes(answer.records or b""))
        if answer.high_watermark <= (found[-1].next_offset if found else 0):
            return found


def states(client: WireClient) -> dict[str, list[tuple[int, Transaction]]]:
    """Return the records of `__transaction_state`: (format, state) by transactional id, in order."""
    found: dict[str, list[tuple[int, Transaction]]] = {}
    for batch in batches(client, STATE_TOPIC, 0):
        for record in batch.records():
            name = decode_transaction_key(bytes(record.key or b""))
            assert name is not None
            assert record.value is not None
            value = bytes(record.value)
            found.setdefault(name, []).append((int.from_bytes(value[:2]), decode_transaction_value(name, value)))
    return found


def comparable(kept: Sequence[tuple[int, Transaction]], names: Mapping[int, str]) -> list[Any]:
    """Return the records of an id without clocks, with producers by name."""

    def named(producer_id: int) -> str:
        return "none" if producer_id < 0 else names.get(producer_id, "?")

    return [
        (
            version,
            txn.state.label,
            named(txn.producer_id),
            txn.producer_epoch,
            named(txn.previous_producer_id),
            named(txn.next_producer_id),
            txn.next_producer_epoch,
            txn.client_version,
            txn.timeout_ms,
            sorted(txn.partitions),
            txn.started_at_ms < 0,
        )
        for version, txn in kept
    ]


def data(client: WireClient, names: Mapping[int, str]) -> dict[int, list[Any]]:
    """Return the batches of the topic: producer, epoch, sequence, and the decision of a marker."""
    return {
        partition: [
            (
                each.base_offset,
                names.get(each.producer_id, "?"),
                each.producer_epoch,
                each.base_sequence,
                read_marker(each).committed if each.is_control else None,  # type: ignore[union-attr]
            )
            for each in batches(client, TOPIC, partition)
        ]
        for partition in range(PARTITIONS)
    }
