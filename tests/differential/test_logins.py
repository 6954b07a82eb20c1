"""Logins and certificates with eight clients in four languages: our broker lets in whom Apache Kafka lets in, and nobody else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streamactors.broker import Cluster
from tests.differential.apache_kafka import broker as apache
from tests.differential.login_clients import CLIENTS, END_S, SASL, Door, Login

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(1_200),
    pytest.mark.expects_log("its login failed", "another request before its login", "no TLS handshake, "),
]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a broker, of a client, and of a client that another authority has signed; in the form that Java reads."""
    import trustme
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

    made = tmp_path_factory.mktemp("doors")
    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(made / "ca.pem")
    for name, issued in {
        "server": authority.issue_cert("localhost", "127.0.0.1"),
        "client": authority.issue_cert("ann.example", common_name="ann"),
        "stranger": other.issue_cert("ann.example", common_name="ann"),
    }.items():
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
        (made / f"{name}.pem").write_bytes(text + chain)
        (made / f"{name}.key").write_bytes(text)
        (made / f"{name}.crt").write_bytes(chain)
    return made


@pytest.fixture(scope="module")
def token(folder: Path) -> Callable[[bool], str]:
    """Return a function that makes a token: a good one, or one that nobody knows the key of."""
    pytest.importorskip("joserfc")
    from joserfc import jwt
    from joserfc.jwk import KeySet, RSAKey

    known, unknown = (RSAKey.generate_key(2048, {"kid": "one"}) for _ in range(2))
    (folder / "keys.json").write_text(json.dumps(KeySet([known]).as_dict(private=False)))

    def made(good: bool) -> str:
        now = int(time.time())
        claims = {"sub": "ann", "iss": "us", "aud": "kafka", "iat": now, "exp": now + 600}
        return str(jwt.encode({"alg": "RS256", "kid": "one"}, claims, known if good else unknown))

    return made


def settings_of(folder: Path, door: str) -> dict[str, str]:
    prefix = f"listener.name.{door.lower()}"
    made = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }
    if door == "SSL":
        return {**made, f"{prefix}.ssl.client.auth": "required"}
    keys = (folder / "keys.json").as_uri()
    return {
        **made,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": f'{SASL}.plain.PlainLoginModule required user_ann="pw";',
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SASL}.scram.ScramLoginModule required;",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SASL}.scram.ScramLoginModule required;",
        f"{prefix}.oauthbearer.sasl.jaas.config": f"{SASL}.oauthbearer.OAuthBearerLoginModule required;",
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": f"{SASL}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": "us",
        "sasl.oauthbearer.expected.audience": "kafka",
    }


@pytest.fixture(scope="module", params=["SASL_SSL", "SSL"])
def doors(
    request: pytest.FixtureRequest, folder: Path, token: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, tuple[Door, Door]]]:
    """Return the listeners' protocol, and the listeners of Apache Kafka and of our broker."""
    name = request.param
    settings = settings_of(folder, name)
    theirs = apache.ApacheKafka(
        tmp_path_factory.mktemp("apache") / "data", settings=dict(settings), second_listener=name
    )
    # the default of 4.4.0 takes tokens of anybody
    theirs.settings["sasl.oauthbearer.jwt.validator.class"] = f"{SASL}.oauthbearer.BrokerJwtValidator"
    theirs.settings["listener.security.protocol.map"] = f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{name}:{name}"
    with pytest.MonkeyPatch.context() as patched:
        allowed = (folder / "keys.json").as_uri()
        patched.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}")
        theirs.start()
    listen = ["PLAINTEXT://127.0.0.1:0", f"{name}://127.0.0.1:0"]
    try:
        with Cluster(listen=listen, config=settings) as ours:
            plain, encrypted = ours.bootstrap_servers.split(",")
            for address in (theirs.address, plain):
                prepare(address)
            authority = folder / "ca.pem"
            yield name, (Door(theirs.door_address, authority), Door(encrypted, authority))
    finally:
        theirs.kill()


def prepare(address: str) -> None:
    """Make the topic, and the users whose passwords are in the metadata."""
    admin = AdminClient({"bootstrap.servers": address})
    for created in admin.create_topics([NewTopic("t", 1, 1)]).values():
        created.result(END_S)
    for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        user = UserScramCredentialUpsertion("ann", ScramCredentialInfo(kind, 4096), b"pw")
        for set_ in admin.alter_user_scram_credentials([user]).values():
            set_.result(END_S)


def logins(door: str, folder: Path, token: Callable[[bool], str]) -> dict[str, Login]:
    """Return who comes to a listener."""
    if door == "SSL":
        return {
            "a certificate": Login(certificate=str(folder / "client.crt")),
            "a stranger's certificate": Login(certificate=str(folder / "stranger.crt")),
            "no certificate": Login(),
        }
    found = {"no login": Login(), "nobody": Login("PLAIN", "bob", "pw")}
    for mechanism in MECHANISMS[:3]:
        found[f"{mechanism}, right"] = Login(mechanism, "ann", "pw")
        found[f"{mechanism}, wrong"] = Login(mechanism, "ann", "no")
    found["OAUTHBEARER, right"] = Login("OAUTHBEARER", "", token(True))
    found["OAUTHBEARER, wrong"] = Login("OAUTHBEARER", "", token(False))
    return found


LET_IN = ("a certificate",)


@pytest.mark.parametrize("client", CLIENTS)
def test_both_brokers_let_in_the_same_clients(
    doors: tuple[str, tuple[Door, Door]], folder: Path, token: Callable[[bool], str], client: str
) -> None:
    name, both = doors
    talk = CLIENTS[client]
    for who, login in logins(name, folder, token).items():
        if login.mechanism == "OAUTHBEARER" and client in ("Java", "kafka-go"):
            continue  # kafka-go has no such login, Java's client asks a server for its token
        answers = [talk(door, login) for door in both]
        wanted = "ok" if who in LET_IN or who.endswith(", right") else "refused"
        assert [answer.partition(":")[0] for answer in answers] == [wanted] * 2, (who, answers)
