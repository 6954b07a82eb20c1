"""Passes a frame to its handler: header, version, body, rights, errors.

Owner: the data plane. An unknown key or version, or a malformed body, closes the connection as in Apache Kafka. An unknown version
of ApiVersions is answered in version 0, which every client can read: clients find the versions this way."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.connection import Connection, Mute
from streamactors.broker.node import Node
from streamactors.broker.protocol.api_keys import API_VERSIONS, NAMES
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.header import read_request_header
from streamactors.broker.requests.api import LATER, NO_ANSWER, Api, PartlyRefused, Routes
from streamactors.broker.requests.logins import serve_token
from streamactors.broker.requests.request import Request, messages
from streamactors.broker.security.rights import NOT_ALLOWED, each

_VERSION_OF_ALL_CLIENTS: Final = 0
_COUNTED_BYTES: Final = 64 << 10
"""A larger request between nodes is counted all the same, so that no client can fill the memory with them."""


class Dispatch:
    """Serves frames; the processor calls it."""

    def __init__(self, node: Node, routes: Routes) -> None:
        self._node = node
        self._routes = routes
        self._loaded = routes.loaded

    def __call__(self, connection: Connection, frame: memoryview) -> None:
        """Start serving one request, or close the connection."""
        login = connection.login
        if login is not None and login.raw_tokens:
            serve_token(self._node, connection, login, frame)
            return
        try:
            header = read_request_header(frame)
        except MalformedMessage as error:
            connection.close_after_answers(f"not a Kafka request: {error}")
            return
        key, version, _, _, _ = header
        if login is not None and (why := login.why_not(key)) is not None:
            name = NAMES.get(key, f"API key {key}")
            self._node.processor.foreigners.report(connection.host, connection.peer, f"closed at {name}: {why}")
            connection.close("")
            return
        if connection.listener.for_controllers:
            routes = self._node.controller_routes
            api = None if routes is None else routes.get(key)
        else:
            api = self._loaded.get(key) or self._routes.get(key)
        if api is None:
            connection.close_after_answers(f"unknown API key {key} ({NAMES.get(key, 'no such API')})")
            return
        low, high = api.versions
        size = len(frame)
        counted = 0 if size < _COUNTED_BYTES and api.between_nodes else size
        request = Request(self._node, connection, header, api, counted, connection.last_active_ms)
        if not low <= version <= high:
            self._refuse_version(request, api)
            return
        forwarding = self._node.forwarding
        if forwarding is not None and api.forwarded and not connection.listener.for_controllers:
            connection.begin(request)
            if api.here is not None and (denied := api.here(request)):
                request.refuse(denied)
            elif api.refused_here is None or not self._refused_here(request, api, frame):
                forwarding.forward(request, frame)
            return
        try:
            request.decode(frame)
        except MalformedMessage as error:
            connection.close_after_answers(f"bad {request.name} request: {error}")
            return
        connection.begin(request)
        charging = self._node.charging
        if charging is not None and charging.times_requests:
            request.began(perf_counter_ns())
        try:
            if api.authorise is not each and (denied := api.authorise(request)):
                request.refuse(denied, NOT_ALLOWED.get(denied))
                return
            answer = api.handle(request)
        except Exception as error:  # noqa: BLE001 - a bug of one handler must not stop the broker
            request.fail(error)
            return
        if answer is LATER:
            if api.alone and not request.answered:
                connection.mute(Mute.HANDLER)
            if charging is not None and charging.times_requests:
                request.paused(perf_counter_ns())
            return
        if answer is NO_ANSWER:
            request.no_answer()
        else:
            request.answer_here(answer)

    def _refused_here(self, request: Request, api: Api, frame: memoryview) -> bool:
        """Answer a request that this broker may not forward, or forward the part that it may. Return False if all of it may be forwarded."""
        assert api.refused_here is not None
        try:
            request.decode(frame)
        except MalformedMessage as error:
            request.connection.close_after_answers(f"bad {request.name} request: {error}")
            return True
        answer = api.refused_here(request)
        if isinstance(answer, PartlyRefused):
            assert self._node.forwarding is not None
            header = request.header
            rest = bytes(frame[: header.end]) + messages().encode_request(
                header.api_key, header.api_version, answer.rest
            )
            self._node.forwarding.forward(request, memoryview(rest), answer.answer)
        elif answer is not None:
            request.answer_here(answer)
        return answer is not None

    def _refuse_version(self, request: Request, api: Api) -> None:
        if api.key != API_VERSIONS:
            request.connection.close_after_answers(_not_served(request, api.versions))
            return
        request.version = _VERSION_OF_ALL_CLIENTS
        request.connection.begin(request)
        request.refuse(ErrorCode.UNSUPPORTED_VERSION)


def _not_served(request: Request, versions: tuple[int, int]) -> str:
    """Return why a request of this version is not answered, and what helps its client."""
    low, high = versions
    advice = "; use a newer client, or raise the version of Kafka that it is set to" if request.version < low else ""
    return f"it sent {request.name}, and this broker serves versions {low} to {high}{advice}"
