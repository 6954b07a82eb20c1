"""A request on its way through the broker.

Owner: the data plane. A request stands in its connection's queue from the moment it is read until its answer leaves,
and answers leave in the order of the requests."""

from __future__ import annotations

import logging
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from streamactors.actors.dispatcher import DispatcherStopped
from streamactors.broker.api import Api
from streamactors.broker.protocol.header import RequestHeader, response_frame
from streamactors.broker.security import Operation, ResourceType

if TYPE_CHECKING:
    from streamactors.broker.network.connection import Connection
    from streamactors.broker.network.listener import Listener
    from streamactors.broker.network.output import Part
    from streamactors.broker.node import Node


@cache
def messages() -> ModuleType:
    """The general codec, loaded on first use: ApiVersions, Produce and Fetch do without it."""
    return import_module("streamactors.broker.protocol.messages")


_log = logging.getLogger("streamactors.broker.request")


class Request:
    """What a handler gets. `message` is the decoded request; everything else says where it came from."""

    __slots__ = (
        "_header",
        "answered",
        "api",
        "connection",
        "correlation_id",
        "message",
        "node",
        "parts",
        "received_at_ms",
        "size",
        "throttle_ms",
        "version",
    )

    def __init__(
        self,
        node: Node,
        connection: Connection,
        header: tuple[int, int, int, str | None, int],
        api: Api,
        size: int,
        received_at_ms: float,
    ) -> None:
        self.node = node
        self.connection = connection
        self._header = header
        self.version = header[1]
        self.correlation_id = header[2]
        self.api = api
        self.message: Any = None
        self.size = size
        self.received_at_ms = received_at_ms
        self.throttle_ms = 0
        self.answered = False
        self.parts: list[Part] | None = None

    @property
    def header(self) -> RequestHeader:
        """What the request began with."""
        return RequestHeader._make(self._header)

    @property
    def listener(self) -> Listener:
        """The listener that the connection came in by."""
        return self.connection.listener

    @property
    def principal(self) -> str:
        """Who asks, as Kafka writes it."""
        return self.connection.principal

    def allowed(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether whoever asks may do this."""
        connection = self.connection
        return self.node.authoriser.allowed(connection.principal, connection.host, operation, resource_type, name)

    def answer(self, answer: Any) -> None:
        """Give the answer: a dictionary, or what the API's own encoder takes. Thread-safe; exactly once.

        If the client has gone it is dropped."""
        data_plane = self.node.data_plane
        if data_plane.in_thread():
            self.answer_here(answer)
            return
        try:
            data_plane.execute(partial(self.answer_here, answer))
        except DispatcherStopped:
            pass  # the broker has stopped, and the connection with it

    def no_answer(self) -> None:
        """End the request without a response."""
        self._finish([])

    def answer_here(self, answer: Any) -> None:
        """As `answer`, on the data plane's thread."""
        encode = self.api.encode
        try:
            if encode is not None:
                parts = encode(answer, self.version, self.correlation_id)
            else:
                key = self.api.key
                body = messages().encode_response(key, self.version, answer)
                parts = [response_frame(key, self.version, self.correlation_id, body)]
        except Exception as error:  # noqa: BLE001 - a bug of the handler must not leave the client waiting
            _log.exception("%r: its answer cannot be encoded", self)
            self.connection.close(f"the answer cannot be encoded: {error}")
            return
        self._finish(parts)

    def _finish(self, parts: list[Part]) -> None:
        if self.answered:
            _log.error("%r was answered twice; the second answer is dropped", self)
            return
        self.answered = True
        self.parts = parts
        self.connection.answered(self)

    def __repr__(self) -> str:
        header = self.header
        return f"<Request key {header.api_key} v{header.api_version} #{header.correlation_id} of {self.connection}>"
