"""kill -9 of a broker under load: every acknowledged record is there, at its offset, once and in order.

Topics flush before every answer (flush.messages=1). Producers are idempotent and have five requests in flight; after a kill they
send again what was not answered, as every client does.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.wire_request import create_topic
from tests.broker.live_broker import fetch_body
from tests.broker.wire import WireClient
from tests.faults.broker_process import BrokerProcess

TOPIC = "orders"
PARTITIONS = 3
IN_FLIGHT = 5
CONFIG = {"log.segment.bytes": 1 << 20, "log.index.interval.bytes": 512}


class Sender:
    """Writes 0, 1, 2, … to one partition, through any number of brokers' lives."""

    def __init__(self, port: int, partition: int, dice: random.Random) -> None:
        self.port = port
        self.partition = partition
        self.dice = dice
        self.next = 0
        self.unanswered: deque[tuple[int, bytes]] = deque()
        self.offsets: dict[int, int] = {}  # first value of an acknowledged batch: its offset
        self.failed: BaseException | None = None
        self.checked = 0
        with self.connect() as client:
            self.producer_id = client.call(
                22, 4, {"transactional_id": None, "transaction_timeout_ms": 1000}
            ).producer_id

    def connect(self) -> WireClient:
        return WireClient("127.0.0.1", self.port)

    def body(self, first: int, records: bytes) -> dict[str, Any]:
        partition = {"index": self.partition, "records": records}
        return {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": TOPIC, "partition_data": [partition]}]}

    def new_batch(self) -> tuple[int, bytes]:
        first, count = self.next, self.dice.randrange(1, 20)
        self.next += count
        padding = b" " * self.dice.choice((0, 100, 5_000))
        records = [NewRecord(None, b"%d" % value + padding, 1_700_000_000_000) for value in range(first, self.next)]
        batch = build_batch(records, producer_id=self.producer_id, producer_epoch=0, base_sequence=first)
        return first, bytes(batch)

    def run(self) -> None:
        try:
            with self.connect() as client:
                for first, records in self.unanswered:
                    client.send(0, 9, self.body(first, records))
                while True:
                    while len(self.unanswered) < IN_FLIGHT:
                        self.unanswered.append(self.new_batch())
                        client.send(0, 9, self.body(*self.unanswered[-1]))
                    _, answer = client.receive()
                    found = answer.responses[0].partition_responses[0]
                    assert found.error_code == 0, found
                    self.offsets[self.unanswered.popleft()[0]] = found.base_offset
        except OSError:
            return  # the broker is gone
        except BaseException as error:
            self.failed = error

    def check(self) -> None:
        """Values are offsets: nothing is missing, doubled or out of order, and nothing acknowledged is beyond the end."""
        assert self.failed is None, self.failed
        assert all(first == offset for first, offset in self.offsets.items())
        with self.connect() as client:
            while True:
                body = fetch_body(self.checked, topic=TOPIC, partition=self.partition, max_wait_ms=0)
                (partition,) = client.call(1, 12, body).responses[0].partitions
                assert partition.error_code == 0
                if not partition.records:
                    break
                for batch in iter_batches(memoryview(bytearray(partition.records))):
                    batch.ensure_valid()
                    for record in batch.records():
                        assert record.value is not None
                        assert (record.offset, int(bytes(record.value))) == (self.checked, self.checked)
                        self.checked += 1
        assert self.checked == partition.high_watermark
        assert max(self.offsets, default=-1) < self.checked <= self.next


def survive(folder: Path, kills: int) -> None:
    dice = random.Random(kills)
    with BrokerProcess(folder, CONFIG) as broker:
        create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS, {"flush.messages": "1"})
        senders = [
            Sender(broker.port, partition, random.Random(f"{kills} {partition}")) for partition in range(PARTITIONS)
        ]
        for _ in range(kills):
            threads = [threading.Thread(target=sender.run) for sender in senders]
            for thread in threads:
                thread.start()
            threading.Event().wait(dice.uniform(0.05, 0.6))
            broker.kill()
            for thread in threads:
                thread.join(60)
            broker.start()
            for sender in senders:
                sender.check()
        assert min(len(sender.offsets) for sender in senders) >= kills


@pytest.mark.timeout(180)
@pytest.mark.expects_log("the last batch is incomplete")
def test_acknowledged_records_survive_kills(tmp_path: Path) -> None:
    survive(tmp_path / "data", 3)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.expects_log("the last batch is incomplete")
def test_acknowledged_records_survive_a_hundred_kills(tmp_path: Path) -> None:
    survive(tmp_path / "data", 100)
