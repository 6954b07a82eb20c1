"""A request on its way through the broker.

Owner: the data plane. A request is in its connection's queue from the time it is read until its answer is sent. Answers are sent
in the order of the requests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec

from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.network.connection import Mute
from streamactors.broker.protocol.api_keys import NAMES
from streamactors.broker.protocol.header import RequestHeader, response_frame
from streamactors.broker.quotas.mutations import MutationQuota, Spend, spend_freely
from streamactors.broker.security.rights import Operation, ResourceType
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.broker.network.connection import ServerConnection
    from streamactors.broker.network.listener import Listener
    from streamactors.broker.network.output import Part
    from streamactors.broker.node import Node
    from streamactors.broker.requests.api import Api

P = ParamSpec("P")


@cache
def messages() -> ModuleType:
    """Return the general codec, which is imported on first use: Produce and Fetch do not need it."""
    return import_module("streamactors.broker.protocol.messages")


_log = logging.getLogger("streamactors.broker.requests.request")


class Request:
    """The argument of a handler. `message` is the decoded request. `forwarded`: another broker has the connection of the client."""

    forwarded = False
    __slots__ = (
        "_api",
        "_busy_ns",
        "_header",
        "answered",
        "connection",
        "correlation_id",
        "message",
        "mutations",
        "node",
        "parts",
        "received_at_ms",
        "received_bytes",
        "size",
        "version",
    )

    def __init__(
        self,
        node: Node,
        connection: ServerConnection,
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
        self._api = api
        self.message: Any = None
        self.mutations: MutationQuota | None = None  # of a request that changes topics
        self.size = size
        self.received_bytes = size  # what a quota charges: `size` is 0 once the bytes are freed
        self.received_at_ms = received_at_ms
        self.answered = False
        self.parts: list[Part] | None = None

    def decode(self, frame: memoryview) -> None:
        """Set the message from the whole request without its size. Raises MalformedMessage."""
        key, version, _, _, body = self._header
        decode = self._api.decode
        if decode is not None:
            self.message = decode(frame, body, version)
        else:
            self.message = messages().decode_request(key, version, frame, body)

    @property
    def header(self) -> RequestHeader:
        """The header of the request."""
        return RequestHeader._make(self._header)

    @property
    def api_key(self) -> int:
        """The key of the API."""
        return self._header[0]

    @property
    def charged(self) -> bool:
        """Whether the quotas of the client count this request."""
        return self._api.charged

    @property
    def client_id(self) -> str:
        """The client id of the header; the empty string if there is none."""
        return self._header[3] or ""

    def began(self, at_ns: int) -> None:
        """The time of the request is measured, from now on until `paused` or its answer."""
        self._busy_ns = -at_ns

    def paused(self, at_ns: int) -> None:
        """The handler has returned, and the answer comes later."""
        if not self.answered:
            self._busy_ns += at_ns

    def busy_ns(self, at_ns: int) -> int:
        """Return for how long the request has occupied the data plane; 0 if the time was not measured."""
        busy_ns = getattr(self, "_busy_ns", 0)
        return busy_ns + at_ns if busy_ns < 0 else busy_ns

    @property
    def name(self) -> str:
        """The API's name and version, as in `Fetch v12`."""
        words = NAMES.get(self._header[0], "unknown").split("_")
        return f"{''.join(word.capitalize() for word in words)} v{self._header[1]}"

    @property
    def listener(self) -> Listener:
        """The listener of the connection."""
        return self.connection.listener

    @property
    def principal(self) -> str:
        """The principal of the connection, in Kafka's form."""
        return self.connection.principal

    def allowed(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the principal may do this."""
        connection = self.connection
        return self.node.authoriser.allowed(connection.principal, connection.host, operation, resource_type, name)

    def allowed_on_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the principal may do this on at least one resource of the type."""
        connection = self.connection
        return self.node.authoriser.allowed_on_any(connection.principal, connection.host, operation, resource_type)

    def spend(self, *, strict: bool) -> Spend:
        """Return the function by which the controller charges created and deleted partitions to the quota of this client."""
        charging = self.node.charging
        self.mutations = None if charging is None else charging.mutations(self, strict=strict)
        return spend_freely if self.mutations is None else self.mutations.spend

    def answer(self, answer: Any) -> None:
        """Answer with a dictionary, or the argument of the API's own encoder. Thread-safe; exactly once.

        The answer is dropped if the client has disconnected."""
        data_plane = self.node.data_plane
        if data_plane.in_thread():
            self.answer_here(answer)
            return
        try:
            data_plane.execute(partial(self.answer_here, answer))
        except DispatcherStopped:
            pass  # the broker has stopped, and the connection is closed

    def answer_with(self, body: Callable[P, Any]) -> Callable[P, None]:
        """Return a reply function, to be called later with a result. It answers with `body(result)`.

        If `body` returns None, another reply function answers. If `body` raises, the request is refused, and the caller of
        the reply function does not see the error."""

        def reply(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                answer = body(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - a bug of the handler must not leave the client waiting
                self.fail(error)
                return
            if answer is not None:
                self.answer(answer)

        return reply

    def fail(self, error: Exception) -> None:
        """Answer a request whose handler raised."""
        if isinstance(error, BrokerError):
            self.refuse(error.code, str(error))
        else:
            self._log_bug("%r failed", self, error=error)
            self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _log_bug(self, message: str, *values: object, error: Exception) -> None:
        """One traceback a second for the requests of an API: clients send a request that fails again at once."""
        log_limited(_log, logging.ERROR, (self.name, type(error)), message, *values, exc_info=error)

    def refuse(self, code: ErrorCode, message: str | None = None) -> None:
        """Answer with one error for everything asked. Closes the connection if the response has no field for it."""
        if self.answered:
            return
        refuse = self._api.refuse
        try:
            if refuse is not None:
                answer = refuse(self, code)
            elif self._api.encode is None and self.has_field("error_code"):
                answer = {"error_code": code}
                if message is not None and self.has_field("error_message"):
                    answer["error_message"] = message
            else:
                self.connection.close(f"{self.name} failed with {code.name}")
                return
        except Exception as error:  # noqa: BLE001 - a bug of the handler must not leave the client waiting
            self._log_bug("%r: refusing it with %s failed", self, code.name, error=error)
            self.connection.close(f"{self.name} failed")
            return
        self.answer(answer)

    def has_field(self, name: str) -> bool:
        """Whether this version of the response has a field of this name at its top."""
        from streamactors.broker.protocol.schema import load_struct

        struct = load_struct(self._api.key, self.version, "response")
        return any(field.name == name for field in struct.fields)

    def answer_raw(self, parts: list[Part]) -> None:
        """Answer with a whole frame that another broker has encoded. On the data plane's thread."""
        if not self.answered:
            self._finish(parts)

    def no_answer(self) -> None:
        """End the request without a response."""
        if self.node.charging is not None:
            self.node.charging.charged(self, None)
        self._finish([])

    def answer_here(self, answer: Any) -> None:
        """As `answer`, on the data plane's thread."""
        encode = self._api.encode
        try:
            if self.node.charging is not None:
                answer = self.node.charging.charged(self, answer)
            if encode is not None:
                parts = encode(answer, self.version, self.correlation_id)
            else:
                key = self._api.key
                body = messages().encode_response(key, self.version, answer)
                parts = [response_frame(key, self.version, self.correlation_id, body)]
        except Exception as error:  # noqa: BLE001 - a bug of the handler must not leave the client waiting
            self._log_bug("%r: its answer cannot be encoded", self, error=error)
            self.connection.close(f"the answer cannot be encoded: {error}")
            return
        self._finish(parts)

    def _finish(self, parts: list[Part]) -> None:
        if self.answered:
            _log.error("%r was answered twice; the second answer is dropped", self)
            return
        self.answered = True
        self.parts = parts
        times = self.node.request_times
        if times is not None:
            times.ended(self, self.node.clock.now_ms())
        self.connection.answered(self)
        if self._api.alone:
            self.connection.unmute(Mute.HANDLER)

    def __repr__(self) -> str:
        header = self.header
        return f"<Request key {header.api_key} v{header.api_version} #{header.correlation_id} of {self.connection}>"
