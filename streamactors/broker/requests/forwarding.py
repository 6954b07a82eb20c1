"""Requests of clients that only the active controller can serve (KIP-590).

Owner: the data plane. A controller in another process gets them as they are, in an Envelope, and checks the rights of the client, whose principal and
address are in the envelope. The controller of this process gets the request itself. A request that no active controller has answered is sent again, for as
long as clients wait by default, because another controller may lead soon."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.broker.errors import ErrorCode
from streamactors.broker.membership.controller_channels import ControllerChannels
from streamactors.broker.membership.controller_wire import ForwardAnswer, Forwarded
from streamactors.broker.network.output import Part
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.header import response_header_is_flexible
from streamactors.broker.protocol.messages import decode_response
from streamactors.broker.protocol.primitives import INT32, skip_tagged_fields, uvarint
from streamactors.broker.requests.api import PartlyRefused
from streamactors.broker.requests.inner_request import InnerRequest
from streamactors.broker.requests.request import messages

if TYPE_CHECKING:
    from streamactors.broker.requests.api import Api
    from streamactors.broker.requests.request import Request
    from streamactors.broker.runtime import Runtime

RETRY_MS: Final = 50.0
RETRY_WITHIN_MS: Final = 30_000.0

Refused = Callable[[ForwardAnswer], object]


class Forwarding:
    """Forwards requests, and passes their answers on."""

    def __init__(self, node: Runtime, channels: ControllerChannels, retry_within_ms: float = RETRY_WITHIN_MS) -> None:
        self._retry_within_ms = retry_within_ms
        self._data_plane = node.data_plane
        self._now_ms = node.clock.now_ms
        self._channels = channels

    def takes(self, request: Request, api: Api, frame: memoryview) -> bool:
        """Have the active controller answer a request, or answer here what may not be forwarded. `frame` is the request without its size."""
        request.connection.begin(request)
        if api.here is not None and (denied := api.here(request)):
            request.refuse(denied)
        elif api.refused_here is None:
            self._forward(request, api, frame)
        else:
            self._forward_part(request, api, api.refused_here, frame)
        return True

    def _forward_part(
        self, request: Request, api: Api, refused_here: Callable[[Request], Any], frame: memoryview
    ) -> None:
        """Answer a request that this broker may not forward, or forward it, or the part that it may."""
        try:
            request.decode(frame)
        except MalformedMessage as error:
            request.connection.close_after_answers(f"bad {request.name} request: {error}")
            return
        answer = refused_here(request)
        if isinstance(answer, PartlyRefused):
            header = request.header
            rest = messages().encode_request(header.api_key, header.api_version, answer.rest)
            self._forward(request, api, memoryview(bytes(frame[: header.end]) + rest), answer)
        elif answer is not None:
            request.answer_here(answer)
        else:
            self._forward(request, api, frame)

    def _forward(self, request: Request, api: Api, frame: memoryview, partly: PartlyRefused | None = None) -> None:
        """Have the active controller answer a request, of which `frame` has only a part if it is `partly` refused."""
        kind, _, name = request.principal.partition(":")
        login = request.connection.login
        data = bytes(frame)
        forwarded = Forwarded(
            data,
            principal_data(kind, name, by_token=login is not None and login.by_token),
            ipaddress.ip_address(request.connection.host.partition("%")[0]).packed,
            lambda refused: self._serve(request, api, data, refused),
        )
        give_up_ms = self._now_ms() + self._retry_within_ms

        def send() -> None:
            if not request.connection.closed:
                self._channels.submit(forwarded, answered)

        def answered(answer: ForwardAnswer) -> None:
            if answer.error is ErrorCode.NOT_CONTROLLER and self._now_ms() < give_up_ms:
                self._data_plane.call_later(RETRY_MS, send)
            elif answer.response is None:
                why = "the controller refuses the request"
                if answer.message is not None:
                    why = f"the controller cannot be reached: {answer.message}"
                _refuse(request, data, answer.error, why)
            elif partly is not None:
                request.answer(partly.answer(_decoded(request, memoryview(answer.response))))
            else:
                _throttle(request, memoryview(answer.response))
                request.answer_raw([INT32.pack(len(answer.response)) + answer.response])

        send()

    def _serve(self, request: Request, api: Api, data: bytes, refused: Refused) -> None:
        """Serve a request here, because the controller of this process leads. On any thread."""

        def serve() -> None:
            if request.answered or request.connection.closed:
                return
            try:
                if request.message is None:
                    request.decode(memoryview(data))
            except MalformedMessage as error:
                request.connection.close(f"bad {request.name} request: {error}")
                return
            _ServedHere(request, api, refused).serve()

        try:
            self._data_plane.execute(serve)
        except DispatcherStopped:
            pass  # the broker has stopped, and the connection is closed


class _ServedHere(InnerRequest):
    """A request that the controller of this process answers. It is the whole request: the handler refuses what may not be forwarded."""

    __slots__ = ("_outer", "_refused")

    def __init__(self, outer: Request, api: Api, refused: Refused) -> None:
        super().__init__(outer.node, outer.connection, outer.header, api, outer.size, outer.received_at_ms)
        self.message = outer.message
        self._outer = outer
        self._refused = refused

    def _not_controller(self) -> None:
        self._refused(ForwardAnswer(ErrorCode.NOT_CONTROLLER))

    def _pass_on(self, parts: list[Part]) -> None:
        self._outer.answer_raw(parts)


def _decoded(request: Request, response: memoryview) -> Any:
    key, version = request.api_key, request.version
    flexible = response_header_is_flexible(key, version)
    return decode_response(key, version, response, skip_tagged_fields(response, 4) if flexible else 4)


def _throttle(request: Request, response: memoryview) -> None:
    """Do not read the client for as long as the controller has charged it, as Apache Kafka's brokers do: only this broker has its connection."""
    if request.has_field("throttle_time_ms"):
        ms = _decoded(request, response).throttle_time_ms
        if ms > 0:
            request.connection.throttle(ms)


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
