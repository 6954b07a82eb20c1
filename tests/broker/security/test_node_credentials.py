"""How a node connects to the others, by its settings: a missing or wrong setting is named before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.cluster.cluster_credentials import make_certificates
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import controller_listener, inter_broker_listener
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.security.client_login import ListenerCredentials
from streamactors.broker.security.node_credentials import credentials_of_nodes
from streamactors.broker.security.protection import idle_settings

BASE = {"inter.broker.listener.name": "IN", "controller.listener.names": "CTL"}
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="n1" password="p \\" w" user_n1="x";'


def between_brokers(protocol: str, **more: str) -> ListenerCredentials | None:
    names = {name.replace("__", "-").replace("_", "."): value for name, value in more.items()}
    config = BrokerConfig.of({**BASE, "listener.security.protocol.map": f"IN:{protocol},CTL:{protocol}", **names})
    return credentials_of_nodes(config, inter_broker_listener(config))


def test_an_open_listener_has_no_door() -> None:
    assert between_brokers("PLAINTEXT") is None


def test_the_login_is_by_the_mechanism_and_the_options_of_the_listener() -> None:
    found = between_brokers(
        "SASL_PLAINTEXT", sasl_mechanism_inter_broker_protocol="plain", listener_name_in_plain_sasl_jaas_config=LOGIN
    )
    assert found is not None
    assert (found.mechanism, found.user, found.password, found.tls) == ("PLAIN", "n1", 'p " w', None)


def test_controllers_have_a_mechanism_and_options_of_their_own() -> None:
    given = {
        **BASE,
        "listener.security.protocol.map": "IN:PLAINTEXT,CTL:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        "listener.name.ctl.scram-sha-512.sasl.jaas.config": "ScramLoginModule required username=c1 password=pw;",
    }
    config = BrokerConfig.of(given)
    found = credentials_of_nodes(config, controller_listener(config))
    assert found is not None
    assert (found.mechanism, found.user, found.password) == ("SCRAM-SHA-512", "c1", "pw")


def test_a_login_by_tokens_has_what_gets_them() -> None:
    found = between_brokers(
        "SASL_PLAINTEXT",
        sasl_mechanism_inter_broker_protocol="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="file:///run/token",
    )
    assert found is not None
    assert (found.mechanism, found.user) == ("OAUTHBEARER", "")
    assert found.token is not None
    assert found.prepare is not None


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({}, r"^sasl\.mechanism\.inter\.broker\.protocol=: listener IN .* needs a login; choose one of PLAIN, SCRAM"),
        ({"sasl_mechanism_inter_broker_protocol": "GSSAPI"}, r"^sasl\.mechanism\.inter\.broker\.protocol=GSSAPI: "),
        (
            {"sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-256"},
            r"^listener\.name\.in\.scram-sha-256\.sasl\.jaas\.config has no username and password",
        ),
        (
            {"sasl_mechanism_inter_broker_protocol": "OAUTHBEARER"},
            r"^sasl\.oauthbearer\.token\.endpoint\.url=: listener IN .* give the http:// or https:// URL of the provider",
        ),
        (
            {
                "sasl_mechanism_inter_broker_protocol": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": "https://provider/token",
                "sasl_oauthbearer_client_credentials_client_id": "node",
            },
            r"^sasl\.oauthbearer\.client\.credentials\.client\.secret is not set, nor clientSecret of the JAAS options",
        ),
    ],
)
def test_a_login_without_its_settings_is_refused_by_name(more: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidSetting, match=complaint):
        between_brokers("SASL_SSL", **more)


def test_tls_trusts_the_authority_of_the_settings_and_shows_the_certificate_of_the_node(tmp_path: Path) -> None:
    folder = make_certificates(tmp_path)
    server = {"ssl_keystore_location": str(folder / "server.pem"), "ssl_truststore_location": str(folder / "ca.pem")}
    found = between_brokers("SSL", **server)
    assert found is not None
    assert found.tls is not None
    assert (found.tls.authority, found.tls.certificate) == (str(folder / "ca.pem"), str(folder / "server.pem"))
    assert found.tls.checks_host
    unchecked = between_brokers("SSL", **server, ssl_endpoint_identification_algorithm="")
    assert unchecked is not None
    assert unchecked.tls is not None
    assert not unchecked.tls.checks_host


def test_a_trust_store_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="of listener IN: this node cannot connect to other nodes"):
        between_brokers("SSL", ssl_truststore_location=str(tmp_path / "none.pem"))


def test_settings_that_only_the_connections_between_nodes_use_are_not_idle() -> None:
    more = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093", "process.roles": "broker", "node.id": "2"}
    given = {"ssl.truststore.location": "ca.pem", "sasl.mechanism.controller.protocol": "PLAIN"}
    for protocol, idle in (
        ("PLAINTEXT", set(given)),
        ("SSL", {"sasl.mechanism.controller.protocol"}),
        ("SASL_SSL", set()),
    ):
        listeners = {"controller.listener.names": "CTL", "listener.security.protocol.map": f"CTL:{protocol}"}
        assert idle_settings(BrokerConfig.of({**more, **listeners, **given})).keys() == idle, protocol
