"""Envelope: a request of a client that another broker forwards to the controller (KIP-590).

Versions: 0.   Authorised: CLUSTER_ACTION; the request inside is authorised for its client.
Errors: PRINCIPAL_DESERIALIZATION_FAILURE, NOT_CONTROLLER, INVALID_REQUEST (a request that may not be forwarded, or bytes that are not a request).
Differs from Apache Kafka: nothing."""

from __future__ import annotations

import ipaddress
from typing import Any, Final, NamedTuple

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.network.output import Part
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.header import read_request_header
from streamactors.broker.protocol.primitives import read_string
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.inner_request import InnerRequest
from streamactors.broker.requests.request import Request, messages
from streamactors.broker.security.rights import cluster_action

_PRINCIPAL_START: Final = 2  # after the version


def handle(request: Request) -> Body | Later:
    message = request.message
    if not request.node.controller.active:
        return refuse(request, ErrorCode.NOT_CONTROLLER)
    try:
        principal, by_token = _principal(message.request_principal)
        client = str(ipaddress.ip_address(bytes(message.client_host_address)))
    except (MalformedMessage, ValueError, TypeError):
        return refuse(request, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    frame = memoryview(bytes(message.request_data))
    try:
        inner = _unpacked(request, frame, _Client(principal, by_token, client, request))
    except (MalformedMessage, Refusal):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    inner.serve()
    return LATER


class _Login(NamedTuple):
    by_token: bool


class _Client:
    """Stands in for the connection of the client whose request the envelope holds. The client has logged in at the forwarding broker."""

    def __init__(self, principal: str, by_token: bool, host: str, outer: Request) -> None:
        self.principal = principal
        self.login = _Login(by_token)
        self.host = host
        self.listener = outer.listener
        self.closed = False
        self.client_software = ""
        self.unfinished: set[Any] = set()
        self._outer = outer

    def throttle(self, ms: float) -> None:
        """Do nothing: the answer has the throttle time, and the forwarding broker throttles the connection."""

    def close(self, reason: str) -> None:
        """Answer the envelope: the request inside cannot be answered."""
        if not self.closed:
            self.closed = True
            self._outer.answer(refuse(self._outer, ErrorCode.UNKNOWN_SERVER_ERROR))

    def __str__(self) -> str:
        return self.host


class _Enveloped(InnerRequest):
    """The request inside; its answer goes into the answer to the envelope."""

    __slots__ = ("_outer",)

    def __init__(self, outer: Request, client: Any, header: Any, api: Api, size: int) -> None:
        super().__init__(outer.node, client, header, api, size, outer.received_at_ms)
        self._outer = outer

    def _not_controller(self) -> None:
        self._outer.answer(refuse(self._outer, ErrorCode.NOT_CONTROLLER))

    def _pass_on(self, parts: list[Part]) -> None:
        frame = b"".join(bytes(part) for part in parts if isinstance(part, bytes | bytearray | memoryview))
        self._outer.answer({"response_data": frame[4:], "error_code": ErrorCode.NONE})


def _unpacked(request: Request, frame: memoryview, client: _Client) -> _Enveloped:
    header = read_request_header(frame)
    key, version, _, _, body = header
    api = request.node.controller_routes.get(key)
    if api is None or not api.forwarded or not api.versions[0] <= version <= api.versions[1] or api.encode is not None:
        raise Refusal(ErrorCode.INVALID_REQUEST)
    inner = _Enveloped(request, client, header, api, len(frame))
    inner.message = messages().decode_request(key, version, frame, body)
    return inner


def _principal(data: bytes | None) -> tuple[str, bool]:
    """Return (text, whether the client has logged in by a token) of version 0 of DefaultPrincipalData. Raises MalformedMessage."""
    if not data:
        raise MalformedMessage("an envelope without a principal")
    view = memoryview(bytes(data))
    kind, at = read_string(view, _PRINCIPAL_START, True)
    name, at = read_string(view, at, True)
    if at >= len(view):
        raise MalformedMessage("a principal that ends too early")
    return f"{kind}:{name}", bool(view[at])


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"response_data": None, "error_code": code}


API: Final = Api(key=58, versions=(0, 0), authorise=cluster_action, handle=handle, refuse=refuse)
