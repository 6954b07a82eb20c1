"""How this node connects to the other nodes of its cluster: TLS from its `ssl.*` settings, the login from a mechanism and its JAAS options.

Owner: the server, at the start. As in Apache Kafka, `listener.name.NAME.SETTING` overrides SETTING, and this node shows the certificate that its
own listeners show."""

from __future__ import annotations

from functools import partial
from typing import Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import PeerListener
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.security.client_login import Door
from streamactors.broker.security.client_tls import Trust
from streamactors.broker.security.protection import tls_settings
from streamactors.broker.security.sasl.plain import options_of

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def door_of_nodes(config: BrokerConfig, peer: PeerListener) -> Door | None:
    """Return the TLS and the login for a listener; None if it has neither. Raises InvalidSetting naming the setting that is missing or wrong."""
    trust = _trust(config, peer.name) if peer.protocol.endswith("SSL") else None
    if not peer.protocol.startswith("SASL_"):
        return None if trust is None else Door(trust=trust)
    mechanism = (config.of_listener(peer.name, peer.mechanism_setting) or "").upper()
    if mechanism not in MECHANISMS:
        raise InvalidSetting(
            f"{peer.mechanism_setting}={mechanism}: listener {peer.name} of the other nodes is {peer.protocol}, which needs a login; "
            f"choose one of {', '.join(MECHANISMS)}",
            name=peer.mechanism_setting,
            value=mechanism,
        )
    jaas = f"{mechanism.lower()}.sasl.jaas.config"
    options = options_of(config.of_listener(peer.name, jaas) or "")
    if not options.get("username") or not options.get("password"):
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        setting = f"listener.name.{peer.name.lower()}.{jaas}"
        raise InvalidSetting(
            f"{setting} has no username and password, with which this node logs in to the others; set it to "
            f'org.apache.kafka.common.security.{module}LoginModule required username="NODE" password="PASSWORD";',
            name=setting,
        )
    return Door(mechanism=mechanism, user=options["username"], password=options["password"], trust=trust)


def _trust(config: BrokerConfig, listener: str) -> Trust:
    own = partial(config.of_listener, listener)
    settings = tls_settings(own)
    trust = Trust(
        settings.truststore_location or "",
        settings.truststore_certificates or "",
        certificate=settings.keystore_location,
        certificate_pem=settings.keystore_certificate_chain or "",
        key_pem=settings.keystore_key or "",
        key_password=settings.key_password or "",
        checks_host=own("ssl.endpoint.identification.algorithm") != "",
    )
    try:
        trust.context()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise InvalidSetting(
            f"ssl.truststore and ssl.keystore of listener {listener}: this node cannot connect to other nodes with them ({error}); give PEM files",
            name="ssl.truststore.location",
            value=settings.truststore_location or "",
        ) from None
    return trust
