"""SCRAM: the exchanges of the RFCs to the byte, and what an attacker learns."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.security.sasl import scram
from streamactors.broker.security.sasl.mechanism import AuthenticationFailed
from streamactors.broker.security.sasl.scram import (
    HASHES,
    SHA_256,
    Credential,
    Scram,
    ScramClient,
    credential_of,
    new_credential,
)


def exchange(kind, user, password, known):
    server, client = Scram(kind, known.get), ScramClient(kind, user, password)
    client.check(server.respond(client.last(server.respond(client.first()))))
    return server


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    kept = credential_of(SHA_256, SHA_256.salted(b"pencil", salt, 4096), salt, 4096)
    monkeypatch.setattr(scram.secrets, "token_urlsafe", lambda n: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    server = Scram(SHA_256, {"user": kept}.get)
    first = server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    last = server.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.principal == "User:user"


@given(st.sampled_from(sorted(HASHES)), st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_any_name_and_password_log_in_and_no_other_password_does(mechanism: str, user: str, password: str) -> None:
    kind = HASHES[mechanism]
    if any(0xD800 <= ord(char) <= 0xDFFF for char in user + password):
        return
    known = {user: new_credential(kind, password)}
    assert exchange(kind, user, password, known).principal == f"User:{user}"
    server, client = Scram(kind, known.get), ScramClient(kind, user, password + "x")
    answer = server.respond(client.first())
    with pytest.raises(AuthenticationFailed):
        server.respond(client.last(answer))
    assert server.principal is None


def test_an_unknown_user_looks_like_one_with_a_wrong_password() -> None:
    known = {"ann": new_credential(SHA_256, "pw")}
    texts, salts = [], []
    for user in ("ann", "bob", "bob"):
        server, client = Scram(SHA_256, known.get), ScramClient(SHA_256, user, "wrong")
        challenge = server.respond(client.first())
        salts.append(challenge.split(b",")[1])
        with pytest.raises(AuthenticationFailed) as caught:
            server.respond(client.last(challenge))
        texts.append(str(caught.value))
    assert len(set(texts)) == 1
    assert salts[1] == salts[2], "another salt at each try would tell that there is no such user"
    assert len(salts[0]) == len(salts[1])


def test_a_replayed_exchange_fails() -> None:
    known = {"ann": new_credential(SHA_256, "pw")}
    server, client = Scram(SHA_256, known.get), ScramClient(SHA_256, "ann", "pw")
    first = client.first()
    final = client.last(server.respond(first))
    server.respond(final)
    again = Scram(SHA_256, known.get)
    again.respond(first)
    with pytest.raises(AuthenticationFailed):
        again.respond(final)
    with pytest.raises(AuthenticationFailed):
        server.respond(final)


@pytest.mark.parametrize(
    "token",
    [b"", b"\xff", b"n,,n=,r=", b"p=tls-unique,,n=ann,r=x", b"n,a=bob,n=ann,r=x", b"y" * 10_000, b"n,,n=ann", b"\0\0"],
)
def test_a_first_message_that_is_none_fails(token: bytes) -> None:
    server = Scram(SHA_256, {"ann": new_credential(SHA_256, "pw")}.get)
    with pytest.raises(AuthenticationFailed):
        server.respond(token)
        server.respond(token)


def test_a_client_finds_out_a_server_that_does_not_know_the_password() -> None:
    server, client = Scram(SHA_256, {"ann": new_credential(SHA_256, "pw")}.get), ScramClient(SHA_256, "ann", "pw")
    client.last(server.respond(client.first()))
    with pytest.raises(AuthenticationFailed, match="did not prove"):
        client.check(b"v=AAAA")


def test_a_credential_shows_nothing_of_itself_in_a_log() -> None:
    from streamactors.broker.controller.command import ScramUpsert

    made: Credential = new_credential(SHA_256, "pw")
    shown = repr(ScramUpsert("ann", 1, 4096, made.salt, made.stored_key, made.server_key))
    assert "stored" not in shown
    assert "salt" not in shown


def test_the_challenge_of_an_unknown_user_has_the_form_of_a_users() -> None:
    # librdkafka sets passwords with a salt of 64 bytes: a challenge with a made-up salt of 24 told that there is no such user
    salt = bytes(64)
    kept = credential_of(SHA_256, SHA_256.salted(b"pw", salt, 8_192), salt, 8_192)

    def challenge(user: str) -> tuple[int, str]:
        server = Scram(SHA_256, {"ann": kept}.get, example=lambda: kept)
        _, made_salt, iterations = server.respond(f"n,,n={user},r=abc".encode()).decode().split(",")
        return len(made_salt), iterations

    assert challenge("nobody") == challenge("ann")
