"""SASL PLAIN (RFC 4616): user and password in one token. Use it over TLS only: the password is readable on the wire."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Final

from streamactors.broker.security.sasl.mechanism import AuthenticationFailed

NAME: Final = "PLAIN"
_REFUSED: Final = "Authentication failed: Invalid username or password"
_OPTION: Final = re.compile(r"""([A-Za-z0-9_.@-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")
_NO_PASSWORD: Final = b"\0"


class Plain:
    """One login by PLAIN. `passwords` are the users' passwords by name."""

    expires_at_ms = None
    by_token = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.principal: str | None = None

    def respond(self, token: bytes) -> bytes:
        """Check `authorization id NUL user NUL password`."""
        parts = token.split(b"\0")
        if len(parts) != 3:
            raise AuthenticationFailed("Invalid SASL/PLAIN response: expected 3 tokens")
        try:
            identity, user, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise AuthenticationFailed("Invalid SASL/PLAIN response: it is not UTF-8") from None
        if not user or not password:
            missing = "username" if not user else "password"
            raise AuthenticationFailed(f"Authentication failed: {missing} not specified")
        known = self._passwords.get(user)
        # compared also for an unknown user, so that the time does not tell whether the user exists
        right = hmac.compare_digest(_NO_PASSWORD if known is None else known.encode(), password.encode())
        if known is None or not right:
            raise AuthenticationFailed(_REFUSED)
        if identity and identity != user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.principal = f"User:{user}"
        return b""


def passwords_of(jaas: str) -> dict[str, str]:
    """Return the users of a `plain.sasl.jaas.config`: its options `user_NAME="PASSWORD"`."""
    return {name.removeprefix("user_"): text for name, text in options_of(jaas).items() if name.startswith("user_")}


def options_of(jaas: str) -> dict[str, str]:
    """Return all options of a `sasl.jaas.config`."""
    return {name: _unescaped(*texts) for name, *texts in _OPTION.findall(jaas)}


def _unescaped(quoted: str, single: str, bare: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted) if quoted else single or bare
