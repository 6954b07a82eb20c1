"""OAUTHBEARER: tokens that are good, and everything that is wrong with others."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.security.sasl.mechanism import AuthenticationFailed
from streamactors.broker.security.sasl.oauth import OAuthBearer, oauth_mechanism

joserfc = pytest.importorskip("joserfc")
from joserfc import jwt  # noqa: E402
from joserfc.jwk import KeySet, OctKey, RSAKey  # noqa: E402

OURS = RSAKey.generate_key(2048, {"kid": "one"})
THEIRS = RSAKey.generate_key(2048, {"kid": "one"})


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(KeySet([OURS]).as_dict(private=False)))
    return {
        "sasl.oauthbearer.jwks.endpoint.url": file.as_uri(),
        "sasl.oauthbearer.expected.issuer": "us",
        "sasl.oauthbearer.expected.audience": "kafka,other",
    }


def token(key=OURS, algorithm="RS256", **changes: object) -> bytes:
    claims = {"sub": "ann", "iss": "us", "aud": "kafka", "exp": time.time() + 60, **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode({"alg": algorithm, "kid": "one"}, claims, key).encode()


def message(bearer: bytes, gs2: bytes = b"n,,") -> bytes:
    return gs2 + b"\x01auth=Bearer " + bearer + b"\x01\x01"


def exchange(settings: dict[str, str], first: bytes) -> OAuthBearer:
    made = oauth_mechanism(settings.get)()
    assert isinstance(made, OAuthBearer)
    answer = made.respond(first)
    if answer:
        assert json.loads(answer) == {"status": "invalid_token"}
        assert made.principal is None
        made.respond(b"\x01")
    return made


def test_a_good_token_logs_in_until_it_expires(settings: dict[str, str]) -> None:
    made = exchange(settings, message(token()))
    assert made.principal == "User:ann"
    assert made.expires_at_ms is not None
    assert 50_000 < made.expires_at_ms - time.time() * 1_000 < 61_000


@pytest.mark.parametrize(
    "bad",
    [
        lambda: token(THEIRS),
        lambda: token(exp=time.time() - 100),
        lambda: token(exp=None),
        lambda: token(nbf=time.time() + 100),
        lambda: token(iss="them"),
        lambda: token(aud="mail"),
        lambda: token(aud=["mail"]),
        lambda: token(sub=None),
        lambda: token(sub=""),
        lambda: token(OctKey.import_key("secret" * 10, {"kid": "one"}), "HS256"),
        lambda: token()[:-4] + b"AAAA",
        lambda: b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.",
        lambda: b"x.y.z",
        lambda: b"\xff",
    ],
)
def test_a_bad_token_fails(settings: dict[str, str], bad) -> None:
    with pytest.raises(AuthenticationFailed):
        exchange(settings, message(bad()))


@pytest.mark.parametrize(
    "first", [b"", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"p,,\x01auth=Bearer x\x01\x01"]
)
def test_a_message_that_is_none_fails(settings: dict[str, str], first: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        exchange(settings, first)


def test_the_authorization_id_must_be_the_subject(settings: dict[str, str]) -> None:
    assert exchange(settings, message(token(), b"n,a=ann,")).principal == "User:ann"
    with pytest.raises(AuthenticationFailed):
        exchange(settings, message(token(), b"n,a=bob,"))


@pytest.mark.parametrize("url", ["", "ftp://x", "file:///no/such/file", "{junk}"])
def test_keys_that_cannot_be_read_are_an_error_at_the_start(tmp_path: Path, url: str) -> None:
    (tmp_path / "junk").write_text("[]")
    named = (tmp_path / "junk").as_uri() if url == "{junk}" else url
    with pytest.raises(InvalidSetting, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        oauth_mechanism({"sasl.oauthbearer.jwks.endpoint.url": named}.get)
