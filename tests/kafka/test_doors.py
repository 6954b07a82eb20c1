"""What a client says when it cannot come in: one sentence with the address or the property, and the way out."""

from __future__ import annotations

import logging
import socket
from dataclasses import replace

import pytest

from streamactors.broker import Cluster
from streamactors.errors import BuildError
from streamactors.kafka import ConsumerSettings, MetadataClient, ProducerSettings
from streamactors.kafka.client.connection import SILENCE_MS as OF_USERS
from streamactors.kafka.client.connection import ClientConnection, ck
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.client.diagnosis.property_names import PROPERTY_NAMES, is_known
from streamactors.kafka.errors import KafkaError, NoBroker
from streamactors.kafka.property_rules import Properties


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ("http://localhost:9092", r"leave out http://"),
        ("localhost", r"'localhost' has no port; give localhost:9092"),
        ("localhost:99999", r"'99999' is not a port \(1 to 65535\)"),
        ("localhost:abc", r"'abc' is not a port"),
        ("localhost:0", r"'0' is not a port"),
        ("a:1,b", r"'b' has no port"),
        ("::1", r"give \[::1\]:9092"),
        ("local host:9092", r"'local host' is not a host name"),
        ("a:1,,b:2", r"'' has no port"),
    ],
)
def test_an_address_that_is_none_is_refused_when_the_settings_are_made(servers, said, monkeypatch):
    # librdkafka takes localhost:99999 for port 34463 and localhost:abc for port 0
    with pytest.raises(BuildError, match=said):
        ConsumerSettings(servers)
    monkeypatch.setenv("STREAMACTORS_KAFKA_BOOTSTRAP_SERVERS", servers)
    with pytest.raises(BuildError, match=said):
        ProducerSettings("localhost:1").client_properties()


@pytest.mark.parametrize("servers", ["a:1", "a.b-c_d:9092,[::1]:9093", "SASL_SSL://a:9", " a:1 , b:2 "])
def test_an_address_that_is_one_is_taken(servers):
    assert ConsumerSettings(servers).bootstrap_servers == servers


def test_a_port_that_takes_connections_and_is_silent_is_no_broker(monkeypatch):
    # it took 13 s, and the sentence said "no broker"
    monkeypatch.setattr(ClientConnection, "silence_ms", 300)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        settings = ConsumerSettings(address, preflight_timeout_ms=100)
        with pytest.raises(NoBroker, match=rf"something listens at {address} but has not answered as a Kafka broker"):
            MetadataClient(settings)
    assert OF_USERS < 5_000


def refused(**properties):
    names = {name.replace("_", "."): value for name, value in properties.items()}
    connection = ClientConnection(ConsumerSettings("localhost:1"))
    with pytest.raises(KafkaError) as error:
        connection.make(ck.Consumer, {"bootstrap.servers": "localhost:1", "group.id": "g", **names})
    return str(error.value)


def test_a_file_that_cannot_be_used_is_named_with_its_property(tmp_path):
    # librdkafka says "error:05880020:x509 certificate routines::BIO lib"
    missing, no_pem = tmp_path / "missing.pem", tmp_path / "no.pem"
    no_pem.write_text("nothing")
    for name in ("ssl_ca_location", "ssl_key_location", "ssl_certificate_location", "ssl_keystore_location"):
        assert f"{name.replace('_', '.')}={missing} cannot be read (No such file or directory)" in refused(
            security_protocol="ssl", **{name: str(missing)}
        )
    assert f"ssl.ca.location={no_pem} is no PEM file" in refused(security_protocol="ssl", ssl_ca_location=str(no_pem))


def test_a_login_that_this_client_does_not_have_is_named():
    sasl = {"security_protocol": "sasl_plaintext", "sasl_username": "client", "sasl_password": "consumer"}
    said = refused(sasl_mechanism="SCRAM-SHA512", **sasl)
    assert said.startswith(
        "consumer settings: did you mean SCRAM-SHA-512? sasl.mechanism=SCRAM-SHA512 is not supported"
    )
    assert "has no token; give oauth_cb" in refused(sasl_mechanism="OAUTHBEARER", security_protocol="sasl_plaintext")


def test_a_secret_that_reads_like_a_word_leaves_the_words_of_a_sentence_alone():
    # a user called "client" made it "Failed to create admin [hidden]"
    told = Properties({"sasl.username": "client", "sasl.password": "consumer", "ssl.key.password": "s3cret!key"})
    assert told.without_secrets("no consumer of a client") == "no consumer of a client"
    assert told.without_secrets('bad "consumer", password=consumer') == 'bad "[hidden]", password=[hidden]'
    assert told.without_secrets("key s3cret!key.") == "key [hidden]."


def test_a_login_that_the_broker_does_not_offer_names_those_that_it_offers():
    with Cluster(users={"ann": "pw"}, config={"sasl.enabled.mechanisms": "SCRAM-SHA-256"}) as cluster:
        properties = cluster.client_properties("ann", mechanism="PLAIN")
        settings = ConsumerSettings(properties.pop("bootstrap.servers"), properties=properties)
        with pytest.raises(NoBroker, match=r"no login by PLAIN; it offers SCRAM-SHA-256: set sasl.mechanism"):
            MetadataClient(replace(settings, preflight_timeout_ms=1_000))


# ── names of properties ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_property_is_refused_with_the_one_that_is_meant(cluster, settings):
    with pytest.raises(KafkaError, match=r"no client property 'fetch.min.byte'; did you mean fetch.min.bytes\?"):
        StreamConsumer(settings.with_property("fetch.min.byte", 1))
    # an admin client takes only what it needs: what it does not need was dropped without a word
    with pytest.raises(KafkaError, match=r"did you mean linger.ms\?"):
        MetadataClient(settings.with_property("lingr.ms", 1))
    with pytest.raises(KafkaError, match=r"give key=… to the sink"):
        MetadataClient(settings.with_property("key.serializer", "x"))


def test_a_property_without_effect_is_said_once(caplog, cluster, settings):
    with caplog.at_level(logging.WARNING, "streamactors.kafka"):
        for _ in range(2):
            StreamConsumer(settings.with_property("batch.num.messages", 7)).close()
    said = [each.getMessage() for each in caplog.records if each.name == "streamactors.kafka"]
    assert len([text for text in said if "batch.num.messages is a producer property" in text]) == 1


@pytest.mark.parametrize("name", sorted(PROPERTY_NAMES))
def test_librdkafka_knows_the_names_of_the_list(name):
    refusal = ""
    try:
        ck.Consumer({"group.id": "g", name: "no value of any property"}).close()
    except (ck.KafkaException, TypeError, ValueError) as error:
        refusal = str(error)
    assert "No such configuration property" not in refusal


def test_the_list_has_what_the_settings_give():
    settings = (ConsumerSettings("localhost:1", "g"), ProducerSettings("localhost:1", transactional_id="t"))
    assert [name for each in settings for name in each.client_properties() if not is_known(name)] == []
