"""The token of a node: shared by its connections, renewed before it expires, read again from its file."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path

import pytest

from streamactors.broker.security.node_token import NodeToken
from streamactors.broker.security.oauth_tokens import NoToken, life_of, token_of_endpoint
from streamactors.errors import BuildError


def token(**claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.x"


class Made:
    """A node's token at a time, with the tokens that the provider gives next."""

    def __init__(self, *given: str | Exception) -> None:
        self.given = list(given)
        self.now_s = 1_000.0
        self.token = NodeToken(self._fetch, lambda: self.now_s)

    def _fetch(self) -> str:
        first = self.given.pop(0)
        if isinstance(first, Exception):
            raise first
        return first

    def at(self, now_s: float) -> str:
        self.now_s = now_s
        self.token.renew()
        return self.token.current().text


def test_connections_share_a_token_until_most_of_its_life_is_over() -> None:
    first, second = token(iat=1_000, exp=1_100), token(iat=1_080, exp=1_180)
    made = Made(first, second)
    assert [made.at(now) for now in (1_000, 1_079, 1_080, 1_143)] == [first, first, second, second]


def test_a_token_that_does_not_say_when_it_expires_is_used_for_a_minute() -> None:
    made = Made("opaque", "opaque-2")
    assert [made.at(now) for now in (1_000, 1_059, 1_060)] == ["opaque", "opaque", "opaque-2"]
    assert life_of("a.b") is None
    assert life_of(token(sub="ann")) is None


def test_without_a_token_the_reason_is_logged_once_and_each_connection_fails(caplog: pytest.LogCaptureFixture) -> None:
    made = Made(*[NoToken("no token from here")] * 3, NoToken("another reason"), token(iat=1, exp=9_000))
    with caplog.at_level(logging.WARNING, "streamactors.broker.security"):
        for _ in range(4):
            with pytest.raises(NoToken):
                made.token.renew()
        with pytest.raises(NoToken):
            made.token.current()
        assert made.at(1_000)
    assert caplog.messages == [
        "this node cannot log in to other nodes: no token from here",
        "this node cannot log in to other nodes: another reason",
    ]


def test_a_file_holds_a_token(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    asked = {"sasl.oauthbearer.token.endpoint.url": file.as_uri()}
    with pytest.raises(NoToken, match="No such file"):
        token_of_endpoint(asked)
    file.write_text("\n")
    with pytest.raises(NoToken, match="the file is empty"):
        token_of_endpoint(asked)
    file.write_text("abc\n")
    assert token_of_endpoint(asked) == "abc"
    with pytest.raises(BuildError, match="the file:// URL of a token"):
        token_of_endpoint({"sasl.oauthbearer.token.endpoint.url": "ftp://x"})
