"""Delegation tokens (KIP-48): an id and a secret made from it, by which a client logs in as the token's owner, without the owner's password.

The metadata log holds the owner and the expiry of a token, never its secret. The secret is the HMAC of the id under
`delegation.token.secret.key`, which every broker of the cluster knows. A token logs in by SCRAM, with its id as the user."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from typing import Final

from streamactors.broker.metadata.cache import MetadataCache
from streamactors.broker.metadata.security_record import DelegationToken
from streamactors.broker.security.sasl.scram import Credential, ScramHash, TokenLogin, new_credential

_REMEMBERED: Final = 1_000


def hmac_of(secret_key: str, token_id: str) -> bytes:
    """Return the secret of a token, as Kafka makes it."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


class DelegationTokens:
    """The tokens of the metadata image. `secret_key` is None if the cluster has no tokens. `wall_ms()` is ms since 1970."""

    def __init__(self, metadata: MetadataCache, secret_key: str | None, wall_ms: Callable[[], float]) -> None:
        self._metadata = metadata
        self._secret_key = secret_key
        self._wall_ms = wall_ms
        self._credentials: dict[tuple[str, str], Credential] = {}

    @property
    def enabled(self) -> bool:
        """Whether `delegation.token.secret.key` is set."""
        return bool(self._secret_key)

    def hmac(self, token: DelegationToken) -> bytes:
        """Return the secret of a token."""
        return hmac_of(self._secret_key or "", token.token_id)

    def find(self, secret: bytes) -> DelegationToken | None:
        """Return the token with this secret."""
        found = None
        for token in self._metadata.image.tokens.values():
            if hmac.compare_digest(self.hmac(token), secret):
                found = token
        return found

    def login(self, kind: ScramHash, token_id: str) -> TokenLogin | None:
        """Return what a login by a token needs; None if there is no such token, or it has expired."""
        token = self._metadata.image.tokens.get(token_id)
        if token is None or not self._secret_key or token.is_over(self._wall_ms()):
            return None
        credential = self._credentials.get((kind.name, token_id))
        if credential is None:
            if len(self._credentials) >= _REMEMBERED:
                self._credentials.clear()
            password = base64.b64encode(self.hmac(token)).decode()
            credential = self._credentials[kind.name, token_id] = new_credential(kind, password)
        return TokenLogin(credential, token.owner, token.expires_at_ms)
