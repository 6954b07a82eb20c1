"""Requests of clients that only the active controller can serve: sent there as they are, in an Envelope (KIP-590).

Owner: the data plane. The controller checks the rights of the client, whose principal and address are in the envelope. A request that no
active controller has answered is sent again, for as long as clients wait by default, because another controller may lead soon."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.membership.lifecycle import Lifecycle
from streamactors.broker.network.outgoing.channel import ChannelAnswer
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.header import response_header_is_flexible
from streamactors.broker.protocol.messages import decode_response
from streamactors.broker.protocol.primitives import INT32, skip_tagged_fields, uvarint

if TYPE_CHECKING:
    from streamactors.broker.requests.request import Request
    from streamactors.broker.runtime import Runtime

ENVELOPE: Final = (58, 0)
RETRY_MS: Final = 50.0
RETRY_WITHIN_MS: Final = 30_000.0


class Forwarding:
    """Forwards requests, and passes their answers on."""

    def __init__(self, node: Runtime, life: Lifecycle, retry_within_ms: float = RETRY_WITHIN_MS) -> None:
        self._retry_within_ms = retry_within_ms
        self._data_plane = node.data_plane
        self._now_ms = node.clock.now_ms
        self._life = life

    def forward(self, request: Request, frame: memoryview, whole: Callable[[Any], Any] | None = None) -> None:
        """Have the active controller answer a request. `frame` is the request without its size, or the part of it that may be forwarded. For
        a part `whole` makes the client's answer from the controller's decoded answer."""
        kind, _, name = request.principal.partition(":")
        login = request.connection.login
        data = bytes(frame)
        body = {
            "request_data": data,
            "request_principal": principal_data(kind, name, by_token=login is not None and login.by_token),
            "client_host_address": ipaddress.ip_address(request.connection.host.partition("%")[0]).packed,
        }

        give_up_ms = self._now_ms() + self._retry_within_ms

        def send() -> None:
            if not request.connection.closed:
                self._life.ask(ENVELOPE, body, answered)

        def answered(answer: ChannelAnswer) -> None:
            absent = answer.error is not None or answer.value.error_code == ErrorCode.NOT_CONTROLLER
            if absent and self._now_ms() < give_up_ms:
                self._data_plane.call_later(RETRY_MS, send)
                return
            if answer.error is not None:
                _refuse(request, data, ErrorCode.NOT_CONTROLLER, f"the controller cannot be reached: {answer.error}")
                return
            code = ErrorCode(answer.value.error_code)
            if code or answer.value.response_data is None:
                _refuse(request, data, code or ErrorCode.UNKNOWN_SERVER_ERROR, "the controller refuses the request")
                return
            response = bytes(answer.value.response_data)
            if whole is not None:
                request.answer(whole(_decoded(request, memoryview(response))))
                return
            request.answer_raw([INT32.pack(len(response)) + response])

        send()


def _decoded(request: Request, response: memoryview) -> Any:
    key, version = request.api_key, request.version
    flexible = response_header_is_flexible(key, version)
    return decode_response(key, version, response, skip_tagged_fields(response, 4) if flexible else 4)


def _refuse(request: Request, frame: bytes, code: ErrorCode, why: str) -> None:
    """Answer a request that the controller has not served. Its message is decoded only for that."""
    try:
        request.decode(memoryview(frame))
    except MalformedMessage as error:
        request.connection.close(f"bad {request.name} request: {error}")
        return
    request.refuse(code, why)


def principal_data(kind: str, name: str, *, by_token: bool = False) -> bytes:
    """Return a principal in the form that Apache Kafka's brokers exchange: version 0 of DefaultPrincipalData."""
    out = bytearray(b"\x00\x00")
    for word in (kind, name):
        encoded = word.encode()
        out += uvarint(len(encoded) + 1) + encoded
    out += bytes((by_token, 0))  # no tagged fields
    return bytes(out)
