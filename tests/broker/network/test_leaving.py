"""Clients that go away while the broker does not read from them."""

from __future__ import annotations

import logging
import socket
import struct
from pathlib import Path

import pytest

from tests.broker.live_broker import LiveBroker, batch, fetch_body, produce_body
from tests.broker.wire import WireClient, wait_until

IN_FLIGHT = 8


def waiting(live: LiveBroker) -> int:
    return live.on_data_plane(lambda: live.node.fetch_purgatory.delayed)


def ask_as_much_as_one_may(client: WireClient) -> None:
    for _ in range(IN_FLIGHT):
        client.send(1, 12, fetch_body(max_wait_ms=2**31 - 1))


def test_a_disconnect_is_noticed_even_at_the_limit_of_requests_in_flight(tmp_path: Path) -> None:
    # a connection with so many requests in service is not read from, and so its end is not heard of either
    settings = {"connections.max.idle.ms": 6_000, "max.in.flight.requests": IN_FLIGHT}
    with LiveBroker(tmp_path, settings) as live:
        live.create_topic("orders")
        patient, leaving = live.client(), live.client()
        ask_as_much_as_one_may(patient)
        ask_as_much_as_one_may(leaving)
        wait_until(lambda: waiting(live) == 2 * IN_FLIGHT)
        leaving.close()
        wait_until(lambda: waiting(live) == IN_FLIGHT)
        with live.client() as producer:
            producer.call(0, 9, produce_body(batch(b"a")))
        for _ in range(IN_FLIGHT):
            assert patient.receive()[1].responses[0].partitions[0].records


def test_a_reset_at_the_limit_of_requests_in_flight_ends_the_connection_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # the dispatcher dropped the broken socket; the next answer then failed, and with it the coordinator that gave it
    with LiveBroker(tmp_path, {"max.in.flight.requests": IN_FLIGHT}) as live:
        live.create_topic("orders")
        leaving = live.client()
        ask_as_much_as_one_may(leaving)
        wait_until(lambda: waiting(live) == IN_FLIGHT)
        leaving.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        leaving.close()
        wait_until(lambda: waiting(live) == 0)
        with live.client() as producer:
            producer.call(0, 9, produce_body(batch(b"a")))
    broker = [each for each in caplog.records if each.name.startswith("streamactors.broker")]
    assert [each.getMessage() for each in broker if each.levelno >= logging.WARNING] == []
