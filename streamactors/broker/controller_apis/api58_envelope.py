"""Envelope: a request of a client that another broker forwards to the controller (KIP-590).

Versions: 0.   Authorised: CLUSTER_ACTION; the request inside is authorised for its client.
Errors: PRINCIPAL_DESERIALIZATION_FAILURE, NOT_CONTROLLER, INVALID_REQUEST (a request that may not be forwarded, or bytes that are none).
Differs from Apache Kafka: nothing."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.network.output import Part
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.header import read_request_header
from streamactors.broker.protocol.primitives import read_string
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request, messages
from streamactors.broker.security.rights import NOT_ALLOWED, cluster_action, each

_PRINCIPAL_START: Final = 2  # after the version


def handle(request: Request) -> Body | Later:
    message = request.message
    if not request.node.is_active():
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
    return inner.serve()


class _Login(NamedTuple):
    by_token: bool


class _Client:
    """The client whose request the envelope holds, in the place of a connection. Its login is that at the broker which forwards."""

    def __init__(self, principal: str, by_token: bool, host: str, outer: Request) -> None:
        self.principal = principal
        self.login = _Login(by_token)
        self.host = host
        self.listener = outer.listener
        self.closed = False
        self.client_software = ""
        self.unfinished: set[Any] = set()
        self._outer = outer

    def close(self, reason: str) -> None:
        """Answer the envelope: the request inside cannot be answered."""
        if not self.closed:
            self.closed = True
            self._outer.answer(refuse(self._outer, ErrorCode.UNKNOWN_SERVER_ERROR))

    def __str__(self) -> str:
        return self.host


class _Enveloped(Request):
    """The request inside; its answer goes into the answer to the envelope."""

    forwarded = True
    __slots__ = ("_outer", "_whole_api")

    def __init__(self, outer: Request, client: Any, header: Any, api: Api, size: int) -> None:
        super().__init__(outer.node, client, header, api, size, outer.received_at_ms)
        self._outer = outer
        self._whole_api = api

    def serve(self) -> Later:
        """Check the client's rights and call the handler."""
        api = self._whole_api
        try:
            if api.authorise is not each and (denied := api.authorise(self)):
                self.refuse(denied, NOT_ALLOWED.get(denied))
                return LATER
            answer = api.handle(self)
        except Exception as error:  # noqa: BLE001 - a bug of one handler must not stop the controller
            self.fail(error)
            return LATER
        if answer is not LATER:
            self.answer_here(answer)
        return LATER

    def answer_here(self, answer: Any) -> None:
        """As `answer`. If this controller does not lead any more, the broker that forwards hears that it does not lead, and asks the next controller."""
        if not self.answered and _names(answer, ErrorCode.NOT_CONTROLLER):
            self.answered = True
            self._outer.answer(refuse(self._outer, ErrorCode.NOT_CONTROLLER))
            return
        super().answer_here(answer)

    def _finish(self, parts: list[Part]) -> None:
        if self.answered:
            return
        self.answered = True
        frame = b"".join(bytes(part) for part in parts if isinstance(part, bytes | bytearray | memoryview))
        self._outer.answer({"response_data": frame[4:], "error_code": ErrorCode.NONE})


def _names(answer: Any, code: ErrorCode) -> bool:
    """Whether an answer has this error, at its top or for one of the things that it is about."""
    if isinstance(answer, Mapping):
        return answer.get("error_code") == code or any(_names(each, code) for each in answer.values())
    return isinstance(answer, list | tuple) and any(_names(each, code) for each in answer)


def _unpacked(request: Request, frame: memoryview, client: _Client) -> _Enveloped:
    header = read_request_header(frame)
    key, version, _, _, body = header
    routes = request.node.controller_routes
    api = None if routes is None else routes.get(key)
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
