"""Fetch over a socket: what comes back, and how much of it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamactors import log_limit
from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.partition.log_read import LogSlice
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.warming import is_cold, warm
from tests.broker.apis.fetching import (  # noqa: F401  # fixtures
    fetched,
    fill,
    live_broker,
    live_client,
    new_topic,
    offsets_of,
    values_of,
)
from tests.broker.live_broker import LiveBroker, batch, fetch_body, produce_body
from tests.broker.wire import WireClient


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_returns_what_was_produced(client: WireClient, topic: str, version: int) -> None:
    values = fill(client, topic, 5)
    partition = fetched(client, version, topic=topic)
    assert values_of(partition.records) == values
    assert offsets_of(partition.records) == [0, 1, 2, 3, 4]
    assert (partition.error_code, partition.high_watermark, partition.last_stable_offset) == (0, 5, 5)
    assert partition.aborted_transactions is None


@pytest.mark.parametrize("version", range(13, 19))
def test_newer_versions_know_topics_by_id(broker: LiveBroker, client: WireClient, topic: str, version: int) -> None:
    values = fill(client, topic, 3)
    body = fetch_body(topic=topic)
    body["topics"][0]["topic_id"] = broker.partition(topic).topic_id
    answer = client.call(1, version, body).responses[0]
    assert answer.topic_id == broker.partition(topic).topic_id
    assert values_of(answer.partitions[0].records) == values
    body["topics"][0]["topic_id"] = type(answer.topic_id)(int=99)
    assert client.call(1, version, body).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("size", [100, 20_000, 200_000])  # read into memory, or sent from the file
def test_bytes_are_the_same_whichever_way_they_leave(client: WireClient, topic: str, size: int) -> None:
    values = fill(client, topic, 6, size)
    partition = fetched(client, topic=topic, partition_max_bytes=10 << 20, max_bytes=10 << 20)
    assert values_of(partition.records) == values


def test_an_offset_inside_a_batch_gets_the_whole_batch(client: WireClient, topic: str) -> None:
    client.call(0, 9, produce_body(batch(b"a", b"b", b"c"), topic))
    client.call(0, 9, produce_body(batch(b"d"), topic))
    assert offsets_of(fetched(client, topic=topic, offset=2).records) == [0, 1, 2, 3]
    assert offsets_of(fetched(client, topic=topic, offset=3).records) == [3]


def test_the_first_batch_comes_even_if_it_is_larger_than_the_limits(client: WireClient, topic: str) -> None:
    fill(client, topic, 3, 1000)
    assert offsets_of(fetched(client, topic=topic, partition_max_bytes=10).records) == [0]
    assert offsets_of(fetched(client, topic=topic, max_bytes=10).records) == [0]
    assert offsets_of(fetched(client, topic=topic, max_bytes=0, partition_max_bytes=0).records) == [0]


def test_only_the_first_partition_with_records_may_pass_the_limits(client: WireClient, topic: str) -> None:
    for partition in (1, 2):
        fill(client, topic, 3, 1000, partition)
    body = fetch_body(topic=topic, max_bytes=10, partition_max_bytes=10)
    body["topics"][0]["partitions"] = [
        {**body["topics"][0]["partitions"][0], "partition": partition} for partition in range(3)
    ]
    partitions = client.call(1, 12, body).responses[0].partitions
    assert [offsets_of(partition.records) for partition in partitions] == [[], [0], []]


def test_the_brokers_own_limit_bounds_every_answer(tmp_path: Path) -> None:
    with LiveBroker(tmp_path, {"fetch.max.bytes": 2_500}) as live, live.client() as client:
        live.create_topic("orders")
        fill(client, "orders", 10, 1000)
        assert 0 < len(fetched(client, max_bytes=50 << 20).records) <= 2_500


def test_the_request_limit_is_shared_by_the_partitions(client: WireClient, topic: str) -> None:
    for partition in range(3):
        fill(client, topic, 10, 1000, partition)
    body = fetch_body(topic=topic, max_bytes=15_000)
    body["topics"][0]["partitions"] = [
        {**body["topics"][0]["partitions"][0], "partition": partition} for partition in range(3)
    ]
    partitions = client.call(1, 12, body).responses[0].partitions
    counts = [len(offsets_of(partition.records)) for partition in partitions]
    assert counts[0] == 10
    assert 0 < counts[1] < 10
    assert counts[2] == 0
    assert sum(len(partition.records) for partition in partitions) <= 15_000


@pytest.mark.parametrize("offset", [-1, -2, 4, 1 << 40])
def test_offsets_outside_the_log(client: WireClient, topic: str, offset: int) -> None:
    fill(client, topic, 3)
    partition = fetched(client, topic=topic, offset=offset, max_wait_ms=30_000)
    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (partition.high_watermark, partition.records) == (-1, b"")


def test_the_end_of_the_log_is_no_error(client: WireClient, topic: str) -> None:
    fill(client, topic, 3)
    partition = fetched(client, topic=topic, offset=3)
    assert (partition.error_code, partition.high_watermark, partition.records) == (0, 3, b"")


def test_leader_epochs_are_compared(broker: LiveBroker, client: WireClient, topic: str) -> None:
    fill(client, topic, 1)
    partition = broker.partition(topic)
    broker.on_data_plane(lambda: partition.become(replace(partition.state, leader_epoch=2)))

    def error_of(epoch: int) -> int:
        code: int = fetched(client, topic=topic, current_leader_epoch=epoch).error_code
        return code

    assert [error_of(epoch) for epoch in (-2, -1, 2)] == [0, 0, 0]
    assert error_of(1) == ErrorCode.FENCED_LEADER_EPOCH
    assert error_of(3) == ErrorCode.UNKNOWN_LEADER_EPOCH
    fill(client, topic, 1)
    epochs = [part.leader_epoch for part in iter_batches(fetched(client, topic=topic).records)]
    assert epochs == [0, 2]


def test_a_diverging_epoch_is_answered_without_records(broker: LiveBroker, client: WireClient, topic: str) -> None:
    fill(client, topic, 3)
    assert offsets_of(fetched(client, topic=topic, offset=2, last_fetched_epoch=0).records) == [2]
    assert fetched(client, topic=topic, last_fetched_epoch=5).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    broker.on_data_plane(lambda: broker.partition(topic).log.assign_leader_epoch(4))
    partition = fetched(client, topic=topic, offset=2, last_fetched_epoch=2)
    assert (partition.error_code, partition.records) == (0, b"")
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (0, 3)


@pytest.mark.parametrize(("name", "partition"), [("no-such-topic", 0), (None, 17), (None, -1)])
def test_partitions_that_are_not_there(client: WireClient, topic: str, name: str | None, partition: int) -> None:
    answer = fetched(client, topic=name or topic, partition=partition, max_wait_ms=30_000)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replicas_are_not_served(client: WireClient, topic: str) -> None:
    assert fetched(client, topic=topic, replica_id=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    body = {**fetch_body(topic=topic), "replica_state": {"replica_id": 2, "replica_epoch": 1}}
    body["topics"][0]["topic_id"] = None
    assert client.call(1, 17, body).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(("session_id", "session_epoch"), [(-1, -1), (77, -1), (77, 0)])
def test_a_fetch_that_closes_or_opens_a_session_is_answered_whole(
    client: WireClient, topic: str, session_id: int, session_epoch: int
) -> None:
    # kafka-go says session -1 in every fetch; it was told FETCH_SESSION_ID_NOT_FOUND and found no topic in the answer
    answer = client.call(1, 11, fetch_body(topic=topic, session_id=session_id, session_epoch=session_epoch))
    assert (answer.error_code, answer.session_id != 0) == (0, session_epoch == 0)
    assert [each.topic for each in answer.responses] == [topic]


def test_nothing_asked_is_answered_at_once(client: WireClient) -> None:
    answer = client.call(1, 12, {"replica_id": -1, "max_wait_ms": 30_000, "min_bytes": 1, "max_bytes": 1, "topics": []})
    assert (answer.error_code, answer.responses) == (0, ())


# ---- transactions ----


def test_committed_reads_stop_before_open_transactions(broker: LiveBroker, client: WireClient, topic: str) -> None:
    fill(client, topic, 1)
    transactional = bytearray(batch(b"open", producer=(4711, 0), sequence=0, transactional=True))
    broker.on_data_plane(lambda: broker.node.partitions.append(topic, 0, transactional, lambda outcome: None))
    fill(client, topic, 1)
    committed = fetched(client, topic=topic, isolation_level=1)
    assert (committed.high_watermark, committed.last_stable_offset) == (3, 1)
    assert offsets_of(committed.records) == [0]
    assert committed.aborted_transactions == ()
    assert offsets_of(fetched(client, topic=topic, isolation_level=0).records) == [0, 1, 2]


# ---- cold pages ----


def _slice_of(partition: HostedPartition) -> LogSlice:
    return partition.log.read(0, 100 << 20, partition.high_watermark)


def test_cold_pages_are_recognised_and_read_ahead(broker: LiveBroker, client: WireClient, topic: str) -> None:
    fill(client, topic, 20, 100_000)
    partition = broker.partition(topic)
    partition.log.flush()
    with _slice_of(partition) as piece:
        assert not is_cold(piece)
        os.posix_fadvise(piece.fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if not is_cold(piece):
            pytest.skip("this file system keeps its pages, or cannot say whether they are there")
        warm([piece])
        assert not is_cold(piece)
        os.posix_fadvise(piece.fd, 0, 0, os.POSIX_FADV_DONTNEED)
    records = fetched(client, topic=topic, partition_max_bytes=100 << 20, max_bytes=50 << 20).records
    assert offsets_of(records) == list(range(20))


def test_a_disk_that_fails_is_an_error_of_its_partition(
    broker: LiveBroker,
    client: WireClient,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(log_limit._of_process, "_now_s", lambda: 0.0)
    fill(client, topic, 5, 100_000)
    fill(client, topic, 1, 100, partition=1)

    def broken(pieces: Any) -> None:
        raise OSError(5, "Input/output error")

    from streamactors.broker.apis import api01_fetch

    monkeypatch.setattr(api01_fetch, "is_cold", lambda piece: True)
    monkeypatch.setattr(api01_fetch, "warm", broken)
    body = fetch_body(topic=topic)
    body["topics"][0]["partitions"] = [
        {**body["topics"][0]["partitions"][0], "partition": partition} for partition in range(2)
    ]
    for _ in range(3):
        first, second = client.call(1, 12, body).responses[0].partitions
        assert (first.error_code, first.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
        assert (second.error_code, offsets_of(second.records)) == (0, [0])
    monkeypatch.undo()
    (line,) = caplog.messages  # and not one for each request of a client that asks at once again
    assert line.endswith("reading 1 slices failed: [Errno 5] Input/output error")
    assert offsets_of(fetched(client, topic=topic).records) == list(range(5))
