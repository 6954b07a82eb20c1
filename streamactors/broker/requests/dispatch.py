"""Passes a frame to its handler: header, version, body, rights, errors.

Owner: the data plane. An unknown key or version, or a malformed body, closes the connection as in Apache Kafka. An unknown version
of ApiVersions is answered in version 0, which every client can read: clients find the versions this way."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.connection import Mute, ServerConnection
from streamactors.broker.node import Node
from streamactors.broker.protocol.api_keys import API_VERSIONS, NAMES
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.header import read_request_header
from streamactors.broker.requests.api import LATER, NO_ANSWER, Api, Routes
from streamactors.broker.requests.logins import serve_token
from streamactors.broker.requests.request import Request
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

    def __call__(self, connection: ServerConnection, frame: memoryview) -> None:
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
            self._node.processor.non_kafka_clients.report(connection.host, connection.peer, f"closed at {name}: {why}")
            connection.close("")
            return
        if connection.listener.for_controllers:
            api = self._node.controller_routes.get(key)
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
        if (
            api.forwarded
            and not connection.listener.for_controllers
            and self._node.forwarding.takes(request, api, frame)
        ):
            return
        try:
            request.decode(frame)
        except MalformedMessage as error:
            connection.close_after_answers(f"bad {request.name} request: {error}")
            return
        connection.begin(request)
        charging = self._node.charging
        timed = self._node.request_times is not None or (charging is not None and charging.times_requests)
        if timed:
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
            if timed:
                request.paused(perf_counter_ns())
            return
        if answer is NO_ANSWER:
            request.no_answer()
        else:
            request.answer_here(answer)

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
