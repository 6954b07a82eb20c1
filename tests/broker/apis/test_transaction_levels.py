"""The cluster's transaction.version goes up and down while producers of both protocols are in transactions: each of them goes on."""

from __future__ import annotations

import random

import pytest

from tests.broker.apis.transaction_client import READ_COMMITTED, E, Producer, describe, read, settled
from tests.broker.wire import WireClient

BROKER_CONFIG = {"transaction.state.log.num.partitions": 1}
COORDINATORS = (1, 0)
SOFTWARE = {"client_software_name": "a", "client_software_version": "1"}
ROUNDS = 12
SAFE_DOWNGRADE = 2


def put_level(client: WireClient, level: int, before: int) -> None:
    """Change the cluster's transaction.version."""
    update = {
        "feature": "transaction.version",
        "max_version_level": level,
        "upgrade_type": 1 if level > before else SAFE_DOWNGRADE,
    }
    answer = client.call(57, 1, {"timeout_ms": 10_000, "feature_updates": [update], "validate_only": False})
    assert (answer.error_code, answer.error_message) == (E.NONE, None)
    assert finalized(client) == level


def finalized(client: WireClient) -> int:
    """Return the cluster's transaction.version."""
    answer = client.call(18, 4, SOFTWARE)
    return int({each.name: each.max_version_level for each in answer.finalized_features}.get("transaction.version", 0))


def test_a_new_cluster_has_version_2(client: WireClient) -> None:
    answer = client.call(18, 4, SOFTWARE)
    assert {each.name: each.max_version for each in answer.supported_features}["transaction.version"] == 2
    assert finalized(client) == 2


@pytest.mark.parametrize("seed", range(3))
def test_producers_of_both_protocols_go_on_while_the_level_changes(
    client: WireClient, topic: str, tx: str, seed: int
) -> None:
    chance, level = random.Random(seed), 2
    old, new = Producer(client, f"{tx}-old"), Producer(client, f"{tx}-new")
    committed: list[str] = []

    def change() -> None:
        nonlocal level
        before, level = level, chance.randrange(3)
        put_level(client, level, before)

    for number in range(ROUNDS):
        ends = chance.random() < 0.7
        assert old.add(topic, 0) == [E.NONE]
        change()
        assert old.produce(topic, f"old {number}", version=10) == E.NONE
        assert new.produce(topic, f"new {number}", version=12) == E.NONE
        change()
        assert new.produce(topic, f"new {number}", version=12) == E.NONE
        assert old.end(ends) == E.NONE
        assert new.end(ends, 5) == E.NONE
        change()
        committed += [f"old {number}", f"new {number}", f"new {number}"] if ends else []
    for producer in (old, new):
        settled(client, producer.transactional_id)
        assert describe(client, producer.transactional_id).producer_epoch == producer.epoch
    assert sorted(read(client, topic, READ_COMMITTED)) == sorted(committed)
    assert (old.epoch, new.epoch) == (0, ROUNDS)
    put_level(client, 2, level)


def test_the_level_that_a_new_producer_finds_open_transactions_with_says_how_they_are_aborted(
    client: WireClient, topic: str, tx: str
) -> None:
    epochs = []
    for level, before in ((0, 2), (2, 0)):
        put_level(client, level, before)
        old = Producer(client, f"{tx}-{level}")
        old.add(topic, 0)
        old.produce(topic, "half", version=10)
        new = Producer(client, f"{tx}-{level}")
        epochs.append((old.epoch, new.epoch))
        assert old.produce(topic, "zombie", version=10) == E.INVALID_PRODUCER_EPOCH
        assert old.end(True) == E.PRODUCER_FENCED
    assert epochs == [(0, 2), (0, 2)]
    assert read(client, topic, READ_COMMITTED) == []
