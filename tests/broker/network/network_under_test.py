"""A processor on a dispatcher of its own, with a made-up service behind it, and requests that it understands."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Any

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.config.listeners import ListenerSpec
from streamactors.broker.network.acceptor import Acceptor
from streamactors.broker.network.connection import ServerConnection
from streamactors.broker.network.limits import Limits
from streamactors.broker.network.processor import Processor
from streamactors.clock import VirtualClock
from tests.broker.wire import WireClient
from tests.loopback import OF_THIS_PROCESS


class FakeRequest:
    """As much of a request as a connection needs."""

    def __init__(self, connection: ServerConnection, payload: bytes) -> None:
        self.connection = connection
        self.payload = payload
        self.size = len(payload) if len(payload) >= 10 else 0  # a short one stands for a request of a broker
        self.answered = False
        self.parts: list[Any] | None = None

    def answer(self, *parts: Any) -> None:
        self.answered, self.parts = True, list(parts)
        self.connection.answered(self)  # type: ignore[arg-type]


class Network:
    """A processor on a dispatcher of its own; `service` decides what becomes of a request."""

    def __init__(self, limits: Limits, service: Callable[[FakeRequest], None]) -> None:
        self.clock = VirtualClock()
        self.dispatcher = Dispatcher("network-under-test", self.clock)
        self.seen: list[FakeRequest] = []
        self.service = service
        self.processor = Processor(self.dispatcher, limits, self._serve)
        self.acceptor = Acceptor(self.dispatcher, limits, self.processor.adopt)
        self.listener = self.acceptor.bind(ListenerSpec("PLAINTEXT", OF_THIS_PROCESS, 0, OF_THIS_PROCESS, 0))
        self.dispatcher.start()
        self.on_loop(self.acceptor.start)
        self.on_loop(self.processor.start)

    def _serve(self, connection: ServerConnection, frame: memoryview) -> None:
        request = FakeRequest(connection, bytes(frame))
        connection.begin(request)  # type: ignore[arg-type]
        self.seen.append(request)
        self.service(request)

    def on_loop(self, fn: Callable[[], Any]) -> Any:
        done = threading.Event()
        result: list[Any] = []

        def run() -> None:
            try:
                result.append(fn())
            finally:
                done.set()

        self.dispatcher.execute(run)
        assert done.wait(30)
        return result[0]

    def client(self, receive_buffer: int | None = None) -> WireClient:
        return WireClient(OF_THIS_PROCESS, self.listener.port, receive_buffer=receive_buffer)

    def close(self) -> None:
        self.on_loop(self.acceptor.stop)
        self.on_loop(self.processor.stop)
        assert self.dispatcher.stop()
        assert not self.processor.connections
        assert self.processor.in_flight_bytes == 0
        assert self.processor.pool.in_use == 0


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def echo(request: FakeRequest) -> None:
    request.answer(framed(request.payload))
