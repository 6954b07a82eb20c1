"""A partition with two replicas in sync: what the leader may not do before the other one has the records."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.actors.dispatching.timing_wheel import TimingWheel
from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.purgatory import Purgatory
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.replication.hosted_partition import HostedPartition, PartitionState
from streamactors.broker.replication.lease_state import ALWAYS
from streamactors.broker.replication.partition_table import AppendOutcome, PartitionTable
from streamactors.broker.replication.pending_produce import PendingProduce, UnsettledAppend
from streamactors.clock import VirtualClock
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.manual_pool import ManualPool

STATE = PartitionState("orders", uuid.UUID(int=7), 0, 1, 0, (1, 2), (1, 2))


@pytest.fixture
def node(tmp_path: Any) -> Iterator[Any]:
    clock = VirtualClock()
    alarms = SimpleNamespace(clock=clock, call_at=TimingWheel(clock.now_ms).schedule)
    logs = LogManager(tmp_path, default_config=LogConfig(), clock_ms=lambda: NOW_MS, flush_pool=ManualPool())
    logs.open()
    produce, fetch = (Purgatory(name, alarms, 1000) for name in ("Produce", "Fetch"))
    made = SimpleNamespace(
        node_id=1,
        clock=clock,
        logs=logs,
        produce_purgatory=produce,
        fetch_purgatory=fetch,
        purgatories=(fetch, produce),
        replication=SimpleNamespace(
            others=True, lag_ms=30_000.0, lease_end_ms=ALWAYS, eligible=lambda replica, epoch: True
        ),
    )
    made.partitions = PartitionTable(made)  # type: ignore[arg-type]
    yield made
    logs.close()


def batch(value: bytes = b"v") -> memoryview:
    return memoryview(build_batch([NewRecord(None, value, NOW_MS)]))


def produce(node: Any, partition: HostedPartition, *, acks: int) -> list[ErrorCode]:
    """Append as a Produce request does; the list has the error once it is answered."""
    result = partition.append_for(batch(), NOW_MS, acks)
    if partition.settled(result, acks):
        return [ErrorCode.NONE]
    answers: list[ErrorCode] = []
    appended = UnsettledAppend(partition, result)
    PendingProduce(node, [appended], 30_000, lambda: answers.append(appended.error), all_replicas=acks == -1).wait()
    return answers


def follow(partition: HostedPartition) -> None:
    """What the fetch of the follower from the log's end will do."""
    if partition.log.advance_high_watermark(partition.log_end_offset):
        partition.changed()


def test_an_append_waits_for_the_other_replica_and_not_for_a_sync(node: Any) -> None:
    # Every append waited for an fsync of its own that nothing had asked for.
    partition = node.partitions.apply(STATE, LogConfig())
    answers = produce(node, partition, acks=-1)
    assert answers == []
    assert node.logs.flush_pool.jobs == []
    follow(partition)
    assert answers == [ErrorCode.NONE]


def test_acks_1_is_answered_by_the_leader_alone_before_the_record_is_visible(node: Any) -> None:
    partition = node.partitions.apply(STATE, LogConfig())
    assert produce(node, partition, acks=1) == [ErrorCode.NONE]
    assert partition.high_watermark == 0
    assert node.logs.flush_pool.jobs == []


def test_a_flush_that_is_required_is_waited_for_and_does_not_move_the_high_watermark(node: Any) -> None:
    # The end of a flush moved the high watermark to the log's end, though the other replica had nothing.
    partition = node.partitions.apply(STATE, LogConfig(flush_messages=1))
    answers = produce(node, partition, acks=-1)
    assert node.logs.flush_pool.run() == 1
    assert (answers, partition.high_watermark) == ([], 0)
    follow(partition)
    assert answers == [ErrorCode.NONE]
    assert node.logs.flush_pool.run() == 0
    one = produce(node, partition, acks=1)
    assert one == []
    node.logs.flush_pool.run()
    assert (one, partition.high_watermark) == ([ErrorCode.NONE], 1)


def test_a_restart_keeps_the_high_watermark_that_was_written_down(node: Any) -> None:
    # At the start the high watermark jumped to the log's end: records that no other replica had could be read.
    log = node.logs.create("orders", 0, STATE.topic_id, LogConfig())
    for _ in range(3):
        log.append_as_leader(batch(), 0, NOW_MS)
    log.advance_high_watermark(1)
    partition = node.partitions.apply(STATE, LogConfig())
    assert (partition.high_watermark, partition.log_end_offset) == (1, 3)


def test_the_last_replica_in_sync_moves_the_high_watermark_by_itself(node: Any) -> None:
    partition = node.partitions.apply(STATE, LogConfig())
    answers = produce(node, partition, acks=-1)
    node.replication.eligible = lambda replica, epoch: False  # it is fenced: nobody waits for it to come back
    partition.become(replace(STATE, isr=(1,), partition_epoch=1))
    assert partition.high_watermark == 1
    assert answers == [ErrorCode.NONE]


def test_an_internal_append_waits_for_the_other_replica_too(node: Any) -> None:
    partition = node.partitions.apply(STATE, LogConfig())
    outcomes: list[AppendOutcome] = []
    node.partitions.append("orders", 0, batch(), outcomes.append)
    assert outcomes == []
    assert node.logs.flush_pool.jobs == []
    follow(partition)
    assert outcomes == [AppendOutcome(ErrorCode.NONE, 0, 0)]
