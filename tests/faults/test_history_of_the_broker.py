"""The broker under a workload and a nemesis, judged by the history checker; and the checker on brokers broken on purpose."""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.broker.log.partition import partition_log
from streamactors.broker.log.partition.log_append import AppendResult
from streamactors.broker.log.partition.log_read import LogReader
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.validation import AppendOrigin
from streamactors.broker.replication.hosted_partition import HostedPartition
from tests.faults.broker_process import BrokerProcess
from tests.faults.nemesis import everything
from tests.faults.workload import TOPIC, Run
from tests.history import check

CONFIG = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
}


def kinds_of(run: Run, seconds: float = 1.2, **clients: int) -> set[str]:
    return {anomaly.kind for anomaly in check(run.go(seconds, **clients))}


@pytest.mark.timeout(120)
def test_a_quiet_broker_shows_nothing_impossible() -> None:
    with Cluster(config=CONFIG) as cluster:
        cluster.create_topic(TOPIC, 3)
        run = Run(cluster.bootstrap_servers)
        assert check(run.go(1.5)) == []
        assert run.acknowledged() > 100


@pytest.mark.timeout(180)
def test_a_broker_that_is_killed_and_paused_shows_nothing_impossible(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", CONFIG) as broker:
        _create(broker)
        run = Run(broker.bootstrap_servers, seed=1)
        assert check(run.go(6.0, nemesis=everything(broker, seed=1))) == []
        assert run.acknowledged() > 100


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_ten_minutes_of_trouble(tmp_path: Path) -> None:
    give_up = time.monotonic() + 600
    for seed in itertools.count(random.randrange(10**6)):
        with BrokerProcess(tmp_path / f"data-{seed}", CONFIG) as broker:
            _create(broker)
            run = Run(broker.bootstrap_servers, seed=seed)
            anomalies = check(run.go(60, nemesis=everything(broker, seed=seed)))
            assert anomalies == [], f"seed {seed}"
        if time.monotonic() > give_up:
            break


def _create(broker: BrokerProcess) -> None:
    from streamactors.broker.wire_request import create_topic

    create_topic(broker.bootstrap_servers, TOPIC, 3, {})


# -- brokers broken on purpose -----------------------------------------------------------------------------------------


def _append_with(monkeypatch: pytest.MonkeyPatch, every: int, sabotage) -> None:
    """Let every so many-th batch that a client appends to the topic go through `sabotage` instead."""
    genuine = partition_log.PartitionLog.append_as_leader
    count = itertools.count(1)

    def append(self, records, leader_epoch, now_ms, origin=AppendOrigin.CLIENT):
        if self.topic == TOPIC and origin is AppendOrigin.CLIENT and next(count) % every == 0:
            return sabotage(genuine, self, records, leader_epoch, now_ms)
        return genuine(self, records, leader_epoch, now_ms, origin)

    monkeypatch.setattr(partition_log.PartitionLog, "append_as_leader", append)


@pytest.mark.timeout(120)
@pytest.mark.slow
def test_a_broker_that_acknowledges_what_it_does_not_write_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(genuine, log, records, leader_epoch, now_ms) -> AppendResult:
        last = log.end_offset + RecordBatch(records).last_offset_delta
        return AppendResult(log.end_offset, last, -1, log.log_start_offset, False, False, -1, log.generation)

    _append_with(monkeypatch, 10, lose)
    with Cluster(config=CONFIG) as cluster:
        cluster.create_topic(TOPIC, 3)
        assert "lost-write" in kinds_of(Run(cluster.bootstrap_servers, idempotent=False), transactional=0)


@pytest.mark.timeout(120)
def test_a_broker_that_writes_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(genuine, log, records, leader_epoch, now_ms) -> AppendResult:
        copy = bytearray(records)
        result = genuine(log, records, leader_epoch, now_ms)
        genuine(log, memoryview(copy), leader_epoch, now_ms, AppendOrigin.COORDINATOR)
        return result

    _append_with(monkeypatch, 10, twice)
    with Cluster(config=CONFIG) as cluster:
        cluster.create_topic(TOPIC, 3)
        assert "duplicate" in kinds_of(Run(cluster.bootstrap_servers), transactional=0)


@pytest.mark.timeout(120)
def test_a_broker_that_forgets_what_was_aborted_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogReader, "aborted_transactions", lambda *_: [])
    with Cluster(config=CONFIG) as cluster:
        cluster.create_topic(TOPIC, 3)
        assert "aborted-read" in kinds_of(Run(cluster.bootstrap_servers), seconds=2.0)


@pytest.mark.timeout(120)
def test_a_broker_that_shows_open_transactions_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostedPartition, "last_stable_offset", property(lambda self: self.log.high_watermark))
    with Cluster(config=CONFIG) as cluster:
        cluster.create_topic(TOPIC, 3)
        assert "aborted-read" in kinds_of(Run(cluster.bootstrap_servers), seconds=2.0)
