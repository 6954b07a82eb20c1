"""Fetch that waits: for records, for min_bytes, for its time; what wakes it and what ends it."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.delayed_fetch import DelayedFetch
from streamactors.clock import VirtualClock
from tests.broker.apis.fetching import (  # noqa: F401  # fixtures
    fetched,
    fill,
    live_broker,
    live_client,
    new_topic,
    offsets_of,
    values_of,
)
from tests.broker.live_broker import GatedDisk, LiveBroker, batch, fetch_body, produce_body
from tests.broker.wire import WireClient, wait_until


def waiting(broker: LiveBroker) -> int:
    return broker.node.fetch_purgatory.delayed


def test_a_fetch_waits_for_records(broker: LiveBroker, client: WireClient, topic: str) -> None:
    with broker.client() as producer:
        client.send(1, 12, fetch_body(topic=topic, max_wait_ms=60_000))
        wait_until(lambda: waiting(broker) == 1)
        values = fill(producer, topic, 1)
        assert values_of(client.receive()[1].responses[0].partitions[0].records) == values
        assert waiting(broker) == 0


def test_a_fetch_that_has_waited_leaves_nothing_to_the_garbage_collector(
    broker: LiveBroker, client: WireClient, topic: str
) -> None:
    # 28 objects a request: at 1,000 requests a second the collector stopped the broker for 10 ms every two seconds.
    gc.disable()
    try:
        with broker.client() as producer:
            for offset in range(5):
                client.send(1, 12, fetch_body(topic=topic, max_wait_ms=60_000, offset=offset))
                wait_until(lambda: waiting(broker) == 1)
                fill(producer, topic, 1)
                client.receive()
        broker.on_data_plane(lambda: None)
        left = [each for each in gc.get_objects() if isinstance(each, DelayedFetch)]
        assert not any(partition.topic == topic for each in left for partition in each._by_partition)
    finally:
        gc.enable()


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


def test_min_bytes_that_one_read_cannot_return_do_not_wait_until_the_deadline(
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


def test_the_deadline_ends_the_wait_with_the_records_so_far(tmp_path: Path) -> None:
    clock = VirtualClock()
    with LiveBroker(tmp_path, clock=clock) as live:
        live.create_topic("orders")
        client = live.client()
        client.call(0, 9, produce_body(batch(b"a", timestamp=clock.wall_ms())))
        client.send(1, 12, fetch_body(max_wait_ms=500, min_bytes=1000))
        wait_until(lambda: waiting(live) == 1)
        clock.advance("499ms")
        assert waiting(live) == 1
        clock.advance("2ms")
        assert offsets_of(client.receive()[1].responses[0].partitions[0].records) == [0]


def test_a_topic_deleted_while_a_fetch_waits(broker: LiveBroker, client: WireClient, topic: str) -> None:
    client.send(1, 12, fetch_body(topic=topic, max_wait_ms=60_000))
    wait_until(lambda: waiting(broker) == 1)
    with broker.client() as admin:
        admin.call(20, 4, {"topic_names": [topic], "timeout_ms": 1000})
    code = client.receive()[1].responses[0].partitions[0].error_code
    assert code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.expects_log("records are removed")
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


def test_a_slow_reader_does_not_delay_other_clients(broker: LiveBroker, topic: str) -> None:
    with broker.client() as producer, broker.client(receive_buffer=4096) as slow:
        values = fill(producer, topic, 40, 100_000)
        body = fetch_body(topic=topic, max_bytes=50 << 20, partition_max_bytes=50 << 20)
        for _ in range(10):
            slow.send(1, 12, body)
        assert fill(producer, topic, 1)
        for _ in range(10):
            assert values_of(slow.receive()[1].responses[0].partitions[0].records)[:40] == values
