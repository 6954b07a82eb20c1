"""How this node connects to the other nodes of its cluster: TLS from its `ssl.*` settings, the login from a mechanism and its JAAS options.

Owner: the server, at the start. As in Apache Kafka, `listener.name.NAME.SETTING` overrides SETTING, and this node shows the certificate that its
own listeners show."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import PeerListener
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.security.client_login import ListenerCredentials
from streamactors.broker.security.client_tls import Trust
from streamactors.broker.security.node_token import NodeToken
from streamactors.broker.security.oauth_tokens import token_of_endpoint
from streamactors.broker.security.protection import tls_settings
from streamactors.broker.security.sasl.plain import options_of

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PROVIDER: Final = "sasl.oauthbearer.token.endpoint.url"
_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a name


def credentials_of_nodes(config: BrokerConfig, peer: PeerListener) -> ListenerCredentials | None:
    """Return the TLS and the login for a listener; None if it has neither. Raises InvalidSetting naming the setting that is missing or wrong."""
    trust = _trust(config, peer.name) if peer.protocol.endswith("SSL") else None
    if not peer.protocol.startswith("SASL_"):
        return None if trust is None else ListenerCredentials(trust=trust)
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
    if mechanism == "OAUTHBEARER":
        token = NodeToken(partial(token_of_endpoint, _provider(config, peer, options)))
        return ListenerCredentials(mechanism=mechanism, token=token.current, prepare=token.renew, trust=trust)
    if not options.get("username") or not options.get("password"):
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        setting = f"listener.name.{peer.name.lower()}.{jaas}"
        raise InvalidSetting(
            f"{setting} has no username and password, with which this node logs in to the others; set it to "
            f'org.apache.kafka.common.security.{module}LoginModule required username="NODE" password="PASSWORD";',
            name=setting,
        )
    return ListenerCredentials(mechanism=mechanism, user=options["username"], password=options["password"], trust=trust)


def _provider(config: BrokerConfig, peer: PeerListener, options: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the provider of tokens. The options of the login come before the settings."""
    own = partial(config.of_listener, peer.name)
    url = own(_PROVIDER) or ""
    if not url.startswith(("http://", "https://", "file:")):
        raise InvalidSetting(
            f"{_PROVIDER}={url}: listener {peer.name} of the other nodes wants a login by OAUTHBEARER; give the http:// or https:// URL of the "
            "provider of tokens, or the file:// URL of a file that holds a token",
            name=_PROVIDER,
            value=url,
        )
    found = {
        _PROVIDER: url,
        _ID: options.get("clientId") or own(_ID) or "",
        _SECRET: options.get("clientSecret") or own(_SECRET) or "",
        "sasl.oauthbearer.scope": options.get("scope") or own("sasl.oauthbearer.scope") or "",
        "https.ca.location": own("ssl.truststore.location") or "",
        "https.ca.pem": own("ssl.truststore.certificates") or "",
    }
    for name, option in ((_ID, "clientId"), (_SECRET, "clientSecret")):
        if not url.startswith("file:") and not found[name]:
            raise InvalidSetting(
                f"{name} is not set, nor {option} of the JAAS options: this node needs both to get a token from {url}",
                name=name,
            )
    return found


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
        authority_password=settings.truststore_password or "",
        certificate_password=settings.keystore_password or "",
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
