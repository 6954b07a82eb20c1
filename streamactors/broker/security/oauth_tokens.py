"""Gets a client's OAUTHBEARER token: from a provider's endpoint (OIDC, client credentials), from a file, or makes one without a signature."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

from streamactors.errors import BuildError, StreamActorsError

_PREFIX: Final = "sasl.oauthbearer."
_TIMEOUT_S: Final = 5.0
_MAX_ANSWER_BYTES: Final = 1 << 20
_LIFE_S: Final = 3_600


class NoToken(StreamActorsError):
    """The provider of tokens returned none."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: urllib would send the client's id and secret to the new address."""

    def redirect_request(self, *_: Any) -> None:
        return None


def token_of_endpoint(properties: Mapping[str, Any]) -> str:
    """Return a token of `sasl.oauthbearer.token.endpoint.url`, also of a file:// URL. Raises NoToken, BuildError. Each wait for the provider
    takes at most 5 s."""
    grant = str(properties.get(f"{_PREFIX}grant.type") or "client_credentials")
    if grant != "client_credentials":
        raise BuildError(f"{_PREFIX}grant.type={grant}: this command can use client_credentials only")
    url = str(properties.get(f"{_PREFIX}token.endpoint.url") or "")
    if url.startswith("file:"):
        return _token_of_file(url)
    if not url.startswith(("http://", "https://")):
        raise BuildError(
            f"{_PREFIX}token.endpoint.url={url}: give the http:// or https:// URL of the tokens, or the file:// URL of a token"
        )
    user, secret = (
        str(
            properties.get(f"{_PREFIX}client.{name}")
            or properties.get(f"{_PREFIX}client.credentials.client.{name}")
            or ""
        )
        for name in ("id", "secret")
    )
    form = {"grant_type": grant}
    if properties.get(f"{_PREFIX}scope"):
        form["scope"] = str(properties[f"{_PREFIX}scope"])
    login = base64.b64encode(f"{user}:{secret}".encode()).decode()
    asked = urllib.request.Request(  # noqa: S310 - the scheme is checked
        url, urllib.parse.urlencode(form).encode(), {"Authorization": f"Basic {login}", "Accept": "application/json"}
    )
    try:
        https = urllib.request.HTTPSHandler(context=_trusted(properties))
        with urllib.request.build_opener(https, _NoRedirect).open(asked, timeout=_TIMEOUT_S) as answer:
            return str(json.loads(answer.read(_MAX_ANSWER_BYTES))["access_token"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else str(error) or type(error).__name__
        raise NoToken(
            f"no token from {url} ({why}); check {_PREFIX}token.endpoint.url, {_PREFIX}client.id and {_PREFIX}client.secret"
        ) from None


def _token_of_file(url: str) -> str:
    """Return the token that a file holds: another program writes it, and writes a new one before it expires."""
    path = urllib.request.url2pathname(urllib.parse.urlparse(url).path)
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(_MAX_ANSWER_BYTES).strip()
    except (OSError, ValueError) as error:
        raise NoToken(f"no token from {url} ({error}); check {_PREFIX}token.endpoint.url") from None
    if not text:
        raise NoToken(f"no token from {url} (the file is empty); check {_PREFIX}token.endpoint.url")
    return text


def life_of(token: str) -> tuple[float, float] | None:
    """Return when a token was issued and when it expires, in seconds since 1970. None if it does not say when it expires."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        expires = float(claims["exp"])
        return float(claims.get("iat", expires)), expires
    except (IndexError, ValueError, KeyError, TypeError):
        return None


def _trusted(properties: Mapping[str, Any]) -> ssl.SSLContext:
    pem, file = (str(properties.get(f"https.ca.{name}") or "") for name in ("pem", "location"))
    return ssl.create_default_context(cafile=file if file != "probe" and file else None, cadata=pem or None)


def unsigned_token(config: str) -> str:
    """Return a token without a signature, for brokers that are set up for development.

    `config` is that of librdkafka: principal=…, principalClaimName=…, scope=…, scopeClaimName=…, lifeSeconds=…, separated by spaces."""
    given = dict(word.partition("=")[::2] for word in config.split())
    now = time.time()
    claims: dict[str, Any] = {
        given.get("principalClaimName", "sub"): given.get("principal", ""),
        "iat": now,
        "exp": now + int(given.get("lifeSeconds") or _LIFE_S),
    }
    if given.get("scope"):
        claims[given.get("scopeClaimName", "scope")] = given["scope"].split(",")
    return ".".join(_part(each) for each in ({"alg": "none"}, claims)) + "."


def _part(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
