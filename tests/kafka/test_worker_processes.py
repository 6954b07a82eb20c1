"""Stages in worker processes between Kafka and Kafka: a kill -9 in mid-stream loses no record and repeats none in a transaction."""

from __future__ import annotations

import os
import signal

import pytest

from streamactors import Keep, Sink
from streamactors.kafka import Consumer, ProducerRecord, ProducerSettings, Subscriptions, Transactional

N = 4_000


def killed_at(folder, numbers):
    """Return a function that kills its process the first time that it gets one of the numbers."""

    def fn(value):
        if int(value) in numbers:
            try:
                os.close(os.open(f"{folder}/{int(value)}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return value
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    return fn


@pytest.mark.expects_log("another continues after the last mark")
def test_a_transaction_holds_each_record_once_though_its_worker_is_killed(
    cluster, settings, system, topic_with, committed, read_all, tmp_path, request
):
    topic = topic_with("in", [b"%d" % i for i in range(N)], 2)
    cluster.create_topic("out", partitions=1)
    transactional = ProducerSettings(
        cluster.bootstrap_servers,
        transactional_id=request.node.name,
        commit_interval_ms=20,
        preflight_timeout_ms=30_000,
    )
    control, done = (
        Transactional.source(settings, Subscriptions.topics(topic), until="end")
        .map(lambda record: (record.value, record.partition, record.offset))
        .async_boundary(process=True)
        .map(lambda row: row[0])
        .map(killed_at(tmp_path, {10, 1_001, 2_500, N - 1}))
        .filter(lambda value: int(value) % 7)
        .async_boundary()
        .map(lambda value: ProducerRecord("out", value, partition=0))
        .to_mat(Transactional.sink(transactional), Keep.both)
        .run(system)
    )
    done.result(60)
    control.is_shutdown.result(30)
    assert len(list(tmp_path.iterdir())) == 4
    assert sorted(int(m.value()) for m in read_all("out", 1)) == [i for i in range(N) if i % 7]
    assert committed(topic, 2) == {0: N // 2, 1: N // 2}


@pytest.mark.expects_log("another continues after the last mark")
def test_offsets_are_committed_behind_a_worker_that_is_killed(
    cluster, settings, system, topic_with, committed, tmp_path
):
    topic = topic_with("in-commit", [b"%d" % i for i in range(N)], 2)
    seen = []
    control, done = (
        Consumer.source(settings, Subscriptions.topics(topic), until="end")
        .map(lambda record: record.value)
        .async_boundary(process=True)
        .map(killed_at(tmp_path, {0, 3, 3_000}))
        .async_boundary()
        .to_mat(Sink.foreach(lambda value: seen.append(int(value))), Keep.both)
        .run(system)
    )
    done.result(60)
    control.is_shutdown.result(30)
    assert sorted(seen) == list(range(N))
    assert committed(topic, 2) == {0: N // 2, 1: N // 2}
