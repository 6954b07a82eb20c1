"""Quotas on a running broker, over the wire and in virtual time: answers say how long, and the connection is not read for that time."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.clock import VirtualClock
from tests.broker.live_broker import LiveBroker, batch, fetch_body, produce_body
from tests.broker.wire import WireClient, wait_until
from tests.differential.quota_script import alter, describe


@pytest.fixture(name="clock")
def virtual_clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(name="broker")
def live_broker(tmp_path: Path, clock: VirtualClock) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path, clock=clock) as live:
        live.create_topic("orders", 1)
        yield live


def client_of(broker: LiveBroker, client_id: str | None) -> WireClient:
    return WireClient("127.0.0.1", broker.port, client_id)


def produced(client: WireClient, clock: VirtualClock, size: int, version: int = 9) -> Any:
    return client.call(0, version, produce_body(batch(b"." * size, timestamp=clock.wall_ms())))


def muted(broker: LiveBroker, client: WireClient) -> bool:
    port = client.socket.getsockname()[1]
    return broker.on_data_plane(
        lambda: any(each.muted for each in broker.node.processor.connections.values() if each.port == port)
    )


def set_quota(broker: LiveBroker, entity: dict[str, str | None], **values: float | None) -> None:
    with client_of(broker, "admin") as admin:
        assert alter(admin, entity, values) == [(0, None)]


def write_ten_batches(broker: LiveBroker, clock: VirtualClock) -> None:
    """Write ten batches of 2,000 bytes as a client without a quota."""
    with client_of(broker, "writer") as writer:
        for _ in range(10):
            produced(writer, clock, 2_000)


@pytest.mark.parametrize("version", [3, 9])
def test_a_producer_above_its_quota_is_told_and_not_read_for_that_time(
    broker: LiveBroker, clock: VirtualClock, version: int
) -> None:
    set_quota(broker, {"client-id": "loud"}, producer_byte_rate=1_000)
    with client_of(broker, "loud") as loud, client_of(broker, "quiet") as quiet:
        assert produced(loud, clock, 5_000, version).throttle_time_ms == 0
        told = produced(loud, clock, 10_000, version).throttle_time_ms
        assert 5_000 < told < 6_000  # 15,000 bytes and the headers at 1,000 a second, over ten windows
        loud.send(0, version, produce_body(batch(b"next", timestamp=clock.wall_ms())))
        assert produced(quiet, clock, 100_000).throttle_time_ms == 0
        assert muted(broker, loud)
        clock.advance(f"{told - 1}ms")
        assert muted(broker, loud)
        clock.advance("1ms")
        assert loud.receive()[1].responses[0].partition_responses[0].error_code == 0


def test_a_producer_whose_answer_waits_is_charged_for_its_bytes(broker: LiveBroker, clock: VirtualClock) -> None:
    # A batch that waited for a flush or for followers was charged when it was answered, and its bytes did not count any more by then: no quota
    # held a producer back with acks=all to a replicated topic.
    broker.create_topic("synced", flush_messages=1)
    set_quota(broker, {"client-id": "loud"}, producer_byte_rate=1_000)
    with client_of(broker, "loud") as loud:
        body = produce_body(batch(b"." * 20_000, timestamp=clock.wall_ms()), topic="synced")
        assert loud.call(0, 9, body).throttle_time_ms > 10_000


def test_a_producer_without_acknowledgements_is_held_back_too(broker: LiveBroker, clock: VirtualClock) -> None:
    set_quota(broker, {"client-id": None}, producer_byte_rate=1_000)
    with client_of(broker, "loud") as loud:
        loud.send(0, 9, produce_body(batch(b"." * 20_000, timestamp=clock.wall_ms()), acks=0))
        loud.send(3, 9, {"topics": None})
        wait_until(lambda: muted(broker, loud))
        clock.advance("60s")
        assert loud.receive()[1].topics


def test_a_consumer_above_its_quota_gets_an_empty_answer_and_the_records_later(
    broker: LiveBroker, clock: VirtualClock
) -> None:
    write_ten_batches(broker, clock)
    set_quota(broker, {"user": "ANONYMOUS"}, consumer_byte_rate=1_000)
    with client_of(broker, "reader") as reader:
        first = reader.call(1, 12, fetch_body(topic="orders", offset=0))
        records = first.responses[0].partitions[0].records
        assert first.throttle_time_ms == 0
        assert 2_000 < len(records) <= 10_000, "no answer is larger than what the quota allows in ten windows"
        second = reader.call(1, 12, fetch_body(topic="orders", offset=4))
        assert second.throttle_time_ms > 0
        assert second.responses == ()
        clock.advance(second.throttle_time_ms / 1_000 + 11)
        third = reader.call(1, 12, fetch_body(topic="orders", offset=4))
        assert third.throttle_time_ms == 0
        assert third.responses[0].partitions[0].records


def test_a_batch_larger_than_all_windows_reaches_a_consumer_that_then_waits(
    broker: LiveBroker, clock: VirtualClock
) -> None:
    with client_of(broker, "writer") as writer:
        for _ in range(3):
            produced(writer, clock, 50_000)
    set_quota(broker, {"user": "ANONYMOUS"}, consumer_byte_rate=1_000)
    with client_of(broker, "reader") as reader:
        for offset in range(3):
            answer = reader.call(1, 12, fetch_body(topic="orders", offset=offset))
            assert len(answer.responses[0].partitions[0].records) > 50_000
            assert 40_000 < answer.throttle_time_ms < 41_000, (
                "50,000 bytes use the quota of 50 s, and ten count as past"
            )
            with client_of(broker, "another") as another:
                early = another.call(1, 12, fetch_body(topic="orders", offset=offset))
            assert (early.throttle_time_ms > 0, early.responses) == (True, ()), "clients of a user share the quota"
            clock.advance(answer.throttle_time_ms / 1_000)


def test_an_empty_answer_of_the_quota_names_the_session_and_none_that_it_would_have_opened(
    broker: LiveBroker, clock: VirtualClock
) -> None:
    write_ten_batches(broker, clock)
    set_quota(broker, {"client-id": "reader"}, consumer_byte_rate=1_000)
    with client_of(broker, "reader") as reader:
        opened = reader.call(1, 12, fetch_body(topic="orders", session_id=0, session_epoch=0))
        assert opened.session_id > 0
        refused = reader.call(
            1, 12, fetch_body(topic="orders", offset=4, session_id=opened.session_id, session_epoch=1)
        )
        assert (refused.throttle_time_ms > 0, refused.responses, refused.session_id) == (True, (), opened.session_id)
        clock.advance(refused.throttle_time_ms / 1_000)
        another = reader.call(1, 12, fetch_body(topic="orders", offset=4, session_id=0, session_epoch=0))
        assert (another.throttle_time_ms > 0, another.responses, another.session_id) == (True, (), 0)


def test_a_quota_of_request_time_holds_for_every_request(broker: LiveBroker, clock: VirtualClock) -> None:
    set_quota(broker, {"client-id": "busy"}, request_percentage=1e-9)
    with client_of(broker, "busy") as busy:
        told = busy.call(3, 9, {"topics": None}).throttle_time_ms
        assert told == 1_000, "at most one window"
        assert muted(broker, busy)
        clock.advance("1s")
        assert busy.call(3, 9, {"topics": None}).throttle_time_ms == 1_000
    with client_of(broker, "other") as other:
        assert other.call(3, 9, {"topics": None}).throttle_time_ms == 0


def test_a_fetch_above_the_quota_of_request_time_has_its_records(broker: LiveBroker, clock: VirtualClock) -> None:
    """The time is spent already. A client whose fetches all take longer than the quota allows would never get a record."""
    write_ten_batches(broker, clock)
    set_quota(broker, {"client-id": "reader"}, request_percentage=0.000_001)
    with client_of(broker, "reader") as reader:
        for offset in range(3):
            answer = reader.call(1, 12, fetch_body(topic="orders", offset=offset))
            assert answer.throttle_time_ms == 1_000
            assert answer.responses[0].partitions[0].records
            clock.advance("1s")


def test_a_quota_that_is_removed_holds_no_longer(broker: LiveBroker, clock: VirtualClock) -> None:
    set_quota(broker, {"client-id": "loud"}, producer_byte_rate=1)
    set_quota(broker, {"client-id": "loud"}, producer_byte_rate=None)
    assert broker.node.charging is None
    with client_of(broker, "loud") as loud:
        assert produced(loud, clock, 50_000).throttle_time_ms == 0
        assert describe(loud) == (0, "", [])


def test_quotas_are_there_after_a_restart(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as live, client_of(live, "admin") as admin:
        alter(admin, {"user": "ann", "client-id": None}, {"producer_byte_rate": 7})
    with LiveBroker(tmp_path) as live, client_of(live, "admin") as admin:
        expected = [([("client-id", "<default>"), ("user", "ann")], [("producer_byte_rate", 7.0)])]
        assert describe(admin) == (0, "", expected)
        assert live.node.charging is not None


def test_connections_of_an_address_above_its_rate_are_closed(broker: LiveBroker, clock: VirtualClock) -> None:
    set_quota(broker, {"ip": "127.0.0.1"}, connection_creation_rate=1)
    admitted = 0
    clients = [socket.create_connection(("127.0.0.1", broker.port), 30) for _ in range(14)]
    wait_until(lambda: broker.on_data_plane(lambda: broker.node.processor._ids) >= 10)
    clock.advance("2s")
    for client in clients:
        client.settimeout(30)
        try:
            client.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
            admitted += bool(client.recv(4))
        except ConnectionError:
            pass
        client.close()
    assert admitted == 10


def test_connections_above_the_number_of_an_address_are_refused() -> None:
    config = {"max.connections.per.ip": 5, "max.connections.per.ip.overrides": "127.0.0.1:2, 10.0.0.1:7"}
    with Cluster(config=config) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as one, WireClient(host, int(port)) as two:
            assert one.call(18, 0, {}).error_code == two.call(18, 0, {}).error_code == 0
            with WireClient(host, int(port)) as three:
                assert three.closed_by_peer()


def test_accepting_pauses_above_the_rate_of_the_broker(tmp_path: Path) -> None:
    clock = VirtualClock()
    with LiveBroker(tmp_path, {"max.connection.creation.rate": 1}, clock) as live:
        clients = [client_of(live, "many") for _ in range(14)]
        wait_until(lambda: live.on_data_plane(lambda: live.node.processor._ids) >= 11)
        assert live.on_data_plane(lambda: live.node.processor._ids) == 11, "the eleventh makes it pause"
        clock.advance("60s")
        wait_until(lambda: live.on_data_plane(lambda: live.node.processor._ids) == 14)
        for client in clients:
            assert client.call(18, 0, {}).error_code == 0
            client.close()
