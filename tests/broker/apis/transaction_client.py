"""A transactional producer that speaks to a broker by single requests, and readers of what it left there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.wire import WireClient

E = ErrorCode
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class Producer:
    """A transactional producer by hand."""

    def __init__(self, client: WireClient, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.client = client
        self.transactional_id = transactional_id
        answer = self.init(timeout_ms)
        assert answer.error_code == E.NONE, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, timeout_ms: int = 60_000) -> Any:
        body = {"transactional_id": self.transactional_id, "transaction_timeout_ms": timeout_ms}
        return again(lambda: self.client.call(22, 4, body))

    @property
    def identity(self) -> dict[str, Any]:
        return {"producer_id": self.producer_id, "producer_epoch": self.epoch}

    def add(self, topic: str, *partitions: int, version: int = 3) -> list[int]:
        def call() -> Any:
            return self.client.call(
                24,
                version,
                {
                    "v3_and_below_transactional_id": self.transactional_id,
                    "v3_and_below_producer_id": self.producer_id,
                    "v3_and_below_producer_epoch": self.epoch,
                    "v3_and_below_topics": [{"name": topic, "partitions": partitions or (0,)}],
                },
            )

        def errors(answer: Any) -> list[int]:
            return [
                p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition
            ]

        while E.CONCURRENT_TRANSACTIONS in (found := errors(call())):
            pass
        return found

    def produce(
        self, topic: str, *values: str, partition: int = 0, transactional: bool = True, version: int = 9
    ) -> int:
        sequence = self.sequences.get((topic, partition), 0)
        batch = build_batch(
            [NewRecord(None, value.encode(), int(time.time() * 1_000)) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        body = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout_ms": 5_000,
            "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": bytes(batch)}]}],
        }
        error = self.client.call(0, version, body).responses[0].partition_responses[0].error_code
        if error == E.NONE:
            self.sequences[topic, partition] = sequence + len(values)
        return int(error)

    def end(self, committed: bool, version: int = 3) -> int:
        """End the transaction. From version 5 on the answer has the identity for the next one."""
        body = {"transactional_id": self.transactional_id, **self.identity, "committed": committed}
        answer = again(lambda: self.client.call(26, version, body))
        if version >= 5 and answer.error_code == E.NONE:
            self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return int(answer.error_code)

    def commit_offset(self, group: str, topic: str | uuid.UUID, offset: int, version: int = 5) -> int:
        """Commit an offset of partition 0 in the transaction; from version 6 on `topic` is the topic's id."""
        named = {"topic_id": topic} if version >= 6 else {"name": topic}
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        body = {
            "transactional_id": self.transactional_id,
            "group_id": group,
            **self.identity,
            "topics": [{**named, "partitions": [partition]}],
        }
        return int(self.client.call(28, version, body).topics[0].partitions[0].error_code)


def again(call: Callable[[], Any]) -> Any:
    while (answer := call()).error_code == E.CONCURRENT_TRANSACTIONS:
        pass
    return answer


def read(client: WireClient, topic: str, isolation: int, partition: int = 0) -> list[str]:
    """Return the values a consumer of this isolation level sees."""
    body = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "isolation_level": isolation,
        "topics": [
            {
                "topic": topic,
                "partitions": [{"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1_000_000}],
            }
        ],
    }
    (found,) = client.call(1, 11, body).responses[0].partitions
    aborted = sorted((a.first_offset, a.producer_id) for a in found.aborted_transactions or ())
    values: list[str] = []
    dropping: set[int] = set()
    for batch in iter_batches(found.records or b""):
        while aborted and aborted[0][0] <= batch.base_offset:
            dropping.add(aborted.pop(0)[1])
        if batch.is_control:
            dropping.discard(batch.producer_id)
        elif batch.producer_id not in dropping:
            values += [record.value.decode() for record in batch.records()]
    return values


def latest(client: WireClient, topic: str, isolation: int) -> int:
    body = {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [
            {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]}
        ],
    }
    return int(client.call(2, 5, body).topics[0].partitions[0].offset)


def settled(client: WireClient, tx: str) -> str:
    """Wait for the markers; return the state."""
    while (state := describe(client, tx).transaction_state).startswith("Prepare") or state == "Ongoing":
        pass
    return state


def describe(client: WireClient, tx: str) -> Any:
    return client.call(65, 0, {"transactional_ids": [tx]}).transaction_states[0]
