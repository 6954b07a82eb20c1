"""kill -9 of a broker in each phase of a transaction of version 2: the producer asks again, and the transaction is whole, with the decision
that it was answered."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from streamactors.broker.wire_request import create_topic
from tests.broker.apis.transaction_client import READ_COMMITTED, READ_UNCOMMITTED, E, Producer, read, settled
from tests.broker.wire import WireClient
from tests.faults.broker_process import BrokerProcess

CONFIG = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
TOPIC, GROUP = "orders", "g"
BUSY = (E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.CONCURRENT_TRANSACTIONS)
PHASES = ("written", "end sent", "end answered", "settled")


def connected(broker: BrokerProcess) -> WireClient:
    client = WireClient("127.0.0.1", broker.port)
    for kind in (0, 1):
        client.call(10, 3, {"key": GROUP, "key_type": kind})
    return client


def end(producer: Producer, commit: bool) -> int:
    while (error := producer.end(commit, 5)) in BUSY:
        pass
    return error


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(2))
def test_a_transaction_is_whole_wherever_the_broker_was_killed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    committed: list[str] = []
    with BrokerProcess(tmp_path / "data", CONFIG) as broker:
        create_topic(broker.bootstrap_servers, TOPIC, 2, {})
        client = connected(broker)
        while client.call(22, 4, {"transactional_id": "x", "transaction_timeout_ms": 900_000}).error_code:
            pass
        producer = Producer(client, "tx", timeout_ms=900_000)
        offset = -1
        for number, phase in enumerate(PHASES * 2):
            commit = chance.random() < 0.7
            assert producer.produce(TOPIC, f"a{number}", version=12) == E.NONE
            assert producer.produce(TOPIC, f"b{number}", partition=1, version=12) == E.NONE
            while (error := producer.commit_offset(GROUP, TOPIC, number)) in BUSY:
                pass
            assert error == E.NONE
            before = (producer.producer_id, producer.epoch)
            if phase == "end sent":
                client.send(26, 5, {"transactional_id": "tx", **producer.identity, "committed": commit})
            elif phase != "written":
                assert end(producer, commit) == E.NONE
            if phase == "settled":
                settled(client, "tx")
            broker.kill()
            client.close()
            broker.start()
            client = producer.client = connected(broker)
            producer.producer_id, producer.epoch = before
            assert end(producer, commit) == E.NONE
            assert (producer.producer_id, producer.epoch) == (before[0], before[1] + 1)
            assert settled(client, "tx") == ("CompleteCommit" if commit else "CompleteAbort")
            committed += [str(number)] if commit else []
            offset = number if commit else offset
            for partition, name in enumerate("ab"):
                assert read(client, TOPIC, READ_COMMITTED, partition) == [f"{name}{each}" for each in committed]
                assert len(read(client, TOPIC, READ_UNCOMMITTED, partition)) == number + 1
            asked = {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}], "require_stable": True}
            (found,) = client.call(9, 7, asked).topics[0].partitions
            assert (found.error_code, found.committed_offset) == (E.NONE, offset)
        client.close()
