"""The network by itself: order, slow readers, files, services that fail, with a made-up service behind it."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.config.listeners import ListenerSpec
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.network import acceptor as acceptor_module
from streamactors.broker.network import processor as processor_module
from streamactors.broker.network.acceptor import Acceptor
from streamactors.broker.network.connection import Mute
from streamactors.broker.network.limits import Limits
from streamactors.broker.network.output import Output
from tests.broker.network.network_under_test import FakeRequest, Network, echo, framed
from tests.broker.wire import wait_until


def test_answers_leave_in_request_order_whatever_order_they_come_in(start: Callable[..., Network]) -> None:
    network = start()
    with network.client() as client:
        client.send_raw(b"".join(framed(b"%d" % number) for number in range(20)))
        wait_until(lambda: len(network.seen) == 20)
        for request in reversed(network.seen):
            network.on_loop(lambda request=request: echo(request))
        assert [client.read_frame() for _ in range(20)] == [b"%d" % number for number in range(20)]


def test_a_connection_has_the_principal_of_its_certificate_before_its_first_request(
    start: Callable[..., Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor_module, "principal_of", lambda sock, protection: "User:ann")
    network = start(echo)
    with network.client() as client:
        client.send_raw(framed(b"a"))
        assert client.read_frame() == b"a"
        assert [request.connection.principal for request in network.seen] == ["User:ann"]


@pytest.mark.expects_log("no rule matches CN=x")
@pytest.mark.parametrize(
    "error", [InvalidSetting("no rule matches CN=x", name="ssl.principal.mapping.rules"), ConnectionResetError("gone")]
)
def test_a_connection_without_a_principal_is_closed_and_forgotten(
    error: Exception, start: Callable[..., Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(sock: Any, protection: Any) -> str:
        raise error

    monkeypatch.setattr(processor_module, "principal_of", fail)
    network = start(echo)
    with network.client() as client, pytest.raises(ConnectionError):
        client.read_frame()
    assert not network.processor.connections


def test_the_answers_of_one_round_leave_together(
    start: Callable[..., Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sent one by one, each answer would wake the client, who sleeps again before the next one comes.
    events: list[str] = []

    def service(request: FakeRequest) -> None:
        events.append("served")
        echo(request)

    network = start(service)
    flush = Output.flush
    monkeypatch.setattr(Output, "flush", lambda self: events.append("sent") or flush(self))  # type: ignore[func-returns-value]
    clients = [network.client() for _ in range(5)]
    wait_until(lambda: len(network.processor.connections) == 5)
    held, free = threading.Event(), threading.Event()
    network.dispatcher.execute(lambda: held.set() or free.wait(30))  # type: ignore[func-returns-value]
    assert held.wait(30)
    for client in clients:
        client.send_raw(framed(b"a"))
    free.set()
    assert [client.read_frame() for client in clients] == [b"a"] * 5
    assert events == ["served"] * 5 + ["sent"] * 5
    for client in clients:
        client.close()


def test_a_connection_has_so_many_requests_in_service_and_no_more(start: Callable[..., Network]) -> None:
    network = start(max_in_flight=4)
    with network.client() as client:
        client.send_raw(b"".join(framed(b"%d" % number) for number in range(10)))
        wait_until(lambda: len(network.seen) == 4)
        network.on_loop(lambda: None)
        network.on_loop(lambda: None)
        assert len(network.seen) == 4
        network.on_loop(lambda: echo(network.seen[1]))
        network.on_loop(lambda: None)
        assert len(network.seen) == 4  # the first has not been answered, so none has left
        network.on_loop(lambda: echo(network.seen[0]))
        wait_until(lambda: len(network.seen) == 6)
        for number in range(2, 10):
            wait_until(lambda number=number: len(network.seen) > number)
            network.on_loop(lambda number=number: echo(network.seen[number]))
        assert [client.read_frame() for _ in range(10)] == [b"%d" % number for number in range(10)]


@pytest.mark.slow
def test_a_client_that_does_not_read_is_not_read_from(start: Callable[..., Network]) -> None:
    answer = framed(bytes(4 << 20))
    network = start(lambda request: request.answer(answer))
    with network.client(receive_buffer=4096) as client:
        client.send_raw(framed(b"x") * 50)
        wait_until(lambda: bool(network.seen))
        connection = next(iter(network.processor.connections.values()))
        wait_until(lambda: bool(connection.muted & Mute.OUTPUT))
        seen = len(network.seen)
        assert seen < 50
        for _ in range(50):
            assert len(client.read_frame()) == 4 << 20
        assert len(network.seen) == 50
        wait_until(lambda: not connection.muted)


def test_the_output_for_a_client_that_does_not_read_has_a_bound(start: Callable[..., Network]) -> None:
    answer, held = framed(bytes(1 << 20)), []
    bounds = Limits(max_in_flight=8, max_answer_bytes=len(answer))

    def service(request: FakeRequest) -> None:
        if len(held) < 8:
            held.append(request)
        else:
            request.answer(answer)

    network = start(service, max_in_flight=8, max_answer_bytes=len(answer))
    with network.client(receive_buffer=4096) as client:
        client.send_raw(framed(b"x") * 50)
        wait_until(lambda: len(held) == 8)
        network.on_loop(lambda: [request.answer(answer) for request in held])
        wait_until(lambda: network.processor._unread.level > 0)
        for _ in range(3):
            network.on_loop(lambda: None)  # what the answers have queued has run
        unread = network.processor._unread
        assert 2 * len(answer) < unread.highest <= unread.bound == bounds.max_output_bytes


class _Region:
    def __init__(self, file: Any, position: int, length: int) -> None:
        self._file = file
        self.fd = file.fileno()
        self.position = position
        self.length = length
        self.released = 0

    def release(self) -> None:
        self.released += 1


def test_regions_of_files_leave_between_bytes_and_are_released_once(
    start: Callable[..., Network], tmp_path: Path
) -> None:
    content = os.urandom(3 << 20)
    (tmp_path / "segment").write_bytes(content)
    with (tmp_path / "segment").open("rb") as file:
        regions = [_Region(file, 100, 2 << 20), _Region(file, 0, 10), _Region(file, 5, 0)]
        size = 4 + (2 << 20) + 10 + 2

        def service(request: FakeRequest) -> None:
            request.answer(struct.pack(">i", size), b"head", regions[0], b"-", regions[1], regions[2], b"+")

        network = start(service)
        with network.client() as client:
            client.send_raw(framed(b"x"))
            assert client.read_frame() == b"head" + content[100 : 100 + (2 << 20)] + b"-" + content[:10] + b"+"
        wait_until(lambda: [region.released for region in regions] == [1, 1, 1])


def test_regions_are_released_when_the_client_goes_away(start: Callable[..., Network], tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(bytes(64 << 20))
    with (tmp_path / "segment").open("rb") as file:
        regions = [_Region(file, 0, 64 << 20) for _ in range(3)]
        network = start(lambda request: request.answer(b"", regions[len(network.seen) - 1]))
        with network.client(receive_buffer=4096) as client:
            client.send_raw(framed(b"x") * 3)
            wait_until(lambda: bool(network.seen))
        wait_until(lambda: not network.processor.connections)
        for number, request in enumerate(network.seen):
            assert regions[number].released == 1
            assert request.parts is None


def test_a_file_that_got_shorter_ends_the_connection(
    start: Callable[..., Network], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "segment").write_bytes(bytes(10))
    with (tmp_path / "segment").open("rb") as file:
        region = _Region(file, 0, 1000)
        network = start(lambda request: request.answer(struct.pack(">i", 1000), region))
        with network.client() as client:
            client.send_raw(framed(b"x"))
            with pytest.raises(ConnectionError):
                client.read_frame()
        assert region.released == 1
        assert "990 bytes before the end of a response" in caplog.text


def test_a_handler_can_hold_back_the_next_request_of_its_connection(start: Callable[..., Network]) -> None:
    def service(request: FakeRequest) -> None:
        if request.payload == b"hold":
            request.connection.mute(Mute.HANDLER)
        else:
            echo(request)

    network = start(service)
    with network.client() as client:
        client.send_raw(framed(b"a") + framed(b"hold") + framed(b"b"))
        assert client.read_frame() == b"a"
        network.on_loop(lambda: None)
        assert len(network.seen) == 2
        network.on_loop(lambda: echo(network.seen[1]))
        network.on_loop(lambda: network.seen[1].connection.unmute(Mute.HANDLER))
        assert [client.read_frame(), client.read_frame()] == [b"hold", b"b"]


def test_a_service_that_raises_closes_only_its_connection(
    start: Callable[..., Network], caplog: pytest.LogCaptureFixture
) -> None:
    def service(request: FakeRequest) -> None:
        if request.payload == b"bang":
            raise RuntimeError("a bug")
        echo(request)

    network = start(service)
    with network.client() as client, network.client() as other:
        client.send_raw(framed(b"bang"))
        assert client.closed_by_peer()
        other.send_raw(framed(b"x"))
        assert other.read_frame() == b"x"
    assert "a bug" in caplog.text


def test_an_answer_for_a_disconnected_client_is_dropped(start: Callable[..., Network]) -> None:
    network = start()
    with network.client() as client:
        client.send_raw(framed(b"x"))
        wait_until(lambda: len(network.seen) == 1)
    wait_until(lambda: not network.processor.connections)
    network.on_loop(lambda: echo(network.seen[0]))
    assert network.seen[0].parts is None


def test_large_and_small_requests_in_turn(start: Callable[..., Network]) -> None:
    network = start(echo)
    payloads = [os.urandom(size) for size in (10, 300_000, 5, 1_000_000, 1_000_000, 1_000_001, 0, 70_000, 200_000)]
    with network.client() as client:
        received: list[bytes] = []
        reader = threading.Thread(target=lambda: received.extend(client.read_frame() for _ in range(3 * len(payloads))))
        reader.start()
        for _ in range(3):
            client.send_raw(b"".join(map(framed, payloads)))
        reader.join(30)
    assert received == payloads * 3


def test_a_port_in_use_is_one_line() -> None:
    dispatcher = Dispatcher("unused")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        acceptor = Acceptor(dispatcher, Limits(), lambda sock, listener: sock.close())
        with pytest.raises(
            BrokerStartError, match=rf"port {port} is in use; .* --listen \(streamactors cluster: --port\)"
        ):
            acceptor.bind(ListenerSpec("PLAINTEXT", "127.0.0.1", port, "127.0.0.1", port))
    dispatcher.stop()


@pytest.mark.parametrize("has_ipv6", [True, False])
def test_localhost_has_the_addresses_of_the_machine(has_ipv6: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor_module, "_has_ipv6_loopback", lambda: has_ipv6)
    wanted = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")][: 1 + has_ipv6]
    assert acceptor_module._addresses(ListenerSpec("PLAINTEXT", "LocalHost", 0, "localhost", 0)) == wanted


def test_localhost_listens_on_both_loopback_addresses() -> None:
    dispatcher = Dispatcher("unused")
    acceptor = Acceptor(dispatcher, Limits(), lambda sock, listener: sock.close())
    listener = acceptor.bind(ListenerSpec("PLAINTEXT", "localhost", 0, "localhost", 0))
    assert listener.port == listener.advertised_port > 0
    socket.create_connection(("127.0.0.1", listener.port)).close()
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pass  # no IPv6 here
    else:
        socket.create_connection(("::1", listener.port)).close()
    acceptor.stop()
    dispatcher.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listener.port))
