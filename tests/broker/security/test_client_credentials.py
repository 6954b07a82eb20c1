"""What librdkafka's properties mean for the connections that this package opens itself."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.security.client_credentials import credentials_of
from streamactors.broker.security.client_login import BearerToken, log_in
from streamactors.broker.security.client_tls import Trust
from streamactors.broker.security.oauth_tokens import NoToken, token_of_endpoint
from streamactors.errors import BuildError

OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


def test_without_properties_there_is_neither_tls_nor_a_login() -> None:
    door = credentials_of({})
    assert (door.tls, door.mechanism) == (None, "")


def test_every_setting_of_tls_is_taken() -> None:
    given = {
        "security.protocol": "ssl",
        "ssl.ca.location": "ca",
        "ssl.ca.pem": "text",
        "ssl.certificate.location": "cert",
        "ssl.certificate.pem": "cert-text",
        "ssl.key.location": "key",
        "ssl.key.pem": "key-text",
        "ssl.key.password": "pw",
        "ssl.crl.location": "crl",
        "ssl.cipher.suites": "HIGH",
        "enable.ssl.certificate.verification": False,
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert credentials_of(given).tls == Trust(
        "ca", "text", "cert", "cert-text", "key", "key-text", "pw", "crl", "HIGH", False, False
    )
    assert credentials_of({"security.protocol": "SSL", "ssl.ca.location": "probe"}).tls == Trust()


def test_the_certificate_of_the_broker_is_checked_unless_the_user_says_otherwise() -> None:
    strict, lax = Trust().context(), Trust(checks_certificate=False).context()
    assert (strict.check_hostname, strict.verify_mode.name) == (True, "CERT_REQUIRED")
    assert (lax.check_hostname, lax.verify_mode.name) == (False, "CERT_NONE")
    nameless = Trust(checks_host=False).context()
    assert (nameless.check_hostname, nameless.verify_mode.name) == (False, "CERT_REQUIRED")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security.protocol": "SASL_SSL"}, "security.protocol=SASL_SSL needs a login; set sasl.mechanism"),
        ({"security.protocol": "SSL", "ssl.engine.location": "a.so"}, "ssl.engine.location=a.so: this command"),
        (OAUTH, "has no token; set sasl.oauthbearer.method=oidc"),
    ],
)
def test_what_cannot_be_is_named_with_the_way_out(given: dict[str, str], said: str) -> None:
    with pytest.raises(BuildError, match=said):
        credentials_of(given)


def test_the_users_function_gives_the_token_and_its_extensions() -> None:
    asked: list[str] = []

    def tokens(config: str) -> tuple[str, float, str, dict[str, str]]:
        asked.append(config)
        return "t0k3n", 0.0, "ann", {"cluster": "one"}

    door = credentials_of({**OAUTH, "oauth_cb": tokens, "sasl.oauthbearer.config": "c"})
    assert asked == [], "a token is made when a connection logs in"
    sent: list[bytes] = []

    def broker(_: tuple[int, int], body: dict[str, Any]) -> Any:
        sent.append(body.get("auth_bytes", b""))
        return SimpleNamespace(error_code=0, mechanisms=[], auth_bytes=b"", session_lifetime_ms=0)

    log_in(door, broker)
    assert asked == ["c"]
    assert sent == [b"", b"n,,\x01auth=Bearer t0k3n\x01cluster=one\x01\x01"]


def test_a_refused_token_is_acknowledged_and_is_the_brokers_error() -> None:
    answers = [
        SimpleNamespace(error_code=0, mechanisms=[]),
        SimpleNamespace(error_code=0, auth_bytes=b'{"status":"invalid_token"}'),
        SimpleNamespace(error_code=int(ErrorCode.SASL_AUTHENTICATION_FAILED), error_message="it has expired"),
    ]
    sent: list[dict[str, Any]] = []

    def broker(_: tuple[int, int], body: dict[str, Any]) -> Any:
        sent.append(body)
        return answers.pop(0)

    door = credentials_of({**OAUTH, "oauth_cb": lambda _: ("old", 0.0)})
    with pytest.raises(Refusal, match="it has expired"):
        log_in(door, broker)
    assert sent[-1] == {"auth_bytes": b"\x01"}


def test_a_token_that_nobody_signed_has_librdkafkas_claims() -> None:
    config = "principal=ann principalClaimName=user scope=a,b lifeSeconds=60"
    door = credentials_of({**OAUTH, "enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": config})
    assert door.token is not None
    token = door.token()
    assert isinstance(token, BearerToken)
    head, body, signature = token.text.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    assert (json.loads(base64.urlsafe_b64decode(head + "==")), signature) == ({"alg": "none"}, "")
    assert (claims["user"], claims["scope"], round(claims["exp"] - claims["iat"])) == ("ann", ["a", "b"], 60)


def test_the_secret_of_a_client_is_not_sent_where_the_endpoint_redirects() -> None:
    """urllib follows a redirect with all headers, so another host got the client's id and secret."""
    asked = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.command, self.headers["Authorization"]))
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}/elsewhere")  # type: ignore[attr-defined]
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        properties = {
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{server.server_address[1]}/token",
            "sasl.oauthbearer.client.id": "tool",
            "sasl.oauthbearer.client.secret": "s3cret",
        }
        with pytest.raises(NoToken, match=r"no token from http://.*/token \(HTTP 302\)"):
            token_of_endpoint(properties)
        server.shutdown()
    thread.join(10)
    assert [command for command, _ in asked] == ["POST"]
