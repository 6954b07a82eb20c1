"""A login by SCRAM-SHA-256 over a plain connection, by a password or by a delegation token."""

from __future__ import annotations

import base64
from typing import Any

from streamactors.broker.security.sasl.scram import SHA_256, ScramClient
from tests.broker.wire import WireClient


def log_in(client: WireClient, user: str, password: str) -> Any:
    """Return the last answer to a login by a password."""
    return _exchange(client, ScramClient(SHA_256, user, password))


def log_in_by_token(client: WireClient, token_id: str, secret: bytes) -> Any:
    """Return the last answer to a login by a token."""
    return _exchange(client, ScramClient(SHA_256, token_id, base64.b64encode(secret).decode(), token=True))


def _exchange(client: WireClient, exchange: ScramClient) -> Any:
    assert client.call(17, 1, {"mechanism": "SCRAM-SHA-256"}).error_code == 0
    last = exchange.last(client.call(36, 2, {"auth_bytes": exchange.first()}).auth_bytes)
    return client.call(36, 2, {"auth_bytes": last})
