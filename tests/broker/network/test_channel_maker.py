"""Connections to other nodes with TLS and logins: they succeed, name the reason when they fail, and log in again before a login expires."""

from __future__ import annotations

import logging
import queue
import re
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.cluster.cluster_credentials import make_certificates
from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.outgoing.channel import Channel
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer
from streamactors.broker.network.outgoing.channel_maker import ChannelMaker
from streamactors.broker.network.outgoing.links import LINKS
from streamactors.broker.protocol.header import request_frame
from streamactors.broker.security.client_login import ListenerCredentials
from streamactors.broker.security.oauth_tokens import NoToken
from streamactors.clock import Clock, VirtualClock
from tests.broker.live_broker import LiveBroker, batch
from tests.broker.wire import wait_until

pytestmark = pytest.mark.expects_log("has no effect")


WITHIN_S = 30
METADATA, FETCH = (3, 12), (1, 12)
MIB = 1 << 20
USERS = 'PlainLoginModule required user_node="p w" user_other="x";'


class Sender:
    """A dispatcher with one channel. `ask` returns the answers to requests that are sent at once."""

    def __init__(self, live: LiveBroker, door: ListenerCredentials | None, clock: Clock | None = None) -> None:
        self.dispatcher = Dispatcher("maker-test") if clock is None else Dispatcher("maker-test", clock)
        self.maker = ChannelMaker("INTERNAL", door)
        self.channel = self.another(live.port)

    def another(self, port: int, host: str = "127.0.0.1") -> Channel:
        return self.maker.channel(self.dispatcher, (host, port), "node-1", Buffers())

    def ask(self, api: tuple[int, int], body: dict[str, Any], times: int = 1) -> list[ChannelAnswer]:
        answers: queue.Queue[ChannelAnswer] = queue.Queue()

        def send() -> None:
            for _ in range(times):
                self.channel.request(*api, body, answers.put)

        self.dispatcher.execute(send)
        return [answers.get(timeout=WITHIN_S) for _ in range(times)]

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispatcher.execute(self.channel.close)
        self.dispatcher.stop()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def guarded(certificates: Path, protocol: str, **more: Any) -> dict[str, Any]:
    """Settings of a broker with one listener of this protocol."""
    return {
        "listeners": f"{protocol}://127.0.0.1:0",
        "ssl.keystore.location": str(certificates / "server.pem"),
        "message.max.bytes": 4 * MIB,
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": USERS,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def door(certificates: Path, protocol: str, password: str = "p w") -> ListenerCredentials:
    authority = str(certificates / "ca.pem") if protocol.endswith("SSL") else None
    return (
        ListenerCredentials(authority, "PLAIN", "node", password)
        if protocol.startswith("SASL")
        else ListenerCredentials(authority)
    )


@pytest.fixture(params=["SASL_PLAINTEXT", "SASL_SSL", "SSL"])
def live(request: pytest.FixtureRequest, tmp_path: Path, certificates: Path) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path, guarded(certificates, request.param)) as running:
        yield running


def test_requests_wait_for_tls_and_the_login_and_are_answered_in_order(live: LiveBroker, certificates: Path) -> None:
    with Sender(live, door(certificates, live.node.listeners[0].name)) as sender:
        answers = sender.ask(METADATA, {"topics": None}, times=20)
        assert [answer.error for answer in answers] == [None] * 20
        (connection,) = live.on_data_plane(lambda: list(live.node.processor.connections.values()))
        assert connection.principal == ("User:node" if connection.login is not None else "User:ANONYMOUS")


def test_an_answer_of_megabytes_comes_whole(live: LiveBroker, certificates: Path) -> None:
    name = live.node.listeners[0].name
    records = batch(bytes(3 * MIB + 17))
    create = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 4 * MIB}
    produced = {"name": "t", "partition_data": [{"index": 0, "records": records}]}
    with Sender(live, door(certificates, name)) as sender:
        sender.ask((19, 7), {"topics": [create], "timeout_ms": 30_000})
        sender.ask((0, 9), {"acks": -1, "timeout_ms": 30_000, "topic_data": [produced]})
        for answer in sender.ask(
            FETCH, {"max_bytes": 8 * MIB, "topics": [{"topic": "t", "partitions": [asked]}]}, times=3
        ):
            assert answer.error is None, answer.error
            assert len(answer.value.responses[0].partitions[0].records) == len(records)


@pytest.mark.parametrize(
    ("protocol", "entering", "reason"),
    [
        ("SASL_SSL", "wrong password", "the login fails: .*Invalid username or password"),
        ("SASL_SSL", "unknown authority", "its certificate is refused: .*issuer"),
        ("SSL", "no TLS", "closed the connection|reset by peer"),
        ("PLAINTEXT", "TLS", "no TLS handshake"),
    ],
)
def test_a_node_that_is_not_let_in_is_told_why_and_logs_it_once(
    tmp_path: Path, certificates: Path, caplog: pytest.LogCaptureFixture, protocol: str, entering: str, reason: str
) -> None:
    entrance = {
        "wrong password": door(certificates, protocol, "no"),
        "unknown authority": ListenerCredentials(str(make_certificates(tmp_path / "other") / "ca.pem")),
        "no TLS": None,
        "TLS": ListenerCredentials(str(certificates / "ca.pem")),
    }[entering]
    with LiveBroker(tmp_path / "data", guarded(certificates, protocol)) as live, Sender(live, entrance) as sender:
        with caplog.at_level(logging.WARNING, "streamactors.broker.network"):
            answers = [sender.ask(METADATA, {"topics": None})[0] for _ in range(3)]
        for answer in answers:
            assert answer.error is not None
            assert re.search(reason, str(answer.error)), str(answer.error)
    told = [each for each in caplog.messages if "refuses this node" in each]
    assert len(told) == (0 if entrance is None else 1), told


def test_a_login_that_ends_is_renewed_between_two_requests(tmp_path: Path, certificates: Path) -> None:
    """Apache Kafka's brokers end a connection whose login has lasted connections.max.reauth.ms when the next request comes."""
    clock = VirtualClock()
    settings = guarded(certificates, "SASL_PLAINTEXT", connections_max_reauth_ms=100_000)
    with LiveBroker(tmp_path, settings) as live, Sender(live, door(certificates, "SASL_PLAINTEXT"), clock) as sender:
        seen = []
        for advanced_ms in (0, 84_000, 2_000):
            clock.advance(advanced_ms / 1_000)
            (answer,) = sender.ask(METADATA, {"topics": None})
            assert answer.error is None
            seen.append(live.on_data_plane(lambda: max(live.node.processor.connections)))
        assert seen[0] == seen[1]
        assert seen[2] != seen[1]


def test_without_a_token_no_connection_is_opened(tmp_path: Path, certificates: Path) -> None:
    def fail() -> None:
        raise NoToken("no token from here")

    entrance = door(certificates, "SASL_PLAINTEXT")._replace(prepare=fail)
    with LiveBroker(tmp_path, guarded(certificates, "SASL_PLAINTEXT")) as live, Sender(live, entrance) as sender:
        for _ in range(2):
            (answer,) = sender.ask(METADATA, {"topics": None})
            assert str(answer.error).endswith("no token from here")
        assert not live.on_data_plane(lambda: dict(live.node.processor.connections))


def test_a_connection_that_is_never_idle_logs_in_again_too(tmp_path: Path, certificates: Path) -> None:
    """Requests that come while others wait for their answers are held back when the login is old, and are sent after the next login."""
    clock = VirtualClock()
    settings = guarded(certificates, "SASL_PLAINTEXT", connections_max_reauth_ms=100_000)
    with LiveBroker(tmp_path, settings) as live, Sender(live, door(certificates, "SASL_PLAINTEXT"), clock) as sender:
        answers: queue.Queue[ChannelAnswer] = queue.Queue()
        enough = threading.Event()
        # The clock moves by 86 s while the broker, which has a clock of its own, is about to answer.
        patient_ms = 200_000.0

        def ask() -> None:
            sender.channel.request(*METADATA, {"topics": None}, again, patient_ms)

        def again(answer: ChannelAnswer) -> None:
            answers.put(answer)
            if not enough.is_set():
                ask()

        def begin() -> None:
            for _ in range(4):
                ask()

        def newest_connection_after_an_answer() -> int:
            assert answers.get(timeout=WITHIN_S).error is None
            return live.on_data_plane(lambda: max(live.node.processor.connections, default=0))

        sender.dispatcher.execute(begin)
        try:
            first = max(newest_connection_after_an_answer() for _ in range(10))
            clock.advance("86s")
            # requests go on until the next login: this thread may be far behind the answers
            wait_until(lambda: newest_connection_after_an_answer() > first, "a connection with a new login")
        finally:
            enough.set()
        wait_until(lambda: not sender.channel.in_flight)


def test_a_login_over_a_cut_link_is_held_back(tmp_path: Path, certificates: Path) -> None:
    clock = VirtualClock()
    with (
        LiveBroker(tmp_path, guarded(certificates, "SASL_PLAINTEXT")) as live,
        Sender(live, door(certificates, "SASL_PLAINTEXT"), clock) as sender,
    ):
        answers: queue.Queue[ChannelAnswer] = queue.Queue()

        def send_and_cut() -> None:
            sender.channel.request(*METADATA, {"topics": None}, answers.put)
            LINKS.disturb([("127.0.0.1", live.port)], {})

        try:
            sender.dispatcher.execute(send_and_cut)
            wait_until(lambda: bool(live.node.processor.connections))  # the network below the requests is whole
            clock.advance("29s")
            assert answers.empty()
            clock.advance("2s")
            assert "did not answer" in str(answers.get(timeout=WITHIN_S).error)
            logins = live.on_data_plane(lambda: [each.principal for each in live.node.processor.connections.values()])
            assert "User:node" not in logins
        finally:
            LINKS.disturb([], {})


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_request_to_a_host_name_that_cannot_be_resolved_fails(tmp_path: Path, host: str) -> None:
    # Another node chooses the name. Python raises UnicodeError for some names: the request was never answered, and the replica stood still.
    with LiveBroker(tmp_path) as live, Sender(live, None) as sender:
        sender.channel = sender.another(9092, host)
        (answer,) = sender.ask(METADATA, {"topics": None})
        assert "the host name cannot be resolved" in str(answer.error)


def test_an_answer_behind_another_one_in_one_record_of_tls_is_read_at_once(certificates: Path) -> None:
    # OpenSSL decrypts a whole record -> the first answer takes its part -> the socket is empty: no event tells of the second answer
    first, second = (struct.pack(">ii", 4 + size, number) + bytes(size) for number, size in ((1, 200_000), (2, 10)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem")

    def serve() -> None:
        connection, _ = listening.accept()
        with context.wrap_socket(connection, server_side=True) as encrypted:
            waiting = 2 * len(request_frame(*METADATA, 1, "node-1", b"body"))
            while waiting > 0:
                waiting -= len(encrypted.recv(waiting))
            encrypted.sendall(first + second)
            done.wait(WITHIN_S)

    done = threading.Event()
    answers: queue.Queue[Any] = queue.Queue()
    dispatcher = Dispatcher("one-record")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        channel = ChannelMaker("INTERNAL", ListenerCredentials(str(certificates / "ca.pem"))).channel(
            dispatcher, ("127.0.0.1", listening.getsockname()[1]), "node-1", Buffers(), asks_versions=False
        )

        def send() -> None:
            for _ in range(2):
                channel.send(*METADATA, b"body", lambda frame: answers.put(len(frame)))

        dispatcher.execute(send)
        try:
            assert [answers.get(timeout=WITHIN_S) for _ in range(2)] == [len(first) - 4, len(second) - 4]
        finally:
            done.set()
            dispatcher.execute(channel.close)
            dispatcher.stop()
            thread.join(WITHIN_S)
