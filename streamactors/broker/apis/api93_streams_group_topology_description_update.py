"""StreamsGroupTopologyDescriptionUpdate: a streams application describes its topology.

Versions: 0.   Authorised: anyone.   Errors: UNSUPPORTED_VERSION, always: this broker does not have streams.version 1, the streams groups of KIP-1071.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.apis.feature_off import OFF
from streamactors.broker.network.output import Part
from streamactors.broker.protocol.header import response_frame
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone

_ANSWER: Final = b"\x00\x00\x00\x00" + OFF.to_bytes(2, "big") + b"\x00\x00"
"""No throttling, the error, no message, no tagged fields. The schemas that this broker uses do not have the message."""


def _decode(_frame: memoryview, _position: int, _version: int) -> Any:
    """The content does not matter, and the library with the schemas does not have it."""
    return None


def handle(_: Request) -> Body:
    return {}


def _encode(_: Body, version: int, correlation_id: int) -> list[Part]:
    return [response_frame(93, version, correlation_id, _ANSWER)]


API: Final = Api(key=93, versions=(0, 0), authorise=anyone, handle=handle, decode=_decode, encode=_encode)
