"""Key stores and trust stores of Java in PKCS12 form, at the listener and at clients; the old form (JKS) is refused with the way out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from confluent_kafka.admin import AdminClient

from streamactors.broker import Cluster
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import inter_broker_listener
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.security.client_credentials import credentials_of
from streamactors.broker.security.java_stores import UnusableStore, is_java_store, store_of
from streamactors.broker.security.node_credentials import credentials_of_nodes
from streamactors.broker.security.tls import Tls, TlsSettings, make_context
from streamactors.broker.wire_request import call
from streamactors.cli.main import run
from streamactors.cli.property_file import properties_of

pkcs12 = pytest.importorskip("cryptography.hazmat.primitives.serialization.pkcs12")
from cryptography import x509  # noqa: E402
from cryptography.hazmat.primitives.serialization import (  # noqa: E402
    BestAvailableEncryption,
    load_pem_private_key,
)

PASSWORD = "s€cret 1"
DESCRIBE_CLUSTER = (60, 0)


class Files(NamedTuple):
    server: Path
    client: Path
    trust: Path
    jks: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("stores")
    authority = trustme.CA()
    (root,) = x509.load_pem_x509_certificates(authority.cert_pem.bytes())
    encryption = BestAvailableEncryption(PASSWORD.encode())
    for name, made in (
        ("server", authority.issue_cert("localhost", "127.0.0.1")),
        ("client", authority.issue_cert(common_name="ann")),
    ):
        own = x509.load_pem_x509_certificates(made.cert_chain_pems[0].bytes())[0]
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        store = pkcs12.serialize_key_and_certificates(name.encode(), key, own, [root], encryption)
        (folder / f"{name}.p12").write_bytes(store)
    trusted = pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(root, b"root")], encryption)
    (folder / "trust.p12").write_bytes(trusted)
    (folder / "old.jks").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    return Files(*(folder / name for name in ("server.p12", "client.p12", "trust.p12", "old.jks")))


@pytest.fixture(scope="module")
def running(files: Files):
    config = {
        "ssl.keystore.location": str(files.server),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "JKS",  # Apache Kafka's default, and what many files say of a PKCS12 store
        "ssl.truststore.location": str(files.trust),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
    }
    with Cluster(listen="SSL://127.0.0.1:0", config=config) as cluster:
        yield cluster


@pytest.fixture
def java_properties(files: Files, tmp_path: Path) -> Path:
    """A file as Apache Kafka's tools read it."""
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.truststore.location={files.trust}\nssl.truststore.password={PASSWORD}\nssl.truststore.type=PKCS12\n"
        f"ssl.keystore.location={files.client}\nssl.keystore.password={PASSWORD}\nssl.keystore.type=PKCS12\nssl.key.password={PASSWORD}\n"
    )
    return file


def test_librdkafka_and_this_package_come_in_with_the_stores_of_a_java_client(
    running: Cluster, java_properties: Path
) -> None:
    found = properties_of(java_properties)
    client = AdminClient({"bootstrap.servers": running.bootstrap_servers, **found})
    assert client.list_topics(timeout=30).cluster_id == running.cluster_id
    answer = call(running.bootstrap_servers, DESCRIBE_CLUSTER, {}, credentials=credentials_of(found))
    assert answer.cluster_id == running.cluster_id


def test_a_command_takes_the_properties_of_a_java_client(
    running: Cluster, java_properties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--bootstrap", running.bootstrap_servers, "--config", str(java_properties)]
    assert run(["topics", "create", "orders", *at]) == 0, capsys.readouterr()
    assert run(["transactions", "list", *at]) == 0, capsys.readouterr()


def test_a_key_store_has_the_key_and_its_chain_and_a_trust_store_the_authorities(files: Files) -> None:
    server, trust = store_of(str(files.server), PASSWORD), store_of(str(files.trust), PASSWORD)
    assert "PRIVATE KEY" in server.key
    assert server.chain.count("BEGIN CERTIFICATE") == 2
    assert (trust.key, trust.chain) == ("", "")
    assert trust.authorities.count("BEGIN CERTIFICATE") == 1


def test_what_cannot_be_read_is_refused_with_the_way_out(files: Files, tmp_path: Path) -> None:
    with pytest.raises(UnusableStore, match="the password is wrong"):
        store_of(str(files.server), "wrong")
    with pytest.raises(UnusableStore, match=r"\(JKS\); convert it: keytool -importkeystore -srckeystore .*old\.jks"):
        store_of(str(files.jks), "")
    with pytest.raises(InvalidSetting, match=r"^ssl\.keystore\.location: .*the password is wrong"):
        make_context(TlsSettings(keystore_location=str(files.server), keystore_password="wrong"))
    assert not is_java_store(str(tmp_path / "none"))


def test_without_cryptography_the_error_has_the_command_that_exports_the_store(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(UnusableStore, match=r"streamactors\[tls\].*openssl pkcs12 -in .*server\.p12 -nodes"):
        store_of(str(files.server), PASSWORD)


def test_a_renewed_store_is_used_for_new_connections(files: Files, tmp_path: Path) -> None:
    """As a PEM file: its time is looked at, at most once a second."""
    store = tmp_path / "server.p12"
    store.write_bytes(files.server.read_bytes())
    now_s = [0.0]
    tls = Tls(TlsSettings(keystore_location=str(store), keystore_password=PASSWORD), lambda: now_s[0])
    first = tls.context()
    store.write_bytes(files.client.read_bytes())
    now_s[0] = 1.0
    assert tls.context() is not first


def test_nodes_connect_to_each_other_with_the_stores(running: Cluster, files: Files) -> None:
    settings = {
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.location": str(files.client),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(files.trust),
        "ssl.truststore.password": PASSWORD,
    }
    config = BrokerConfig.of(settings)
    door = credentials_of_nodes(config, inter_broker_listener(config))
    assert call(running.bootstrap_servers, DESCRIBE_CLUSTER, {}, credentials=door).cluster_id == running.cluster_id
    wrong = BrokerConfig.of({**settings, "ssl.keystore.password": "wrong"})
    with pytest.raises(InvalidSetting, match="the password is wrong"):
        credentials_of_nodes(wrong, inter_broker_listener(wrong))
