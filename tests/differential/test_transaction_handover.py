"""Open transactions of version 2 change hands: a broker of one kind is killed in the middle, the other continues on its files, and the producer
ends the transaction there with its next epoch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.broker.apis.transaction_client import READ_COMMITTED, E, Producer, read, settled
from tests.broker.wire import WireClient
from tests.differential import transaction_histories as histories
from tests.differential.apache_kafka import broker as apache
from tests.differential.coordinator_steps import LOADING, NOT_COORDINATOR, play
from tests.differential.group_requests import find, topic_of
from tests.differential.test_coordinator_logs import OFFSETS, TRANSACTIONS, Serve, ours, theirs
from tests.differential.transaction_script import init

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

TOPIC, GROUP = histories.TOPIC, "g"
PREPARE = [
    topic_of(TOPIC, histories.PARTITIONS),
    find("groups", 3, 0, GROUP),
    find("transactions", 3, 1, "x"),
    init("ready", "x"),
]
DECISIONS = {"commits": True, "aborts": False}


def client_of(address: str) -> WireClient:
    host, port = address.split(":")
    return WireClient(host, int(port))


def begin(client: WireClient, name: str) -> Producer:
    """Return a producer of version 2 that has ended one transaction and is in the next, with records and offsets."""
    producer = Producer(client, name)
    assert producer.produce(TOPIC, f"{name} first", version=12) == E.NONE
    assert producer.end(True, 5) == E.NONE
    assert producer.produce(TOPIC, name, version=12) == E.NONE
    assert producer.produce(TOPIC, name, partition=1, version=12) == E.NONE
    while (error := producer.commit_offset(GROUP, TOPIC, 7)) in (LOADING, NOT_COORDINATOR, E.CONCURRENT_TRANSACTIONS):
        pass
    assert error == E.NONE
    return producer


def transplant(giver: Path, taker: Path) -> None:
    """Put the partitions of one broker into another's folder, as if it had crashed over them. The ids of the topics are the taker's own."""
    for partition in (OFFSETS, TRANSACTIONS, *(f"{TOPIC}-{index}" for index in range(histories.PARTITIONS))):
        for old in (taker / partition).iterdir():
            if old.name != "partition.metadata":
                old.unlink()
        for new in (giver / partition).iterdir():
            if new.name != "partition.metadata":
                shutil.copy(new, taker / partition)
    for checkpoint in [*taker.glob("*-checkpoint"), *taker.glob("*cleanshutdown")]:
        checkpoint.unlink()


@pytest.mark.parametrize(("giver", "taker"), [(theirs, ours), (ours, theirs)], ids=["to us", "from us"])
def test_a_transaction_ends_at_the_broker_of_the_other_kind(tmp_path: Path, giver: Serve, taker: Serve) -> None:
    given, taken = tmp_path / "given", tmp_path / "taken"
    with giver(given) as address:
        play(address, PREPARE)
        with client_of(address) as client:
            producers = {name: begin(client, name) for name in DECISIONS}
    with taker(taken) as address:
        play(address, PREPARE)
    transplant(given, taken)
    with taker(taken) as address, client_of(address) as client:
        for name, commit in DECISIONS.items():
            producer = producers[name]
            producer.client = client
            before = (producer.producer_id, producer.epoch)
            while (error := producer.end(commit, 5)) in (LOADING, NOT_COORDINATOR):
                pass
            assert error == E.NONE
            after = (producer.producer_id, producer.epoch)
            assert after == (before[0], before[1] + 1)
            producer.producer_id, producer.epoch = before
            assert producer.end(commit, 5) == E.NONE  # the answer was lost
            assert (producer.producer_id, producer.epoch) == after
            assert producer.produce(TOPIC, f"{name} later", version=12) == E.NONE
            producer.epoch -= 1
            producer.sequences = {(TOPIC, 0): 1}
            assert producer.produce(TOPIC, "zombie", version=12) == E.INVALID_PRODUCER_EPOCH
            producer.epoch += 1
            assert producer.end(True, 5) == E.NONE
            assert settled(client, name) == "CompleteCommit"
        assert read(client, TOPIC, READ_COMMITTED, 1) == ["commits"]
        assert sorted(read(client, TOPIC, READ_COMMITTED)) == sorted(
            ["commits first", "aborts first", "commits", "commits later", "aborts later"]
        )
