"""SASL OAUTHBEARER (RFC 7628): the client shows a signed token (JWT); the broker checks signature, times, issuer and audience.

The keys (JWKS) are read from `sasl.oauthbearer.jwks.endpoint.url` when the broker starts, and again every hour on a thread of their own: a
login never waits for them. Needs the extra `oauth`."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final

from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.security.sasl.mechanism import AuthenticationFailed, Mechanism

_log = logging.getLogger("streamactors.broker.security")

ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
REFRESH_S: Final = 3_600.0
_MAX_KEYS_BYTES: Final = 1 << 20
_FETCH_S: Final = 10.0
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_FIRST: Final = re.compile(rb"(?:n|y),(?:a=(?P<identity>[^,]*))?,\x01(?P<pairs>.*)\x01\x01", re.DOTALL)
_INVALID: Final = b'{"status":"invalid_token"}'


class OAuthBearer:
    """One login by OAUTHBEARER. `check(token)` returns the claims of a valid token and raises AuthenticationFailed otherwise."""

    def __init__(self, check: Callable[[str], Mapping[str, Any]], name_claim: str) -> None:
        self._check = check
        self._name_claim = name_claim
        self._failed = ""
        self.principal: str | None = None
        self.expires_at_ms: float | None = None
        self.by_token = False

    def respond(self, token: bytes) -> bytes:
        """Take the client's first message, or its acknowledgement of a refusal."""
        if self._failed:
            raise AuthenticationFailed(self._failed)
        found = _FIRST.fullmatch(token)
        if found is None:
            raise AuthenticationFailed("Invalid OAUTHBEARER client first message")
        pairs = dict(pair.partition(b"=")[::2] for pair in found["pairs"].split(b"\x01"))
        scheme, _, bearer = pairs.get(b"auth", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not bearer:
            raise AuthenticationFailed("Invalid OAUTHBEARER client first message: 'auth' has no bearer token")
        try:
            claims = self._check(bearer.strip().decode("ascii", "replace"))
            name = claims.get(self._name_claim)
            if not isinstance(name, str) or not name:
                raise AuthenticationFailed(f"the token has no claim {self._name_claim!r}")
            identity = found["identity"]
            if identity and identity.decode("utf-8", "replace") != name:
                raise AuthenticationFailed("the authorization id is not the token's subject")
        except AuthenticationFailed as error:
            self._failed = f"OAUTHBEARER: {error}"
            return _INVALID  # the client answers with one byte, and the login fails then (RFC 7628, 3.2.3)
        self.principal = f"User:{name}"
        self.expires_at_ms = float(claims["exp"]) * 1_000
        return b""


class TokenCheck:
    """Checks tokens against a set of keys. Any thread."""

    def __init__(self, keys: Callable[[], Any], audiences: frozenset[str], issuer: str | None, skew_s: int) -> None:
        self._keys = keys
        self._audiences = audiences
        self._issuer = issuer
        self._skew_s = skew_s

    def __call__(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a valid token. Raises AuthenticationFailed."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            claims: Mapping[str, Any] = jwt.decode(token, self._keys(), algorithms=ALGORITHMS).claims
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise AuthenticationFailed(f"the token cannot be verified ({type(error).__name__})") from None
        now = time.time()
        expires, not_before = claims.get("exp"), claims.get("nbf", 0)
        if not isinstance(expires, int | float) or now > expires + self._skew_s:
            raise AuthenticationFailed("the token has expired, or has no time of expiry")
        if not isinstance(not_before, int | float) or now < not_before - self._skew_s:
            raise AuthenticationFailed("the token is not valid yet")
        if self._issuer is not None and claims.get("iss") != self._issuer:
            raise AuthenticationFailed("the token has another issuer")
        audience = claims.get("aud", [])
        named = {audience} if isinstance(audience, str) else set(audience) if isinstance(audience, list) else set()
        if self._audiences and not self._audiences & named:
            raise AuthenticationFailed("the token is for another audience")
        return claims


class Keys:
    """The keys of a JWKS document, read again every hour."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._keys = self._read()
        self._read_s = time.monotonic()
        self._reading = threading.Lock()

    def __call__(self) -> Any:
        """Return the keys that are known. Starts a thread that reads them again when they are old."""
        if time.monotonic() - self._read_s > REFRESH_S and self._reading.acquire(blocking=False):
            self._read_s = time.monotonic()
            threading.Thread(target=self._renew, name="jwks", daemon=True).start()
        return self._keys

    def _renew(self) -> None:
        try:
            self._keys = self._read()
        except InvalidSetting as error:
            _log.warning("%s; the broker keeps the keys that it has", error)
        finally:
            self._reading.release()

    def _read(self) -> Any:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        if not self._url.startswith(("file://", "http://", "https://")):
            raise InvalidSetting(
                f"{_URL}={self._url}: give a file://, http:// or https:// URL", name=_URL, value=self._url
            )
        try:
            with urllib.request.urlopen(self._url, timeout=_FETCH_S) as answer:  # noqa: S310 - the scheme is checked
                text = answer.read(_MAX_KEYS_BYTES + 1)
            if len(text) > _MAX_KEYS_BYTES:
                raise ValueError("it is longer than 1 MiB")
            return KeySet.import_key_set(json.loads(text))
        except (OSError, ValueError, TypeError, KeyError, JoseError) as error:
            raise InvalidSetting(
                f"{_URL}={self._url}: it does not return a JWKS document ({error})", name=_URL, value=self._url
            ) from None


def oauth_mechanism(own: Callable[[str], str | None]) -> Callable[[], Mechanism]:
    """Return the mechanism of a listener with these settings. Raises InvalidSetting."""
    try:
        import joserfc  # noqa: F401
    except ImportError:
        raise InvalidSetting(
            "OAUTHBEARER needs the package joserfc: pip install 'streamactors[oauth]'",
            name="sasl.enabled.mechanisms",
            value="OAUTHBEARER",
        ) from None
    url = own(_URL)
    if not url:
        raise InvalidSetting(f"OAUTHBEARER needs {_URL}, the keys that sign tokens", name=_URL)
    audiences = frozenset(filter(None, (own("sasl.oauthbearer.expected.audience") or "").split(",")))
    skew_s = int(own("sasl.oauthbearer.clock.skew.seconds") or 30)
    check = TokenCheck(Keys(url), audiences, own("sasl.oauthbearer.expected.issuer"), skew_s)
    name_claim = own("sasl.oauthbearer.sub.claim.name") or "sub"
    return lambda: OAuthBearer(check, name_claim)
