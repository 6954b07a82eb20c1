"""Fetch over a socket: what comes back, how much of it, and when."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.log_read import LogSlice
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.replication.partition import Partition
from streamactors.broker.replication.warming import is_cold, warm
from streamactors.clock import VirtualClock
from tests.broker.live_broker import GatedDisk, LiveBroker, batch, fetch_body, produce_body
from tests.broker.wire import WireClient, wait_until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path_factory.mktemp("fetch")) as live:
        yield live


@pytest.fixture
def client(broker: LiveBroker) -> Iterator[WireClient]:
    with broker.client() as made:
        yield made


_topics = iter(f"topic-{number}" for number in range(10_000))


@pytest.fixture
def topic(broker: LiveBroker) -> str:
    name = next(_topics)
    broker.create_topic(name, 3)
    return name


def fill(client: WireClient, topic: str, count: int, size: int = 100, partition: int = 0) -> list[bytes]:
    """Produce `count` batches of one record; return the values."""
    values = [(b"%06d" % number).ljust(size, b".") for number in range(count)]
    client.send_raw(b"".join(client.frame(0, 9, produce_body(batch(value), topic, partition)) for value in values))
    for _ in values:
        assert client.receive()[1].responses[0].partition_responses[0].error_code == 0
    return values


def fetched(client: WireClient, version: int = 12, **body: Any) -> Any:
    return client.call(1, version, fetch_body(**body)).responses[0].partitions[0]


def values_of(records: bytes | None) -> list[bytes]:
    return [bytes(record.value or b"") for part in iter_batches(records or b"") for record in part.records()]


def offsets_of(records: bytes | None) -> list[int]:
    return [record.offset for part in iter_batches(records or b"") for record in part.records()]


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


def test_where_the_logs_part_is_told_without_records(broker: LiveBroker, client: WireClient, topic: str) -> None:
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


def test_there_are_no_sessions_and_every_answer_says_so(client: WireClient, topic: str) -> None:
    fill(client, topic, 1)
    answer = client.call(1, 12, fetch_body(topic=topic, session_id=0, session_epoch=0))
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert len(answer.responses) == 1
    answer = client.call(1, 12, fetch_body(topic=topic, session_id=77, session_epoch=3))
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, ())
    answer = client.call(1, 12, fetch_body(topic=topic, session_id=0, session_epoch=1))
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, ())


@pytest.mark.parametrize(("session_id", "session_epoch"), [(-1, -1), (77, -1), (77, 0)])
def test_a_fetch_that_closes_or_opens_a_session_is_answered_whole(
    client: WireClient, topic: str, session_id: int, session_epoch: int
) -> None:
    # kafka-go says session -1 in every fetch; it was told FETCH_SESSION_ID_NOT_FOUND and found no topic in the answer
    answer = client.call(1, 11, fetch_body(topic=topic, session_id=session_id, session_epoch=session_epoch))
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert [each.topic for each in answer.responses] == [topic]


def test_nothing_asked_is_answered_at_once(client: WireClient) -> None:
    answer = client.call(1, 12, {"replica_id": -1, "max_wait_ms": 30_000, "min_bytes": 1, "max_bytes": 1, "topics": []})
    assert (answer.error_code, answer.responses) == (0, ())


# ---- waiting ----


def waiting(broker: LiveBroker) -> int:
    return broker.node.fetch_purgatory.delayed


def test_a_fetch_waits_for_records(broker: LiveBroker, client: WireClient, topic: str) -> None:
    with broker.client() as producer:
        client.send(1, 12, fetch_body(topic=topic, max_wait_ms=60_000))
        wait_until(lambda: waiting(broker) == 1)
        values = fill(producer, topic, 1)
        assert values_of(client.receive()[1].responses[0].partitions[0].records) == values
        assert waiting(broker) == 0


def test_a_fetch_of_many_partitions_is_woken_by_any_of_them(broker: LiveBroker, client: WireClient, topic: str) -> None:
    body = fetch_body(topic=topic, max_wait_ms=60_000)
    body["topics"][0]["partitions"] = [
        {**body["topics"][0]["partitions"][0], "partition": partition} for partition in range(3)
    ]
    with broker.client() as producer:
        for partition in range(3):
            client.send(1, 12, body)
            wait_until(lambda: waiting(broker) == 1)
            fill(producer, topic, 1, partition=partition)
            answer = client.receive()[1].responses[0].partitions
            assert [len(offsets_of(each.records)) for each in answer] == [int(each == partition) for each in range(3)]
            body["topics"][0]["partitions"][partition]["fetch_offset"] = 1


def test_a_fetch_waits_for_min_bytes(broker: LiveBroker, client: WireClient, topic: str) -> None:
    with broker.client() as producer:
        size = len(batch(bytes(100)))
        client.send(1, 12, fetch_body(topic=topic, max_wait_ms=60_000, min_bytes=3 * size))
        wait_until(lambda: waiting(broker) == 1)
        fill(producer, topic, 2)
        broker.on_data_plane(lambda: None)
        assert waiting(broker) == 1
        fill(producer, topic, 1)
        assert offsets_of(client.receive()[1].responses[0].partitions[0].records) == [0, 1, 2]


def test_min_bytes_that_no_read_can_give_do_not_make_it_wait_for_ever(
    broker: LiveBroker, client: WireClient, topic: str
) -> None:
    fill(client, topic, 10, 1000)
    client.socket.settimeout(10)
    partition = fetched(
        client, topic=topic, max_wait_ms=600_000, min_bytes=2_500, partition_max_bytes=2_500, max_bytes=5_000
    )
    assert offsets_of(partition.records)[0] == 0


def test_a_read_that_ends_with_its_segment_is_not_waited_for(
    broker: LiveBroker, client: WireClient, topic: str
) -> None:
    fill(client, topic, 1, 100)
    partition = broker.partition(topic)
    fill(client, topic, 1, 100)
    broker.on_data_plane(lambda: partition.log.roll(broker.node.clock.wall_ms()))
    fill(client, topic, 1, 100)
    answer = fetched(client, offset=1, topic=topic, min_bytes=100_000, max_wait_ms=2**31 - 1)
    assert offsets_of(answer.records) == [1]


def test_a_partition_counts_for_no_more_than_is_asked_of_it(broker: LiveBroker, client: WireClient, topic: str) -> None:
    fill(client, topic, 10, 1000)
    client.send(1, 12, fetch_body(topic=topic, min_bytes=5_000, partition_max_bytes=2_500, max_wait_ms=2**31 - 1))
    wait_until(lambda: waiting(broker) == 1)
    with broker.client() as producer:
        fill(producer, topic, 1, 1000)
    assert waiting(broker) == 1


def test_time_ends_the_wait_with_what_there_is(tmp_path: Path) -> None:
    clock = VirtualClock()
    with LiveBroker(tmp_path, clock=clock) as live:
        live.create_topic("orders")
        client = live.client()
        client.call(0, 9, produce_body(batch(b"a", timestamp=clock.wall_ms())))
        client.send(1, 12, fetch_body(max_wait_ms=500, min_bytes=1000))
        wait_until(lambda: waiting(live) == 1)
        clock.advance(499)
        assert waiting(live) == 1
        clock.advance(2)
        assert offsets_of(client.receive()[1].responses[0].partitions[0].records) == [0]


def test_a_topic_deleted_while_a_fetch_waits(broker: LiveBroker, client: WireClient, topic: str) -> None:
    client.send(1, 12, fetch_body(topic=topic, max_wait_ms=60_000))
    wait_until(lambda: waiting(broker) == 1)
    with broker.client() as admin:
        admin.call(20, 4, {"topic_names": [topic], "timeout_ms": 1000})
    code = client.receive()[1].responses[0].partitions[0].error_code
    assert code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_records_cut_off_while_a_fetch_waits_beyond_them(tmp_path: Path) -> None:
    # a sync fails and the log is cut back: whoever waits at the old end has to hear that it is not there
    disk = GatedDisk()
    with LiveBroker(tmp_path, disk=disk) as live:
        live.create_topic("orders", flush_messages=1)
        producer, consumer = live.client(), live.client()
        disk.hold()
        disk.failures.append(OSError(5, "Input/output error"))
        producer.send(0, 9, produce_body(batch(b"a")))
        wait_until(lambda: live.partition("orders").log_end_offset == 1)
        consumer.send(1, 12, fetch_body(offset=1, max_wait_ms=60_000))
        wait_until(lambda: waiting(live) == 1)
        disk.let_go()
        code = consumer.receive()[1].responses[0].partitions[0].error_code
        assert code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_waiting_fetch_of_a_client_that_left_is_dropped(broker: LiveBroker, topic: str) -> None:
    with broker.client() as client:
        for _ in range(3):
            client.send(1, 12, fetch_body(topic=topic, max_wait_ms=2**31 - 1))
        wait_until(lambda: waiting(broker) == 3)
        client.close()
        wait_until(lambda: waiting(broker) == 0)  # not in 24 days, nor when something is written


def test_requests_behind_a_waiting_fetch_are_served_and_answered_behind_it(
    broker: LiveBroker, client: WireClient, topic: str
) -> None:
    first = client.send(1, 12, fetch_body(topic=topic, max_wait_ms=60_000))
    second = client.send(0, 9, produce_body(batch(b"a"), topic))
    assert [client.receive()[0], client.receive()[0]] == [first, second]


def test_a_slow_reader_holds_nobody_up(broker: LiveBroker, topic: str) -> None:
    with broker.client() as producer, broker.client(receive_buffer=4096) as slow:
        values = fill(producer, topic, 40, 100_000)
        body = fetch_body(topic=topic, max_bytes=50 << 20, partition_max_bytes=50 << 20)
        for _ in range(10):
            slow.send(1, 12, body)
        assert fill(producer, topic, 1)
        for _ in range(10):
            assert values_of(slow.receive()[1].responses[0].partitions[0].records)[:40] == values


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


def _slice_of(partition: Partition) -> LogSlice:
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
    broker: LiveBroker, client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    first, second = client.call(1, 12, body).responses[0].partitions
    assert (first.error_code, first.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert (second.error_code, offsets_of(second.records)) == (0, [0])
    monkeypatch.undo()
    assert offsets_of(fetched(client, topic=topic).records) == list(range(5))
