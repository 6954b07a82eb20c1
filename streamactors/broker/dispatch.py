"""From a frame to a handler: header, version, rights, and what becomes of errors.

Owner: the data plane. An unknown key or version, or a body that is not what its header says, closes the connection as
in Apache Kafka; only ApiVersions is answered in a version that every client can read, because that is how a client
finds out."""

from __future__ import annotations

import logging
from typing import Final

from streamactors.broker.api import LATER, NO_ANSWER, ApiError
from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.network.connection import Connection
from streamactors.broker.node import Node
from streamactors.broker.protocol.api_keys import API_VERSIONS, NAMES
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.header import RequestHeader, read_request_header
from streamactors.broker.request import Request, messages
from streamactors.broker.security import each

_log = logging.getLogger("streamactors.broker.request")

_VERSION_EVERYBODY_READS: Final = 0


class Dispatch:
    """Serves frames: what the processor calls."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._loaded = node.routes.loaded

    def __call__(self, connection: Connection, frame: memoryview) -> None:
        """Start serving one request, or close the connection."""
        try:
            header = read_request_header(frame)
        except MalformedMessage as error:
            connection.close_after_answers(f"not a Kafka request: {error}")
            return
        key, version, _, _, body = header
        api = self._loaded.get(key) or self._node.routes.get(key)
        if api is None:
            connection.close_after_answers(f"unknown API key {key} ({NAMES.get(key, 'no such API')})")
            return
        low, high = api.versions
        request = Request(self._node, connection, header, api, len(frame), connection.last_active_ms)
        if not low <= version <= high:
            self._refuse_version(request)
            return
        try:
            if api.decode is not None:
                request.message = api.decode(frame, body, version)
            else:
                request.message = messages().decode_request(key, version, frame, body)
        except MalformedMessage as error:
            connection.close_after_answers(f"bad {_name(request.header)} request: {error}")
            return
        connection.begin(request)
        try:
            if api.authorise is not each and (denied := api.authorise(request)):
                self._refuse(request, denied)
                return
            answer = api.handle(request)
        except (ApiError, BrokerError) as error:
            self._refuse(request, error.code, str(error))
            return
        except Exception:  # noqa: BLE001 - a bug of one handler is not the end of the broker
            _log.exception("%r failed", request)
            self._refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if answer is LATER:
            return
        if answer is NO_ANSWER:
            request.no_answer()
        else:
            request.answer_here(answer)

    def _refuse(self, request: Request, code: ErrorCode, message: str | None = None) -> None:
        if request.answered:
            return
        api = request.api
        try:
            if api.refuse is not None:
                answer = api.refuse(request, code)
            elif api.encode is None and has_field(request, "error_code"):
                answer = {"error_code": code}
                if message is not None and has_field(request, "error_message"):
                    answer["error_message"] = message
            else:
                request.connection.close(f"{_name(request.header)} failed with {code.name}")
                return
        except Exception:  # noqa: BLE001 - as above
            _log.exception("%r: refusing it with %s failed", request, code.name)
            request.connection.close(f"{_name(request.header)} failed")
            return
        request.answer(answer)

    def _refuse_version(self, request: Request) -> None:
        header = request.header
        if header.api_key != API_VERSIONS:
            low, high = request.api.versions
            request.connection.close_after_answers(f"{_name(header)} is served in versions {low} to {high}")
            return
        request.version = _VERSION_EVERYBODY_READS
        request.connection.begin(request)
        self._refuse(request, ErrorCode.UNSUPPORTED_VERSION)


def has_field(request: Request, name: str) -> bool:
    """Whether this version of the response has such a field at its top."""
    from streamactors.broker.protocol.schema import load_struct

    struct = load_struct(request.header.api_key, request.version, "response")
    return any(field.name == name for field in struct.fields)


def _name(header: RequestHeader) -> str:
    name = "".join(part.capitalize() for part in NAMES.get(header.api_key, "unknown").split("_"))
    return f"{name} v{header.api_version}"
