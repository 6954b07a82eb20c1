"""Encoding and decoding of any message of the Kafka protocol, by API key and version.

A decoded message is an object with Kafka's field names in snake case; a message to encode is a dictionary with the same names.
Times are ints in milliseconds with the suffix `_ms`, error codes are ints, unset UUIDs are None. Clients and tests can use this
codec also for Produce and Fetch, for which the broker has codecs that do not copy records."""

from __future__ import annotations

from typing import Any

from streamactors.broker.protocol.decoding import decoder
from streamactors.broker.protocol.encoding import Body, encoder

__all__ = ["Body", "decode_request", "decode_response", "encode_request", "encode_response"]


def decode_request(key: int, version: int, view: memoryview, position: int = 0) -> Any:
    """Decode the body of a request. Raises MalformedMessage, or UnsupportedVersion if there is no such message."""
    return decoder(key, version, "request")(view, position)


def encode_response(key: int, version: int, body: Body) -> bytes:
    """Encode the body of a response. Raises MessageError for an illegal field, UnsupportedVersion for an unknown message."""
    return encoder(key, version, "response")(body)


def encode_request(key: int, version: int, body: Body) -> bytes:
    """Encode the body of a request, as a client does."""
    return encoder(key, version, "request")(body)


def decode_response(key: int, version: int, view: memoryview, position: int = 0) -> Any:
    """Decode the body of a response, as a client does."""
    return decoder(key, version, "response")(view, position)
