"""TCP and TLS connections and servers, over real sockets."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import time
from typing import Any

import pytest
import trustme

from streamactors import (
    AbruptTermination,
    ActorSystem,
    BuildError,
    ConnectionFailed,
    Flow,
    Keep,
    Sink,
    Source,
    Tcp,
    accepting,
)
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.dsl.dynamic.tcp import IncomingConnection
from streamactors.stages.network.tcp import AcceptedTcp, OutgoingTcp, _OutgoingLogic
from tests.refused_accepts import SAID, loop_of, out_of_files, refused_accepts


def run(source: Any) -> Any:
    return source.run_with(Sink.to_list()).result(20)


def whole(source: Any) -> bytes:
    return b"".join(run(source))


@pytest.fixture
def echo():
    """A server that sends everything back in capitals; its address."""
    binding = Tcp.bind_and_handle(Flow.map(bytes.upper)).result(10)
    yield binding.address
    binding.unbind().result(10)


# ── connections ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_bytes_go_there_and_come_back_in_order(echo):
    sent = [b"%d," % n for n in range(50_000)]
    back = whole(Source.from_iterable(sent).via(Tcp.outgoing_connection(*echo)))
    assert back == b"".join(sent)


def test_the_connection_is_materialized_with_its_two_ends(echo):
    flow = Tcp.outgoing_connection(*echo)
    connection, back = Source.single(b"x").via_mat(flow, Keep.right).to_mat(Sink.to_list(), Keep.both).run()
    assert connection.result(10).remote == echo
    assert connection.result(10).local[0] == "127.0.0.1"
    assert back.result(10) == [b"X"]


def test_a_connection_ends_with_its_server_though_upstream_never_ends():
    """Server says goodbye and closes -> all of it is emitted, upstream is cancelled, and the stream completes."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        flow = Tcp.outgoing_connection(*listener.getsockname())
        upstream, back = Source.never().watch_termination(Keep.right).via(flow).to_mat(Sink.to_list(), Keep.both).run()
        accepted, _ = listener.accept()
        with accepted:
            accepted.sendall(b"goodbye")
        assert back.result(20) == [b"goodbye"]
        upstream.result(20)


def test_a_server_listens_on_loopback_unless_told_otherwise(echo):
    assert echo[0] == "127.0.0.1"


def test_a_request_without_an_end_is_answered_before_the_end():
    """The server answers line by line; the client never ends its side and takes one answer."""
    answer = Flow.identity().lines(100).map(lambda line: f"hello {line}\n".encode())
    binding = Tcp.bind_and_handle(answer).result(10)
    request = Source.single(b"Anna\n").concat(Source.never()).via(Tcp.outgoing_connection(*binding.address))
    assert request.lines().run_with(Sink.head()).result(10) == "hello Anna"
    binding.unbind().result(10)


def test_a_server_may_end_after_its_answer_and_the_answer_arrives():
    """`take(1)` cancels what comes from the client, and its answer must still be sent."""
    binding = Tcp.bind_and_handle(Flow.take(1).map(lambda data: data * 100_000)).result(10)
    for _ in range(10):
        back = whole(Source.single(b"ab").concat(Source.never()).via(Tcp.outgoing_connection(*binding.address)))
        assert back == b"ab" * 100_000
    binding.unbind().result(10)


def test_each_client_has_a_connection_of_its_own(echo):
    flow = Tcp.outgoing_connection(*echo)
    futures = [Source.single(b"client %d" % n).via(flow).run_with(Sink.to_list()) for n in range(30)]
    assert [b"".join(future.result(20)) for future in futures] == [b"CLIENT %d" % n for n in range(30)]


def settled(count: Any) -> int:
    """Return `count()` when it has not changed for a while: nothing moves any more."""
    last, since = count(), time.monotonic()
    while time.monotonic() - since < 0.3:
        now = count()
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.01)
    return last


def test_a_client_that_has_nothing_to_say_hears_what_the_server_says():
    """Its input ends before it is connected."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        back = Source.from_iterable([]).via(Tcp.outgoing_connection(*listening.getsockname())).run_with(Sink.to_list())
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.recv(100) == b""
            accepted.sendall(b"hello")
        assert b"".join(back.result(20)) == b"hello"


def test_a_server_that_does_not_read_holds_up_the_client():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        pulled = [0]

        def count(block: bytes) -> bytes:
            pulled[0] += 1
            return block

        source = Source.repeat(bytes(65_536)).take(2_000).map(count)
        done = source.via(Tcp.outgoing_connection(*listening.getsockname())).run_with(Sink.ignore())
        accepted, _ = listening.accept()
        with accepted:
            stuck = settled(lambda: pulled[0])
            assert stuck < 1_000, "64 MB are more than the kernel's buffers and one chunk"
            total = 0
            while data := accepted.recv(1 << 20):
                total += len(data)
            assert total == 2_000 * 65_536
        done.result(10)


def test_a_client_that_does_not_read_is_not_read_from():
    """The sink asks for nothing more, so the kernel's buffers fill and the server's `send` would block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        queue = Source.never().via(Tcp.outgoing_connection(*listening.getsockname())).run_with(Sink.to_queue(1))
        accepted, _ = listening.accept()
        with accepted:
            accepted.setblocking(False)
            sent = [0]

            def send() -> int:
                try:
                    sent[0] += accepted.send(bytes(65_536))
                except BlockingIOError:
                    pass
                return sent[0]

            assert settled(send) < 64 << 20
        queue.cancel()


# ── ends and failures ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_port_without_a_server_is_named():
    port = free_port()
    flow = Tcp.outgoing_connection("127.0.0.1", port)
    connection, back = Source.single(b"x").via_mat(flow, Keep.right).to_mat(Sink.to_list(), Keep.both).run()
    for future in (connection, back):
        with pytest.raises(
            ConnectionFailed, match=f"no connection to 127.0.0.1:{port}: connection refused; is a server"
        ):
            future.result(10)


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        binding, done = Tcp.bind("127.0.0.1", port).to_mat(Sink.ignore(), Keep.both).run()
        for future in (binding, done):
            with pytest.raises(ConnectionFailed, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
                future.result(10)


def test_a_peer_that_resets_the_connection_fails_the_stream():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        flow = Tcp.outgoing_connection(host, port)
        connection, back = Source.never().via_mat(flow, Keep.right).to_mat(Sink.to_list(), Keep.both).run()
        connection.result(10)
        accepted, _ = listening.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        accepted.close()
        with pytest.raises(
            ConnectionFailed, match=f"the connection to 127.0.0.1:{port} broke: connection reset by peer"
        ):
            back.result(10)


@pytest.mark.expects_log("the connection from")
def test_clients_that_reset_at_once_do_not_end_the_server():
    # the server asked such a connection for its peer, which has no address any more, and the stream of all connections failed
    binding = Tcp.bind_and_handle(Flow.map(bytes.upper)).result(10)
    for _ in range(50):
        client = socket.create_connection(binding.address, 10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
    assert whole(Source.single(b"x").via(Tcp.outgoing_connection(*binding.address))) == b"X"
    binding.unbind().result(10)


def test_a_server_without_a_descriptor_left_says_so_and_goes_on(monkeypatch, caplog):
    # the source of connections failed, and the server was gone
    monkeypatch.setattr(accepting, "ACCEPT_AGAIN_S", 0.01)
    with ActorSystem("refused") as system:
        left = refused_accepts(monkeypatch, loop_of(system), out_of_files(), out_of_files(), OSError(errno.EPROTO, ""))
        binding = Tcp.bind_and_handle(Flow.map(bytes.upper), system=system).result(10)
        with socket.create_connection(binding.address, 10) as client:
            client.sendall(b"x")
            client.settimeout(10)
            assert client.recv(1) == b"X"
        binding.unbind().result(10)
    assert left == []
    assert [record.getMessage() for record in caplog.records if SAID in record.getMessage()] == [
        f"server on 127.0.0.1:{binding.address[1]}: {SAID} (ulimit -n)"
    ]  # the second one is within the same second


def test_a_connection_that_times_out_later_on_is_no_connection_that_was_never_there():
    # the error of a peer that has vanished said "within the connect_timeout; raise it"
    vanished = TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    logic = _OutgoingLogic(OutgoingTcp("example", 80))
    logic._connected = True
    assert str(logic.failed(vanished)) == "the connection to example:80 broke: connection timed out"
    logic._connected = False
    assert str(logic.failed(vanished)).startswith("no connection to example:80: connection timed out;")
    assert "within the connect_timeout" in str(logic.failed(TimeoutError()))


def test_a_connection_that_was_reset_still_knows_its_peer():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname(), 10)
        local = client.getsockname()
        accepted, peer = listening.accept()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        with accepted:
            with pytest.raises(ConnectionResetError):
                accepted.recv(1)
            connection = IncomingConnection(AcceptedTcp(accepted, peer, None, half_close=False))
            assert connection.remote == local
            assert connection.local == listening.getsockname()


def test_a_failure_upstream_resets_the_connection_so_that_the_peer_does_not_take_it_for_the_whole():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        source = Source.from_iterable([1, 0]).map(lambda x: b"%d" % (1 // x))
        back = source.via(Tcp.outgoing_connection(*listening.getsockname())).run_with(Sink.to_list())
        accepted, _ = listening.accept()
        with accepted, pytest.raises(ConnectionResetError):
            while accepted.recv(100):
                pass
        with pytest.raises(ZeroDivisionError):
            back.result(10)


def test_a_connection_ends_with_its_actor_system_and_the_peer_does_not_take_it_for_the_whole():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with ActorSystem("ends with its connections") as system:
            flow = Tcp.outgoing_connection(*listening.getsockname())
            done = Source.single(b"x").concat(Source.never()).via(flow).run_with(Sink.ignore(), system)
            accepted, _ = listening.accept()
            accepted.settimeout(10)
            assert accepted.recv(1) == b"x"
        with accepted, pytest.raises(ConnectionResetError):
            accepted.recv(1)
        assert isinstance(done.exception(10), AbruptTermination)


def test_a_connection_that_fails_touches_no_other(caplog):
    def strict(data: bytes) -> bytes:
        if data == b"bad":
            raise ValueError("bad data")
        return data

    binding = Tcp.bind_and_handle(Flow.map(strict)).result(10)
    flow = Tcp.outgoing_connection(*binding.address)
    with pytest.raises(ConnectionFailed, match="connection reset"):
        run(Source.single(b"bad").concat(Source.never()).via(flow))
    assert whole(Source.single(b"good").via(flow)) == b"good"
    assert any("failed: bad data" in record.getMessage() for record in caplog.records)
    binding.unbind().result(10)


@pytest.mark.expects_log("the connection from")
def test_what_has_a_wrong_type_is_named(echo):
    with pytest.raises(TypeError, match=r"tcp expects bytes, got str 'x'; encode it"):
        run(Source.single("x").via(Tcp.outgoing_connection(*echo)))
    for make, message in (
        (lambda: Tcp.outgoing_connection("localhost", 0), "port must be 1 to 65535, got 0"),
        (lambda: Tcp.bind("localhost", 70_000), "port must be 0 to 65535, got 70000"),
        (lambda: Tcp.bind(tls=True), "tls must be an ssl.SSLContext"),
    ):
        with pytest.raises(BuildError, match=message):
            make()


def test_unbind_ends_the_source_of_connections_and_leaves_those_that_were_accepted():
    source = Tcp.bind()
    binding, first = source.to_mat(Sink.head(), Keep.both).run()
    address = binding.result(10).address
    with socket.create_connection(address) as client:
        connection = first.result(10)  # head has cancelled the server
        binding.result(10).when_unbound.result(10)
        ended = connection.handle_with(Flow.map(bytes.upper))
        client.sendall(b"still here")
        assert client.recv(100) == b"STILL HERE"
        client.shutdown(socket.SHUT_WR)
        ended.result(10)
        with pytest.raises(BuildError, match="is in use by another run"):
            connection.handle_with(Flow.identity())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_connections_are_accepted_as_they_are_asked_for():
    binding, queue = Tcp.bind().to_mat(Sink.to_queue(1), Keep.both).run()
    clients = [socket.create_connection(binding.result(10).address) for _ in range(5)]
    seen = [queue.pull().result(10) for _ in range(5)]
    assert {c.remote for c in seen} == {c.getsockname() for c in clients}
    for connection in seen:
        connection.close()
    for client in clients:
        assert client.recv(1) == b""
        client.close()
    queue.cancel()


# ── TLS ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.mark.expects_log("the connection from")
def test_bytes_go_over_tls_and_the_certificate_is_checked(authority):
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    binding = Tcp.bind_and_handle(Flow.take_while(lambda data: b"end" not in data).map(bytes.upper), tls=server).result(
        10
    )
    host, port = binding.address
    flow = Tcp.outgoing_connection(host, port, tls=client, server_hostname="localhost")
    request = Source.single(b"secret" * 20_000).concat(Source.never())
    counted = request.via(flow).scan(0, lambda n, data: n + len(data)).filter(lambda n: n == 120_000)
    assert counted.run_with(Sink.head()).result(10) == 120_000
    assert whole(Source.single(b"end").via(flow)) == b""
    wrong = Tcp.outgoing_connection(host, port, tls=client, server_hostname="example.org")
    with pytest.raises(ConnectionFailed, match=r"TLS with 127.0.0.1:\d+ failed.*certificate verify failed"):
        run(Source.single(b"x").via(wrong))
    stranger = Tcp.outgoing_connection(host, port, tls=ssl.create_default_context(), server_hostname="localhost")
    with pytest.raises(ConnectionFailed, match="certificate verify failed"):
        run(Source.single(b"x").via(stranger))
    binding.unbind().result(10)


# ── what they leave behind ────────────────────────────────────────────────────────────────────────────────────────────
