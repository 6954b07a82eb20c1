"""The login of one connection of a SASL listener: which requests it admits, and how it answers each token.

    HANDSHAKE --SaslHandshake--> TOKENS --the exchange is complete--> DONE --SaslHandshake (KIP-368)--> TOKENS
                                   |                                    |
                                   '------------ refused -------------> FAILED

Pure but for the clock that is handed in. Source of the rules: Kafka's SaslServerAuthenticator."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.api_keys import API_VERSIONS
from streamactors.broker.security.sasl.mechanism import MAX_TOKEN_BYTES, AuthenticationFailed, Mechanism

_log = logging.getLogger("streamactors.broker.security")

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
Mechanisms = Mapping[str, Callable[[], Mechanism]]
"""The enabled mechanisms by name; each call returns a new exchange."""


class LoginState(Enum):
    """The phases of a login, as drawn above."""

    HANDSHAKE = auto()
    TOKENS = auto()
    DONE = auto()
    FAILED = auto()


class Answered(NamedTuple):
    """The answer to a token. `lifetime_ms` 0 means that the session does not end."""

    code: ErrorCode
    message: str | None = None
    token: bytes = b""
    lifetime_ms: int = 0


class Login:
    """The login of one connection. `max_session_ms` 0: a session does not end. `wall_ms()` is ms since 1970."""

    def __init__(self, mechanisms: Mechanisms, max_session_ms: int, wall_ms: Callable[[], float]) -> None:
        self._mechanisms = mechanisms
        self._max_session_ms = max_session_ms
        self._wall_ms = wall_ms
        self._mechanism: Mechanism | None = None
        self._mechanism_name = ""
        self._ends_at_ms: float | None = None
        self.state = LoginState.HANDSHAKE
        self.principal: str | None = None
        self.by_token = False
        """Whether a delegation token has logged in."""
        self.raw_tokens = False
        """After a handshake of version 0 the client's tokens come without a request header."""

    @property
    def enabled(self) -> list[str]:
        """The names of the enabled mechanisms."""
        return list(self._mechanisms)

    def why_not(self, key: int) -> str | None:
        """Return why a request of this key must not be served now; None if it may."""
        if self.state is LoginState.DONE:
            if (
                self._ends_at_ms is not None
                and self._wall_ms() > self._ends_at_ms
                and key
                not in (
                    SASL_HANDSHAKE,
                    SASL_AUTHENTICATE,
                )
            ):
                return "its session has ended and it did not log in again; see connections.max.reauth.ms"
            return None
        if self.state is LoginState.HANDSHAKE and key in (API_VERSIONS, SASL_HANDSHAKE):
            return None
        if self.state is LoginState.TOKENS and key == SASL_AUTHENTICATE:
            return None
        return "it sent another request before its login; set the client's security.protocol and sasl.mechanism"

    def handshake(self, mechanism: str, version: int) -> ErrorCode:
        """The client chooses a mechanism."""
        if self.state not in (LoginState.HANDSHAKE, LoginState.DONE):
            self.state = LoginState.FAILED
            return ErrorCode.ILLEGAL_SASL_STATE
        make = self._mechanisms.get(mechanism)
        if make is None:
            self.state = LoginState.FAILED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._mechanism, self._mechanism_name = make(), mechanism
        self.raw_tokens = version == 0
        self.state = LoginState.TOKENS
        return ErrorCode.NONE

    def token(self, token: bytes) -> Answered:
        """Take a token of the client."""
        mechanism = self._mechanism
        if self.state is not LoginState.TOKENS or mechanism is None:
            self.state = LoginState.FAILED
            return Answered(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received without a SaslHandshake request"
            )
        try:
            if len(token) > MAX_TOKEN_BYTES:
                raise AuthenticationFailed(f"a token of {len(token)} bytes is too long")
            answer = mechanism.respond(token)
            if mechanism.principal is None:
                return Answered(ErrorCode.NONE, token=answer)
            if self.principal is not None and self.principal != mechanism.principal:
                raise AuthenticationFailed("Cannot change principals during re-authentication")
            return self._complete(mechanism, answer)
        except AuthenticationFailed as error:
            self.state = LoginState.FAILED
            return Answered(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))

    def _complete(self, mechanism: Mechanism, answer: bytes) -> Answered:
        now_ms = self._wall_ms()
        lifetime_ms = 0
        if mechanism.expires_at_ms is not None:
            lifetime_ms = max(0, int(mechanism.expires_at_ms - now_ms))
        if self._max_session_ms > 0:
            lifetime_ms = min(lifetime_ms, self._max_session_ms) if lifetime_ms else self._max_session_ms
        # As in Kafka, only connections.max.reauth.ms makes the broker close a session, or a credential that expires.
        self._ends_at_ms = now_ms + lifetime_ms if lifetime_ms else None
        self.principal = mechanism.principal
        self.by_token = mechanism.by_token
        self.state = LoginState.DONE
        self.raw_tokens = False
        self._mechanism = None
        _log.debug("%s logged in by %s", self.principal, self._mechanism_name)
        return Answered(ErrorCode.NONE, token=answer, lifetime_ms=lifetime_ms)
