"""The interface of a SASL mechanism, as a login uses it."""

from __future__ import annotations

from typing import Protocol

from streamactors.errors import StreamActorsError

MAX_TOKEN_BYTES = 512 << 10
"""A longer token of a client is refused, as in Apache Kafka."""


MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16_384
"""The limits of Apache Kafka for the iterations of a new SCRAM credential."""


class AuthenticationFailed(StreamActorsError):
    """The client did not prove who it is. The message goes to the client, so it never says whether the user exists."""


class Mechanism(Protocol):
    """One exchange of a mechanism."""

    @property
    def principal(self) -> str | None:
        """The principal in Kafka's form, once the exchange is complete; None before."""

    @property
    def expires_at_ms(self) -> float | None:
        """When the credential expires (ms since 1970); None if it does not."""

    @property
    def by_token(self) -> bool:
        """Whether a delegation token logs in."""

    def respond(self, token: bytes) -> bytes:
        """Take a token of the client; return the answer. Raises AuthenticationFailed."""
