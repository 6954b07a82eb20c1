"""Takes TLS and the login from librdkafka's properties, so that connections of this package reach every listener that librdkafka reaches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from streamactors.broker.security.client_login import BearerToken, ListenerCredentials
from streamactors.broker.security.client_tls import Trust
from streamactors.broker.security.oauth_tokens import token_of_endpoint, unsigned_token
from streamactors.errors import BuildError

_ONLY_LIBRDKAFKA: Final = {
    "ssl.engine.location": "give ssl.certificate.location and ssl.key.location",
}
_FALSE: Final = ("false", "f", "0")
_EXTENSION: Final = re.compile(r"\s*([^=,]+?)\s*=\s*([^,]*?)\s*(?:,|$)")


def credentials_of(properties: Mapping[str, Any]) -> ListenerCredentials:
    """Return the TLS and the login of these properties. Raises BuildError naming a property that cannot be used."""
    protocol = str(properties.get("security.protocol") or "PLAINTEXT").upper()
    trust = _trust(properties) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return ListenerCredentials(trust=trust)
    mechanism = str(properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "").upper()
    if not mechanism:
        raise BuildError(f"security.protocol={protocol} needs a login; set sasl.mechanism")
    user, password = (str(properties.get(f"sasl.{name}") or "") for name in ("username", "password"))
    token = _token(properties) if mechanism == "OAUTHBEARER" else None
    return ListenerCredentials(mechanism=mechanism, user=user, password=password, token=token, trust=trust)


def _trust(properties: Mapping[str, Any]) -> Trust:
    def text(name: str) -> str:
        return str(properties.get(name, ""))

    for name, way_out in _ONLY_LIBRDKAFKA.items():
        if text(name):
            raise BuildError(f"{name}={text(name)}: this command cannot use it; {way_out}")
    authority = text("ssl.ca.location")
    return Trust(
        "" if authority == "probe" else authority,
        text("ssl.ca.pem"),
        text("ssl.certificate.location") or text("ssl.keystore.location") or None,
        text("ssl.certificate.pem"),
        text("ssl.key.location") or None,
        text("ssl.key.pem"),
        text("ssl.key.password"),
        text("ssl.crl.location"),
        text("ssl.cipher.suites"),
        text("enable.ssl.certificate.verification").lower() not in _FALSE,
        text("ssl.endpoint.identification.algorithm").lower() != "none",
        certificate_password=text("ssl.keystore.password"),
    )


def _token(properties: Mapping[str, Any]) -> Callable[[], BearerToken]:
    """Return what gets the token: the user's function, a request to the provider's endpoint, or a function that makes one without a signature."""
    config = str(properties.get("sasl.oauthbearer.config") or "")
    own = properties.get("oauth_cb")
    if callable(own):
        return lambda: _given(own(config))
    if str(properties.get("sasl.oauthbearer.method") or "").lower() == "oidc":
        extensions = dict(_EXTENSION.findall(str(properties.get("sasl.oauthbearer.extensions") or "")))
        return lambda: BearerToken(token_of_endpoint(properties), extensions)
    if str(properties.get("enable.sasl.oauthbearer.unsecure.jwt") or "").lower() in ("true", "t", "1"):
        return lambda: BearerToken(unsigned_token(config))
    raise BuildError("the login by OAUTHBEARER has no token; set sasl.oauthbearer.method=oidc and its properties")


def _given(result: Any) -> BearerToken:
    """Return the token of a result of `oauth_cb`: (token, expiry), or (token, expiry, principal, extensions)."""
    text, _, *more = result
    return BearerToken(str(text), more[1] if len(more) > 1 else {})
