"""Commands at a secured broker: client properties by `-X` and `--config`, users, entries, and connection errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from streamactors.broker import Acl, Cluster
from streamactors.broker.security.client_credentials import credentials_of
from streamactors.cli import bootstrap as client
from streamactors.cli.property_file import properties_of
from tests.cli.ran import Run


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    everything = [Acl("boss", "ALL", kind, "*") for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")]
    with Cluster(
        users={"boss": "b", "ann": "a"}, tls=True, acls=[*everything, Acl("boss", "ALL", "CLUSTER")]
    ) as running:
        running.create_topic("orders")
        yield running


@pytest.fixture
def boss(broker: Cluster, tmp_path: Path) -> str:
    """A file as Kafka's own tools read it."""
    file = tmp_path / "boss.properties"
    authority = broker.client_properties("boss")["ssl.ca.location"]
    file.write_text(
        "# the boss\nsecurity.protocol=SASL_SSL\nsasl.mechanism = SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '    username="boss" password="b";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={authority}\n"
    )
    return str(file)


def test_users_and_entries_by_command(streamactors: Run, broker: Cluster, boss: str) -> None:
    ran = streamactors("users", "set", "eve", "--config", boss, stdin=b"pw\n")
    assert (ran.code, ran.out) == (0, "eve logs in by SCRAM-SHA-512\n")
    users = streamactors("users", "list", "--config", boss, "--json").json
    assert {"user": "eve", "mechanism": "SCRAM-SHA-512", "iterations": 4096} in users
    eve = ("--config", boss, "-X", "sasl.username=eve", "-X", "sasl.password=pw", "-X", "sasl.mechanism=SCRAM-SHA-512")
    ran = streamactors("produce", "orders", *eve, stdin=b"x\n")
    assert ran.code == 1
    for operation in ("read", "write"):
        assert streamactors("acls", "add", "eve", operation, "topic", "ord", "--prefix", "--config", boss).code == 0
    shown = streamactors("acls", "list", "--config", boss, "--json").json
    assert [each["operation"] for each in shown if each["principal"] == "User:eve"] == ["READ", "WRITE"]
    assert streamactors("produce", "orders", *eve, stdin=b"x\n").code == 0
    ran = streamactors("consume", "orders", *eve, "--count", "1", "--json")
    assert json.loads(ran.out)["value"] == "x", ran
    for operation in ("read", "write"):
        assert (
            streamactors("acls", "remove", "eve", operation, "topic", "ord", "--prefix", "--config", boss).out
            == "1 removed\n"
        )
    again = streamactors("acls", "remove", "eve", "read", "topic", "ord", "--prefix", "--config", boss)
    assert (again.code, "there is no such entry" in again.err) == (1, True)
    assert streamactors("users", "remove", "eve", "--config", boss).code == 0
    assert "eve" not in json.dumps(streamactors("users", "list", "--config", boss, "--json").json)


def test_transactions_are_listed_behind_the_door(streamactors: Run, boss: str) -> None:
    ran = streamactors("transactions", "list", "--config", boss)
    assert (ran.code, "no transactions" in ran.out) == (0, True)
    wrong = streamactors("transactions", "list", "--config", boss, "-X", "sasl.password=x")
    assert (wrong.code, "the broker refuses the login; check sasl.username" in wrong.err) == (1, True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            ("-X", "sasl.password=x"),
            "the broker refuses the login; check sasl.username, sasl.password and sasl.mechanism",
        ),
        (("-X", "ssl.ca.location="), "the broker's certificate is not trusted; give its authority by ssl.ca.location"),
        (
            ("-X", "security.protocol=PLAINTEXT"),
            "the listener wants TLS and a login; set security.protocol to SASL_SSL and sasl.mechanism to one of PLAIN, SCRAM-SHA-256",
        ),
        (("-X", "security.protocol=SSL"), "the listener wants a login; set security.protocol to SASL_SSL and sasl"),
        (("-X", "security.protocol=SASL_PLAINTEXT"), "the listener wants TLS; set security.protocol to SASL_SSL"),
    ],
)
def test_a_closed_door_is_one_sentence_with_the_way_out(
    streamactors: Run, boss: str, changes: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_MS", 1_000)
    ran = streamactors("topics", "list", "--config", boss, *changes)
    assert ran.code == 1
    assert said in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "property 1: its form is NAME=VALUE"),
        ("sasl.jaas.config=Module required;", "sasl.jaas.config has no username and password"),
        ('sasl.jaas.config=M required username="i" password="h" tokenauth="true";', "no login by delegation tokens"),
        ("ssl.truststore.location=/no/such/file", "ssl.truststore.location=/no/such/file: cannot read it"),
    ],
)
def test_a_file_that_cannot_be(streamactors: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad").write_text(text)
    ran = streamactors("topics", "list", "--config", str(tmp_path / "bad"))
    assert (ran.code, said in ran.err) == (2, True)


def test_a_java_store_is_named(streamactors: Run, tmp_path: Path) -> None:
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed")
    (tmp_path / "bad").write_text(f"ssl.truststore.location={tmp_path / 'store.jks'}")
    assert "keytool -importkeystore" in streamactors("topics", "list", "--config", str(tmp_path / "bad")).err


def test_librdkafkas_names_stay_and_a_password_keeps_its_signs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("sasl.password=a=b#c\n! comment\nlinger.ms=5\nkey.serializer=x\n")
    assert properties_of(tmp_path / "file") == {"sasl.password": "a=b#c", "linger.ms": "5"}


def test_a_login_by_tokens_of_a_java_client_becomes_that_of_librdkafka(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    (tmp_path / "file").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://provider/token\n"
        "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f'sasl.jaas.config={module} clientId="tool" clientSecret="a b" scope="kafka";\n'
    )
    found = properties_of(tmp_path / "file")
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://provider/token",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "tool",
        "sasl.oauthbearer.client.secret": "a b",
        "sasl.oauthbearer.scope": "kafka",
    }
    AdminClient({"bootstrap.servers": "127.0.0.1:1", **found})  # librdkafka takes them
    assert credentials_of(found).token is not None
    (tmp_path / "file").write_text(f'sasl.jaas.config={module} unsecuredLoginStringClaim_sub="ann";')
    assert properties_of(tmp_path / "file") == {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=ann",
    }


def test_certificates(streamactors: Run, tmp_path: Path) -> None:
    ran = streamactors("certificates", str(tmp_path / "tls"))
    assert (ran.code, (tmp_path / "tls" / "ca.pem").exists()) == (0, True)
    assert (tmp_path / "tls" / "server.pem").stat().st_mode & 0o077 == 0
    again = streamactors("certificates", str(tmp_path / "tls"))
    assert (again.code, "exists; name another folder" in again.err) == (1, True)


def test_consume_of_an_empty_topic_needs_the_right_to_read(streamactors: Run, boss: str, broker: Cluster) -> None:
    broker.create_topic("empty")
    ann = ("--config", boss, "-X", "sasl.username=ann", "-X", "sasl.password=a")
    ran = streamactors(
        "consume", "empty", *ann
    )  # it printed nothing and ended with 0, or said that there is no such topic
    assert ran.code == 1
    assert "user ann may not READ topic empty at" in ran.err
    assert ran.err.endswith("allows it with: streamactors acls add ann read topic empty\n")
    ran = streamactors("produce", "empty", *ann, stdin=b"x\n")
    assert (ran.code, "user ann may not WRITE topic empty at" in ran.err) == (1, True)


def test_check_names_the_missing_rights_of_the_whole_graph(
    streamactors: Run, boss: str, broker: Cluster, tmp_path: Path
) -> None:
    properties = broker.client_properties("ann")
    servers = properties.pop("bootstrap.servers")
    (tmp_path / "lacking.py").write_text(
        "from streamactors import Sink, Source\n"
        "from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions\n"
        f"settings = ConsumerSettings({servers!r}, 'g', properties={properties!r})\n"
        "first, second = (Consumer.source(settings, Subscriptions.topics(name)) for name in ('orders', 'more'))\n"
        "graph = first.merge(second).to(Sink.ignore())\n"
    )
    for arguments in (["check"], ["run", "--dry-run"]):
        ran = streamactors(*arguments, f"{tmp_path / 'lacking.py'}:graph")
        assert ran.code == 1
        for topic in ("orders", "more"):
            assert f"user ann may not READ topic {topic}, READ group g at {servers}" in ran.err
