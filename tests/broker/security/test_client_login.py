"""The login of connections that this package opens: what it sends, and a broker that only pretends to know the password."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.security.client_login import AUTHENTICATE, HANDSHAKE, ListenerCredentials, log_in
from streamactors.broker.security.sasl.mechanism import AuthenticationFailed
from streamactors.broker.security.sasl.scram import SHA_256, Scram, ScramClient, new_credential


class Listener:
    """A broker's answers to the two requests of a login. `proof`: sent in place of the broker's last message."""

    def __init__(self, mechanism: str, password: str = "pw", proof: bytes | None = None) -> None:
        self.server = Scram(SHA_256, {"ann": new_credential(SHA_256, password)}.get)
        self.asked: list[Any] = []
        self._mechanism, self._proof = mechanism, proof

    def __call__(self, api: tuple[int, int], body: dict[str, Any]) -> Any:
        self.asked.append(api)
        if api == HANDSHAKE:
            known = body["mechanism"] == self._mechanism
            error = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return SimpleNamespace(error_code=int(error), mechanisms=[self._mechanism])
        try:
            answer = self.server.respond(body["auth_bytes"])
        except AuthenticationFailed as error:
            return SimpleNamespace(error_code=int(ErrorCode.SASL_AUTHENTICATION_FAILED), error_message=str(error))
        if self._proof is not None and self.server.principal is not None:
            answer = self._proof
        return SimpleNamespace(error_code=0, auth_bytes=answer, session_lifetime_ms=0)


def door(mechanism: str = "SCRAM-SHA-256", password: str = "pw") -> ListenerCredentials:
    return ListenerCredentials(mechanism=mechanism, user="ann", password=password)


def test_a_login_by_scram_is_a_handshake_and_two_messages() -> None:
    listener = Listener("SCRAM-SHA-256")
    log_in(door(), listener)
    assert listener.server.principal == "User:ann"
    assert listener.asked == [HANDSHAKE, AUTHENTICATE, AUTHENTICATE]


def test_a_door_without_a_mechanism_sends_nothing() -> None:
    listener = Listener("SCRAM-SHA-256")
    log_in(ListenerCredentials(), listener)
    assert listener.asked == []


def test_a_wrong_password_is_refused_in_the_brokers_words() -> None:
    with pytest.raises(Refusal, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
        log_in(door(password="no"), Listener("SCRAM-SHA-256"))


@pytest.mark.parametrize("proof", [b"", b"v=", b"v=AAAA"])
def test_a_broker_that_does_not_prove_that_it_knows_the_password_is_refused(proof: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="did not prove"):
        log_in(door(), Listener("SCRAM-SHA-256", proof=proof))


def test_a_mechanism_that_the_broker_lacks_is_named_with_those_it_has() -> None:
    with pytest.raises(Refusal, match="no mechanism PLAIN; it has SCRAM-SHA-256"):
        log_in(door("PLAIN"), Listener("SCRAM-SHA-256"))


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        ("r={nonce}x,s=c2FsdA==,i=1048577", "the server wants 1048577 iterations; this client makes 1 to 1048576"),
        ("r={nonce}x,s=c2FsdA==,i=0", "the server wants 0 iterations"),
        ("r={nonce}x,s=c2FsdA==,i=many", "no salt or no number of iterations"),
        ("r={nonce}x,s=a,i=4096", "no salt or no number of iterations"),
        ("r=other,s=c2FsdA==,i=4096", "does not answer ours"),
        ("\udcff", "does not answer ours"),
    ],
)
def test_a_challenge_that_costs_seconds_or_is_none_ends_the_login(challenge: str, why: str) -> None:
    client = ScramClient(SHA_256, "ann", "pw")
    nonce = client.first().decode().rpartition("r=")[2]
    with pytest.raises(AuthenticationFailed, match=why):
        client.last(challenge.replace("{nonce}", nonce).encode(errors="surrogateescape"))
