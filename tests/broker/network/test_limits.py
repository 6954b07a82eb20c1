"""What senders may not do to the network: half requests, bytes that are no frames, too many connections, silence, memory."""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.network.connection import Mute
from streamactors.broker.network.limits import Limits
from streamactors.broker.network.other_protocols import SILENT_MS
from tests.broker.live_broker import LiveBroker
from tests.broker.network.network_under_test import Network, echo, framed
from tests.broker.wire import wait_until
from tests.refused_accepts import EITHER, refused_accepts


def test_bytes_in_service_are_bounded_over_all_connections(start: Callable[..., Network]) -> None:
    network = start(max_in_flight_bytes=1000)
    clients = [network.client() for _ in range(3)]
    for client in clients:
        client.send_raw(framed(bytes(600)) * 3)
    wait_until(lambda: network.processor.in_flight_bytes > 1000)
    served = 0
    while served < 9:
        # each connection may overshoot by the one request that it was served
        assert network.on_loop(lambda: network.processor.in_flight_bytes) <= 1000 + 3 * 600
        wait_until(lambda: any(not request.answered for request in network.seen))
        network.on_loop(lambda: echo(next(request for request in network.seen if not request.answered)))
        served += 1
    for client in clients:
        assert [len(client.read_frame()) for _ in range(3)] == [600] * 3
        client.close()


def test_bytes_that_a_waiting_request_has_freed_do_not_count_nor_does_a_request_without_bytes(
    start: Callable[..., Network],
) -> None:
    network = start(max_in_flight_bytes=1000)
    with network.client() as full, network.client() as waiting, network.client() as broker:
        full.send_raw(framed(bytes(1200)))
        wait_until(lambda: network.processor.in_flight_bytes > 1000)
        waiting.send_raw(framed(bytes(600)) * 2)
        wait_until(lambda: len(network.seen) == 2)
        for length in (9, 8):  # above the limit: both of a connection whose requests have no bytes, one of the other
            broker.send_raw(framed(bytes(length)))
            wait_until(lambda length=length: network.seen[-1].payload == bytes(length))  # type: ignore[misc]
        assert [len(request.payload) for request in network.seen] == [1200, 600, 9, 8]
        network.on_loop(lambda: network.seen[0].connection.freed(network.seen[0]))  # type: ignore[arg-type]
        wait_until(lambda: len(network.seen) == 5)  # not answered, but the next one of `waiting` has its place
        for request in network.seen:
            network.on_loop(lambda request=request: echo(request))  # type: ignore[misc]
        assert [len(full.read_frame()), len(waiting.read_frame()), len(waiting.read_frame())] == [1200, 600, 600]


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS hello on a plain listener"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP request"),
        (struct.pack(">i", -1), "a request of -1 bytes"),
        (struct.pack(">i", 2**31 - 1), "a request of 2147483647 bytes; socket.request.max.bytes is 104857600"),
    ],
)
def test_an_invalid_frame_closes_the_connection_with_one_line(
    start: Callable[..., Network], caplog: pytest.LogCaptureFixture, head: bytes, said: str
) -> None:
    network = start(echo)
    with network.client() as client, network.client() as other:
        client.send_raw(head)
        assert client.closed_by_peer()
        other.send_raw(framed(b"still served"))
        assert other.read_frame() == b"still served"
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(lines) == 1
        assert said in lines[0]
        assert "127.0.0.1:" in lines[0]


def test_a_client_of_another_protocol_that_comes_again_and_again_does_not_fill_the_log(
    start: Callable[..., Network], caplog: pytest.LogCaptureFixture
) -> None:
    # confluent-kafka with security.protocol=SSL connects twenty times a second
    network = start(echo)

    def comes(head: bytes) -> list[str]:
        caplog.clear()
        with network.client() as client:
            client.send_raw(head)
            assert client.closed_by_peer()
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    hello, get = b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1\r\n\r\n"
    assert [len(comes(hello)) for _ in range(4)] == [1, 0, 0, 0]
    assert len(comes(get)) == 1
    network.clock.advance(SILENT_MS / 1_000)
    (line,) = comes(hello)
    assert line.endswith("PLAINTEXT (3 more since the last line)")


def test_frames_before_a_bad_one_are_answered(start: Callable[..., Network]) -> None:
    network = start(echo)
    with network.client() as client:
        client.send_raw(framed(b"good") + struct.pack(">i", -7))
        assert client.read_frame() == b"good"
        assert client.closed_by_peer()
    assert [request.payload for request in network.seen] == [b"good"]


def test_a_partly_received_request_times_out(start: Callable[..., Network], caplog: pytest.LogCaptureFixture) -> None:
    network = start(echo, stalled_frame_ms=1000)
    with network.client() as client, network.client() as idle:
        client.send_raw(framed(b"0123456789")[:7])
        wait_until(lambda: network.processor.pool.in_use > 0)
        wait_until(lambda: len(network.processor.connections) == 2)
        network.clock.advance("2s")
        assert client.closed_by_peer()
        assert "a partly received request got no byte" in caplog.text
        idle.send_raw(framed(b"x"))
        assert idle.read_frame() == b"x"


def test_thousands_of_half_requests_cost_bounded_memory(start: Callable[..., Network]) -> None:
    network = start(echo, max_receive_bytes=200_000)
    clients = [network.client() for _ in range(80)]
    for client in clients:
        client.send_raw(struct.pack(">i", 50 << 20) + bytes(10_000))
    with network.client() as other:
        other.send_raw(framed(b"still served"))
        assert other.read_frame() == b"still served"
    assert network.processor.pool.in_use <= 2 * 200_000 + (16 << 10)
    for client in clients:
        client.close()
    wait_until(lambda: network.on_loop(lambda: len(network.processor.connections)) == 0)
    assert network.processor.pool.in_use == 0


def test_a_connection_that_waits_for_memory_continues_when_some_is_free(start: Callable[..., Network]) -> None:
    network = start(echo, max_receive_bytes=200_000)
    hog, client = network.client(), network.client()
    hog.send_raw(struct.pack(">i", 180_000) + bytes(150_000))
    wait_until(lambda: network.processor.pool.in_use > 100_000)
    client.send_raw(struct.pack(">i", 150_000) + bytes(150_000))
    wait_until(lambda: any(each.muted & Mute.MEMORY for each in network.processor.connections.values()))
    hog.send_raw(bytes(30_000))
    assert len(hog.read_frame()) == 180_000
    assert len(client.read_frame()) == 150_000
    hog.close()
    client.close()


def test_idle_connections_are_closed_without_a_word(
    start: Callable[..., Network], caplog: pytest.LogCaptureFixture
) -> None:
    network = start(max_idle_ms=5000)
    with network.client() as idle, network.client() as waiting:
        waiting.send_raw(framed(b"long poll"))
        wait_until(lambda: len(network.seen) == 1 and len(network.processor.connections) == 2)
        network.clock.advance("10s")
        assert idle.closed_by_peer()
        network.on_loop(lambda: echo(network.seen[0]))
        assert waiting.read_frame() == b"long poll"
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@EITHER
def test_a_listener_that_cannot_accept_says_so_and_pauses(
    start: Callable[..., Network],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Callable[[], OSError],
    said: str,
) -> None:
    # Only for want of descriptors did it pause. With another error it tried again at once, for as long as the error lasted.
    network = start(echo)
    left = refused_accepts(monkeypatch, lambda thread: thread.name == network.dispatcher.name, error(), error())
    with network.client() as client:
        client.send_raw(framed(b"x"))
        wait_until(lambda: len(left) == 1)
        network.clock.advance("499ms")
        assert len(left) == 1
        network.clock.advance("1ms")
        wait_until(lambda: not left)
        network.clock.advance("500ms")
        assert client.read_frame() == b"x"
    assert caplog.text.count(said) == 1


def test_a_connection_that_ends_before_it_is_accepted_delays_no_other(
    start: Callable[..., Network], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    network = start(echo)
    gone = [OSError(number, os.strerror(number)) for number in (errno.ECONNABORTED, errno.EPROTO, errno.EHOSTUNREACH)]
    left = refused_accepts(monkeypatch, lambda thread: thread.name == network.dispatcher.name, *gone)
    with network.client() as client:  # the virtual clock does not move: without a pause
        client.send_raw(framed(b"x"))
        assert client.read_frame() == b"x"
    assert not left
    assert not caplog.records


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip"])
def test_too_many_connections_are_refused(
    start: Callable[..., Network], caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    network = start(echo, **{limit: 1})
    with network.client() as first:
        wait_until(lambda: len(network.processor.connections) == 1)
        with network.client() as second:
            assert second.closed_by_peer()
        assert "refused" in caplog.text
        first.send_raw(framed(b"x"))
        assert first.read_frame() == b"x"
    wait_until(lambda: not network.processor.connections)
    with network.client() as third:
        third.send_raw(framed(b"y"))
        assert third.read_frame() == b"y"


def test_a_negative_idle_time_closes_no_connection_and_leaves_the_broker_idle(start: Callable[..., Network]) -> None:
    # connections.max.idle.ms=-1: every connection was closed at once, and the sweep ran again without a pause.
    limits = Limits.of(BrokerConfig.of({"connections.max.idle.ms": -1}))
    network = start(echo, max_idle_ms=limits.max_idle_ms)

    def pause_ms() -> float:
        sweep = network.processor._sweep
        assert sweep is not None
        return sweep.deadline_ms - network.clock.now_ms()

    with network.client() as client, network.client() as half:
        half.send_raw(framed(b"0123456789")[:7])
        wait_until(lambda: network.processor.pool.in_use > 0 and len(network.processor.connections) == 2)
        assert network.on_loop(pause_ms) >= 10_000
        network.clock.advance("2h")  # Kafka's default is ten minutes; every sweep of this time runs
        assert half.closed_by_peer(), "a request that does not go on is another matter"
        client.send_raw(framed(b"still here"))
        assert client.read_frame() == b"still here"
        assert network.on_loop(pause_ms) >= 10_000


def test_an_idle_time_of_zero_does_not_make_the_broker_spin(start: Callable[..., Network]) -> None:
    network = start(echo, max_idle_ms=0)
    sweep = network.processor._sweep
    assert sweep is not None
    assert sweep.deadline_ms - network.clock.now_ms() >= 100


def test_a_connection_to_a_broker_that_stops_is_closed_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The nodes of a cluster ask each other until the last one has stopped; each printed a warning."""
    with LiveBroker(tmp_path) as live:
        processor, listener = live.node.processor, live.node.listeners[0]
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with caplog.at_level(logging.INFO, "streamactors.broker"):
            processor.adopt(accepted, listener)
        assert client.recv(1) == b""
    assert [each for each in caplog.messages if "stopping" in each] == []


def test_what_tls_has_read_ahead_is_served_after_the_wait_for_the_byte_limit(start: Callable[..., Network]) -> None:
    # OpenSSL takes whole records from the socket. A request of which it had taken the last byte was never read when the connection had waited for the
    # byte limit: no event of the socket followed.
    network = start(max_in_flight_bytes=1000)
    with network.client() as full, network.client() as waiting:
        full.send_raw(framed(bytes(1200)))
        wait_until(lambda: network.processor.in_flight_bytes > 1000)
        waiting.send_raw(framed(bytes(600)))
        wait_until(lambda: len(network.seen) == 2)
        connection = network.seen[1].connection
        held = [framed(bytes(20))]
        of_the_socket = connection.receive_into

        def receive_into(view: memoryview) -> int:
            if not held:
                return of_the_socket(view)
            content = held.pop()
            view[: len(content)] = content
            return len(content)

        def read_ahead() -> None:
            connection.receive_into, connection.holds_input = receive_into, lambda: bool(held)

        network.on_loop(read_ahead)
        for request in network.seen[:2]:
            network.on_loop(lambda request=request: echo(request))  # type: ignore[misc]
        wait_until(lambda: len(network.seen) == 3)
        network.on_loop(lambda: echo(network.seen[2]))
        assert [len(waiting.read_frame()) for _ in range(2)] == [600, 20]
        assert len(full.read_frame()) == 1200
