"""How this node enters the listeners of the other nodes of its cluster: TLS by its `ssl.*` settings, logins by a mechanism and its JAAS options.

Owner: the server, at the start. As in Apache Kafka, a setting of the listener by its own name (`listener.name.NAME.…`) comes before the general one,
and the certificate that this node shows is that of its own listeners."""

from __future__ import annotations

from functools import partial
from typing import Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import Entered
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.security.client_login import Door
from streamactors.broker.security.client_tls import Trust
from streamactors.broker.security.protection import tls_settings
from streamactors.broker.security.sasl.plain import options_of

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def door_of_nodes(config: BrokerConfig, entered: Entered) -> Door | None:
    """Return how this node enters a listener; None if it is open. Raises InvalidSetting naming the setting that is missing or wrong."""
    trust = _trust(config, entered.name) if entered.protocol.endswith("SSL") else None
    if not entered.protocol.startswith("SASL_"):
        return None if trust is None else Door(trust=trust)
    mechanism = (config.of_listener(entered.name, entered.mechanism_setting) or "").upper()
    if mechanism not in MECHANISMS:
        raise InvalidSetting(
            f"{entered.mechanism_setting}={mechanism}: listener {entered.name} of the other nodes is {entered.protocol}, so this node logs in; "
            f"choose one of {', '.join(MECHANISMS)}",
            name=entered.mechanism_setting,
            value=mechanism,
        )
    jaas = f"{mechanism.lower()}.sasl.jaas.config"
    options = options_of(config.of_listener(entered.name, jaas) or "")
    if not options.get("username") or not options.get("password"):
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        setting = f"listener.name.{entered.name.lower()}.{jaas}"
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
            f"ssl.truststore and ssl.keystore of listener {listener}: this node cannot enter the other nodes with them ({error}); both are PEM",
            name="ssl.truststore.location",
            value=settings.truststore_location or "",
        ) from None
    return trust
