"""Every command that talks to a broker, against a broker that takes SASL_SSL only and one that takes OAUTHBEARER only."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import pytest

from streamactors.broker import Acl, Cluster
from streamactors.cli import bootstrap
from streamactors.cli.main import COMMANDS, cli
from tests.cli.ran import Run

joserfc = pytest.importorskip("joserfc")
trustme = pytest.importorskip("trustme")
from joserfc import jwt  # noqa: E402
from joserfc.jwk import KeySet, RSAKey  # noqa: E402

LETTER = ("produce", "letters", *(f"-Hdead-letter.{told}" for told in ("topic=orders", "partition=0", "offset=0")))
CAPSULE = "out.capsule"
SCRIPT: list[tuple[str, ...]] = [
    ("topics", "create", "orders", "-p", "1"),
    ("topics", "list"),
    ("topics", "describe", "orders"),
    ("topics", "alter", "orders", "--set", "retention.ms=1000000"),
    ("produce", "orders"),
    ("topics", "offsets", "orders"),
    ("consume", "orders", "--count", "1"),
    ("groups", "reset-offsets", "readers", "--topic", "orders", "--to", "earliest"),
    ("capture", "--group", "readers", CAPSULE),
    ("groups", "list"),
    ("groups", "describe", "readers"),
    ("groups", "delete", "readers"),
    ("users", "set", "eve"),
    ("users", "list"),
    ("users", "remove", "eve"),
    ("acls", "add", "eve", "read", "topic", "orders"),
    ("acls", "list"),
    ("acls", "remove", "eve", "read", "topic", "orders"),
    ("quotas", "set", "producer_byte_rate=1000000", "--user", "eve"),
    ("quotas", "list"),
    ("quotas", "remove", "producer_byte_rate", "--user", "eve"),
    ("features", "list"),
    ("features", "upgrade", "--feature", "share.version=2", "--dry-run"),
    ("features", "downgrade", "--feature", "transaction.version=1", "--dry-run"),
    ("transactions", "list"),
    ("transactions", "describe", "nobody"),
    ("topics", "create", "letters", "-p", "1"),
    LETTER,
    ("dead-letters", "list", "letters"),
    ("dead-letters", "show", "letters", "0@0"),
    ("dead-letters", "replay", "letters", "0@0"),
    ("dead-letters", "replay", "letters", "--dry-run"),
    ("dead-letters", "replay", "letters"),
    ("topics", "delete", "orders", "letters"),
]
INPUT = {LETTER: b"y\n", ("produce", "orders"): b"x\n", ("users", "set", "eve"): b"password\n"}
ANSWERED_NO = {("transactions", "describe", "nobody"): "there is no transactional id 'nobody'"}


def test_the_script_has_every_command_that_connects() -> None:
    def connecting(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                yield from connecting(child, (*path, name))
        elif any("--bootstrap" in each.opts for each in command.params):
            yield path

    assert set(COMMANDS) >= {"produce", "consume"}
    missing = {path for path in connecting(cli, ()) if not any(line[: len(path)] == path for line in SCRIPT)}
    assert missing == set()


def run_all(streamactors: Run, address: str, options: tuple[str, ...], folder: Path) -> None:
    for line in SCRIPT:
        words = [str(folder / word) if word == CAPSULE else word for word in line]
        ran = streamactors(*words, "-b", address, *options, stdin=INPUT.get(line, b""))
        said = ANSWERED_NO.get(line)
        if line[:2] == ("dead-letters", "replay"):
            assert ran.out.startswith("1 dead letter "), (line, ran)
        assert ran.code == 0 or (said is not None and said in ran.err), (line, ran)


@pytest.mark.slow  # about 10 s: 30 commands
def test_a_broker_with_tls_and_scram_only(streamactors: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rights = [Acl("boss", "ALL", kind, "*") for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")]
    with Cluster(users={"boss": "b"}, tls=True, acls=[*rights, Acl("boss", "ALL", "CLUSTER")]) as broker:
        properties = broker.client_properties("boss")
        address = properties.pop("bootstrap.servers")
        config = written(tmp_path, properties)
        run_all(streamactors, address, config, tmp_path)
        for command in ("topics", "transactions", "quotas"):
            unchecked = ("-X", "ssl.ca.location=", "-X", "enable.ssl.certificate.verification=false")
            assert streamactors(command, "list", "-b", address, *config, *unchecked).code == 0
        monkeypatch.setattr(bootstrap, "CONNECT_TIMEOUT_MS", 1_000)
        for command in ("topics", "transactions"):
            for change, said in {
                "sasl.password=wrong": "the broker refuses the login; check sasl.username, sasl.password and sasl.mechanism",
                "sasl.mechanism=OAUTHBEARER": "the login by OAUTHBEARER has no token; give",
                "ssl.ca.location=": "the broker's certificate is not trusted; give its authority by ssl.ca.location",
                "ssl.ca.location=/no/file": "ssl.ca.location=/no/file cannot be read",
                "security.protocol=PLAINTEXT": "the listener wants TLS and a login; set security.protocol to SASL_SSL",
            }.items():
                ran = streamactors(command, "list", "-b", address, *config, "-X", change)
                assert (ran.code, said in ran.err, ran.err.count("\n")) == (1, True, 1), (command, change, ran)


def test_a_user_who_may_not_read_a_topic_sees_the_lag_in_records(streamactors: Run, tmp_path: Path) -> None:
    rights = [Acl("boss", "ALL", kind, "*") for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")]
    looks = [Acl("eve", "DESCRIBE", "TOPIC", "orders"), Acl("eve", "DESCRIBE", "GROUP", "readers")]
    with Cluster(users={"boss": "b", "eve": "e"}, acls=[*rights, *looks, Acl("boss", "ALL", "CLUSTER")]) as broker:
        (tmp_path / "boss").mkdir()
        (tmp_path / "eve").mkdir()
        boss, eve = (
            ("-b", broker.bootstrap_servers, *written(tmp_path / who, broker.client_properties(who)))
            for who in ("boss", "eve")
        )
        streamactors("topics", "create", "orders", "-p", "1", *boss)
        streamactors("produce", "orders", *boss, stdin=b"1\n2\n")
        reset = streamactors("groups", "reset-offsets", "readers", "-t", "orders", "--to", "earliest", *boss)
        assert reset.code == 0, reset
        ran = streamactors("groups", "describe", "readers", "--json", *eve)
        assert (ran.code, ran.json[0]["lag"], ran.json[0]["lag_seconds"]) == (0, 2, None)
        assert ran.err == (
            "streamactors: the lag in seconds of orders is not known: this user may not READ the topic\n"
        )
        assert streamactors("groups", "describe", "readers", "--json", *boss).json[0]["lag_seconds"] >= 0


def test_a_broker_that_wants_a_clients_certificate_whose_key_has_a_password(streamactors: Run, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    mine = authority.issue_cert("ann@example.org")
    mine.cert_chain_pems[0].write_to_path(tmp_path / "ann.pem")
    key = serialization.load_pem_private_key(mine.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"open")
    )
    (tmp_path / "ann.key").write_bytes(locked)
    doors = {
        "ssl.keystore.location": str(tmp_path / "server.pem"),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.client.auth": "required",
    }
    with Cluster(listen="SSL://127.0.0.1:0", config=doors) as broker:
        given = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem"), "ssl.key.password": "open"}
        files = {"ssl.certificate.location": str(tmp_path / "ann.pem"), "ssl.key.location": str(tmp_path / "ann.key")}
        texts = {"ssl.certificate.pem": (tmp_path / "ann.pem").read_text(), "ssl.key.pem": locked.decode()}
        config = written(tmp_path, given)
        for shown in (files, texts):
            options = [word for name, value in shown.items() for word in ("-X", f"{name}={value}")]
            for command in ("topics", "transactions", "quotas"):
                ran = streamactors(command, "list", "-b", broker.bootstrap_servers, *config, *options)
                assert ran.code == 0, (command, ran)
        without = streamactors("transactions", "list", "-b", broker.bootstrap_servers, *config)
        assert (without.code, without.err.count("\n")) == (1, 1), without


@pytest.fixture
def provider() -> Iterator[tuple[str, RSAKey]]:
    """The endpoint of a provider that gives a token for the client `tool` with the secret `s3cret`, and the key that signs."""
    key = RSAKey.generate_key(2048, {"kid": "one"})

    class Tokens(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            known = self.headers["Authorization"] == "Basic " + base64.b64encode(b"tool:s3cret").decode()
            now = int(time.time())
            token = jwt.encode({"alg": "RS256", "kid": "one"}, {"sub": "tool", "iat": now, "exp": now + 600}, key)
            body = json.dumps({"access_token": token} if known else {"error": "invalid_client"}).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Tokens) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/token", key
        server.shutdown()
        thread.join()


@pytest.mark.slow  # about 15 s
def test_a_broker_with_oauthbearer_only(streamactors: Run, tmp_path: Path, provider: tuple[str, RSAKey]) -> None:
    url, key = provider
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KeySet([key]).as_dict(private=False)))
    doors = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:tool",
    }
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "tool",
        "sasl.oauthbearer.client.secret": "s3cret",
        "sasl.oauthbearer.token.endpoint.url": url,
    }
    with Cluster(listen="SASL_PLAINTEXT://127.0.0.1:0", config=doors) as broker:
        config = written(tmp_path, given)
        run_all(streamactors, broker.bootstrap_servers, config, tmp_path)
        wrong = streamactors(
            "transactions", "list", "-b", broker.bootstrap_servers, *config, "-X", "sasl.oauthbearer.client.secret=no"
        )
        assert (wrong.code, wrong.err) == (
            1,
            f"streamactors: no token from {url} (HTTP 401); check sasl.oauthbearer.token.endpoint.url, "
            "sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret\n",
        )
        foreign = streamactors(
            "transactions", "list", "-b", broker.bootstrap_servers, *config, "-X", "sasl.mechanism=PLAIN"
        )
        assert "the broker has no login by PLAIN; it offers OAUTHBEARER: set sasl.mechanism" in foreign.err


def written(folder: Path, properties: dict[str, str]) -> tuple[str, str]:
    """Write client properties; return the option that reads them."""
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return ("--config", str(file))
