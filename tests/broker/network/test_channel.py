"""The channel to another node: answers reach their callbacks, and every failure reaches all requests that wait."""

from __future__ import annotations

import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.outgoing.channel import Channel
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer, ChannelBroken, UnsupportedByPeer
from streamactors.broker.network.outgoing.links import LINKS
from streamactors.clock import VirtualClock
from tests.broker.live_broker import LiveBroker

METADATA = (3, 13)
NOT_SERVED = (63, 0)  # heartbeats of brokers, which only a controller serves
WITHIN_S = 20


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    made = Dispatcher("channel-test")
    yield made
    made.stop()


def ask(dispatcher: Dispatcher, channel: Channel, *api: int, times: int = 1) -> list[ChannelAnswer]:
    """Send the same request some times at once; return the answers in the order in which they came."""
    answers: queue.Queue[ChannelAnswer] = queue.Queue()

    def send() -> None:
        for _ in range(times):
            channel.request(api[0], api[1], {"topics": None} if api == METADATA else {}, answers.put)

    dispatcher.execute(send)
    return [answers.get(timeout=WITHIN_S) for _ in range(times)]


def test_requests_are_answered_in_order_in_the_versions_of_the_other_node(
    tmp_path: Path, dispatcher: Dispatcher
) -> None:
    with LiveBroker(tmp_path) as live:
        channel = Channel(dispatcher, ("localhost", live.port), "test", Buffers())
        answers = ask(dispatcher, channel, *METADATA, times=20)
        assert [answer.error for answer in answers] == [None] * 20
        assert answers[0].value.brokers[0].port == live.port
        (answer,) = ask(dispatcher, channel, METADATA[0], 99)
        assert answer.value.brokers[0].port == live.port  # in the highest version that the broker serves
        (answer,) = ask(dispatcher, channel, *NOT_SERVED)
        assert isinstance(answer.error, UnsupportedByPeer)
        (answer,) = ask(dispatcher, channel, *METADATA)
        assert answer.error is None  # the connection was kept
        dispatcher.execute(channel.close)


def test_a_closed_connection_fails_what_waits_and_the_next_request_opens_another(
    tmp_path: Path, dispatcher: Dispatcher
) -> None:
    with LiveBroker(tmp_path) as live:
        channel = Channel(dispatcher, ("127.0.0.1", live.port), "test", Buffers())
        ask(dispatcher, channel, *METADATA)
        for connection in list(live.node.processor.connections.values()):
            live.on_data_plane(lambda each=connection: each.close(""))
        answers = [ask(dispatcher, channel, *METADATA)[0] for _ in range(2)]
        assert answers[-1].error is None
        dispatcher.execute(channel.close)


class Server:
    """Accepts one connection and does with it what `serve` does."""

    def __init__(self, serve: Callable[[socket.socket], object]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = ("127.0.0.1", self._listener.getsockname()[1])
        self.ended = threading.Event()

        def run() -> None:
            with self._listener, self._listener.accept()[0] as connection:
                serve(connection)
                self.ended.wait(WITHIN_S)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._thread.join()


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (struct.pack(">i", 1 << 30), "1073741824 bytes; is it a Kafka node"),
        (struct.pack(">i", -5), "-5 bytes; is it a Kafka node"),
        (frame(struct.pack(">i", 77)), "answered request 77, which was not sent"),
        (frame(struct.pack(">i", 1) + b"\xff" * 3), "a malformed answer to metadata"),
    ],
)
def test_a_node_that_answers_nonsense_is_left(dispatcher: Dispatcher, content: bytes, expected: str) -> None:
    with Server(lambda connection: connection.sendall(content)) as server:
        channel = Channel(dispatcher, server.address, "test", Buffers(), asks_versions=False)
        for answer in ask(dispatcher, channel, *METADATA, times=2):
            assert isinstance(answer.error, ChannelBroken)
            assert expected in str(answer.error)


def test_a_node_that_is_not_there_and_a_name_that_does_not_exist_are_errors(dispatcher: Dispatcher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for host, expected in (("127.0.0.1", "refused"), ("no-such-host.invalid", "cannot be resolved")):
        channel = Channel(dispatcher, (host, port), "test", Buffers())
        (answer,) = ask(dispatcher, channel, *METADATA)
        assert expected in str(answer.error)


def test_a_silent_node_fails_every_request_when_the_first_has_waited_too_long() -> None:
    clock = VirtualClock()
    dispatcher = Dispatcher("channel-test", clock)
    received = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.recv(1)
        received.set()

    answers: queue.Queue[ChannelAnswer] = queue.Queue()
    with Server(serve) as server:
        channel = Channel(dispatcher, server.address, "test", Buffers(), asks_versions=False, timeout_ms=500)

        def send() -> None:
            for _ in range(2):
                channel.request(*METADATA, {"topics": None}, answers.put)

        dispatcher.execute(send)
        assert received.wait(WITHIN_S)
        clock.advance("501ms")
        failed: list[Any] = [answers.get(timeout=WITHIN_S).error for _ in range(2)]
        assert all("did not answer metadata in time" in str(error) for error in failed)
    dispatcher.stop()


def test_a_delayed_request_does_not_cross_a_link_that_was_cut_meanwhile() -> None:
    # slow(2, ms=300) -> a follower's request is held back -> partition({2}, {1, 3}) returned -> the request was sent all the same
    clock = VirtualClock()
    dispatcher = Dispatcher("channel-test", clock)
    first_key: queue.Queue[int] = queue.Queue()

    def serve(connection: socket.socket) -> None:
        _, key = struct.unpack(">ih", connection.recv(6, socket.MSG_WAITALL))
        first_key.put(key)

    def send_and_cut() -> None:
        LINKS.disturb([], {server.address: 500.0})
        channel.request(*METADATA, {"topics": None}, lambda _: None)
        LINKS.disturb([server.address], {})

    def heal_and_send() -> None:
        LINKS.disturb([], {})
        channel.request(12, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"}, lambda _: None)

    with Server(serve) as server:
        channel = Channel(dispatcher, server.address, "test", Buffers(), asks_versions=False)
        try:
            dispatcher.execute(send_and_cut)
            clock.settle()
            clock.advance("1s")
            dispatcher.execute(heal_and_send)
            assert first_key.get(timeout=WITHIN_S) == 12
        finally:
            LINKS.disturb([], {})
            dispatcher.execute(channel.close)
    dispatcher.stop()
