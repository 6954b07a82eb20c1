"""Tokens of OAuth: what one says of its life, one without a signature, and one that a file holds."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.security import oauth_tokens
from streamactors.broker.security.oauth_tokens import NoToken, life_of, token_of_endpoint, unsigned_token
from streamactors.errors import BuildError


def token(**claims: Any) -> str:
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.signature"


def claims_of(text: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    head, body, signature = text.split(".")
    decoded = [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (head, body)]
    return decoded[0], decoded[1], signature


@pytest.mark.parametrize("padding", ["", "x", "xx", "xxx"])
def test_a_token_tells_its_life_however_long_its_claims_are(padding: str) -> None:
    assert life_of(token(exp=20, iat=10, more=padding)) == (10.0, 20.0)
    assert life_of(token(exp=20, more=padding)) == (20.0, 20.0)


@pytest.mark.parametrize(
    "text", ["", "a", "a.b", "a.!.c", token(iat=10), token(exp="soon"), token(exp=None), "a.W10.c"]
)
def test_what_does_not_say_when_it_expires_has_no_life(text: str) -> None:
    assert life_of(text) is None


def test_an_unsigned_token_has_the_claims_of_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth_tokens.time, "time", lambda: 1_000.0)
    head, claims, signature = claims_of(unsigned_token("principal=ada"))
    assert (head, claims, signature) == ({"alg": "none"}, {"sub": "ada", "iat": 1_000.0, "exp": 4_600.0}, "")
    config = "principalClaimName=user principal=bob scopeClaimName=rights scope=read,write lifeSeconds=60"
    assert claims_of(unsigned_token(config))[1] == {
        "user": "bob",
        "iat": 1_000.0,
        "exp": 1_060.0,
        "rights": ["read", "write"],
    }
    assert claims_of(unsigned_token(""))[1]["sub"] == ""
    assert life_of(unsigned_token("lifeSeconds=7")) == (1_000.0, 1_007.0)


def at(url: str, **more: str) -> dict[str, str]:
    return {"sasl.oauthbearer.token.endpoint.url": url, **{f"sasl.oauthbearer.{n}": value for n, value in more.items()}}


def test_a_file_holds_the_token_between_white_space(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("\n the.to.ken \n")
    assert token_of_endpoint(at(path.as_uri())) == "the.to.ken"


@pytest.mark.parametrize(
    ("content", "why"), [(b" \n", "the file is empty"), ("tokén".encode(), "ascii"), (None, "No such file")]
)
def test_a_file_without_a_token_is_named(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NoToken, match=why) as refused:
        token_of_endpoint(at(path.as_uri()))
    assert str(refused.value).startswith(f"no token from {path.as_uri()} (")


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({}, "give the http:// or https:// URL"),
        (at("ftp://a"), "token.endpoint.url=ftp://a: give the http:// or https:// URL"),
        (
            at("http://a", **{"grant.type": "password"}),
            "grant.type=password: this command can use client_credentials only",
        ),
    ],
)
def test_what_names_no_endpoint_is_refused(properties: dict[str, str], why: str) -> None:
    with pytest.raises(BuildError, match=why):
        token_of_endpoint(properties)
