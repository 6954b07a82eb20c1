"""The protection of one listener: its protocol, its TLS, the mechanisms of its logins, and how principals are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from streamactors.broker.config.listeners import controller_listener, inter_broker_listener, listener_specs
from streamactors.broker.config.security_settings import LISTENER_PREFIX, SecuritySettings
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.metadata.metadata_record import BROKER_RESOURCE
from streamactors.broker.security.login import Login, Mechanisms
from streamactors.broker.security.principal_mapping import PrincipalMapping
from streamactors.broker.security.sasl.mechanism import Mechanism

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import BrokerConfig
    from streamactors.broker.metadata.cache import MetadataCache
    from streamactors.broker.security.delegation_tokens import DelegationTokens
    from streamactors.broker.security.tls import Tls, TlsSettings


class SecurityProtocol(IntEnum):
    """The protocol of a listener, with its code in registrations."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_login(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Protection:
    """How one listener protects its connections. `tls` is None without TLS; `login()` returns None without SASL."""

    def __init__(
        self,
        protocol: SecurityProtocol,
        tls: Tls | None = None,
        mechanisms: Mechanisms | None = None,
        max_session_ms: int = 0,
        mapping: PrincipalMapping | None = None,
        wall_ms: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.protocol: Final = protocol
        self.tls: Final = tls
        self.mapping: Final = mapping or PrincipalMapping()
        self._mechanisms = mechanisms
        self._max_session_ms = max_session_ms
        self._wall_ms = wall_ms

    def login(self) -> Login | None:
        """Return the login of a new connection."""
        if self._mechanisms is None:
            return None
        return Login(self._mechanisms, self._max_session_ms, self._wall_ms)


OPEN: Final = Protection(SecurityProtocol.PLAINTEXT)
"""A listener without protection."""


def protection_of(
    listener: str,
    protocol: SecurityProtocol,
    config: BrokerConfig,
    metadata: MetadataCache,
    tokens: DelegationTokens,
    wall_ms: Callable[[], float],
) -> Protection:
    """Return the protection of a listener. Raises InvalidSetting."""
    from streamactors.broker.security.tls import Tls  # loads OpenSSL, which an open broker does not need

    own = partial(config.of_listener, listener)
    tls = Tls(tls_settings(own)) if protocol.has_tls else None
    mechanisms = _mechanisms(listener, own, metadata, tokens) if protocol.has_login else None
    mapping = PrincipalMapping(own("ssl.principal.mapping.rules") or "DEFAULT")
    max_session_ms = int(own("connections.max.reauth.ms") or 0)
    return Protection(protocol, tls, mechanisms, max_session_ms, mapping, wall_ms)


def idle_settings(config: BrokerConfig) -> dict[str, str]:
    """Return the settings of TLS and logins that no listener uses, with the reason: the broker must not seem protected by them."""
    used = [spec.protocol for spec in listener_specs(config)]
    if config.is_one_of_several or config.controller_listener_names:
        used += [inter_broker_listener(config).protocol, controller_listener(config).protocol]
    protocols = [SecurityProtocol[each] for each in used]
    idle: dict[str, str] = {}
    for name in config.static:
        plain = name.removeprefix(LISTENER_PREFIX).partition(".")[2] if name.startswith(LISTENER_PREFIX) else name
        if plain.startswith("ssl.") and not any(each.has_tls for each in protocols):
            idle[name] = "no listener has TLS; name one SSL://… or SASL_SSL://…"
        elif plain.startswith("sasl.") and not any(each.has_login for each in protocols):
            idle[name] = "no listener has logins; name one SASL_SSL://… or SASL_PLAINTEXT://…"
    return idle


_Own = Callable[[str], str | None]


def tls_settings(own: _Own) -> TlsSettings:
    """Return the `ssl.*` settings of a listener. Raises InvalidSetting for a form of store that Java alone has."""
    from streamactors.broker.security.tls import TlsSettings

    for store in ("keystore", "truststore"):
        kind = own(f"ssl.{store}.type")
        if kind and kind.upper() not in ("PEM", "PKCS12", "JKS") and own(f"ssl.{store}.location"):
            raise InvalidSetting(
                f"ssl.{store}.type={kind}: this broker reads PEM and PKCS12; export the store, and set ssl.{store}.type=PEM",
                name=f"ssl.{store}.type",
                value=kind,
            )
    protocols = own("ssl.enabled.protocols")
    return TlsSettings(
        own("ssl.keystore.location"),
        own("ssl.keystore.certificate.chain"),
        own("ssl.keystore.key"),
        own("ssl.key.password"),
        own("ssl.truststore.location"),
        own("ssl.truststore.certificates"),
        own("ssl.client.auth") or "none",
        tuple(each.strip() for each in protocols.split(",")) if protocols else ("TLSv1.2", "TLSv1.3"),
        own("ssl.keystore.password"),
        own("ssl.truststore.password"),
    )


def _mechanisms(listener: str, own: _Own, metadata: MetadataCache, tokens: DelegationTokens) -> Mechanisms:
    names = [each.strip().upper() for each in (own("sasl.enabled.mechanisms") or "").split(",") if each.strip()]
    if not names:
        raise InvalidSetting(
            f"listener {listener} has logins and no mechanism; set sasl.enabled.mechanisms=SCRAM-SHA-512 (or "
            "SCRAM-SHA-256, PLAIN, OAUTHBEARER)",
            name="sasl.enabled.mechanisms",
        )
    return {name: _mechanism(name, listener, own, metadata, tokens) for name in names}


def _mechanism(
    name: str, listener: str, own: _Own, metadata: MetadataCache, tokens: DelegationTokens
) -> Callable[[], Mechanism]:
    from streamactors.broker.security.sasl import plain, scram

    if name == plain.NAME:
        passwords: Mapping[str, str] = plain.passwords_of(own("plain.sasl.jaas.config") or "")
        if not passwords:
            raise InvalidSetting(
                f"listener {listener}: PLAIN needs users; set listener.name.{listener.lower()}.plain.sasl.jaas.config="
                'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="PASSWORD";',
                name="sasl.enabled.mechanisms",
                value=name,
            )
        return lambda: plain.Plain(passwords)
    if (kind := scram.HASHES.get(name)) is not None:

        def credential(user: str) -> scram.Credential | None:
            kept = metadata.image.scram.get((user, kind.code))
            return (
                None if kept is None else scram.Credential(kept.salt, kept.stored_key, kept.server_key, kept.iterations)
            )

        def example() -> scram.Credential | None:
            users = (user for user, code in metadata.image.scram if code == kind.code)
            user = next(users, None)
            return None if user is None else credential(user)

        def salt_secret() -> bytes:
            """Until the cluster has a secret, each process uses its own: the credentials were made by a program older than the setting."""
            kept = metadata.image.configs.get((BROKER_RESOURCE, ""), {}).get(
                SecuritySettings.sasl_scram_salt_secret.name
            )
            return (kept or own(SecuritySettings.sasl_scram_salt_secret.name) or "").encode() or scram.PROCESS_SECRET

        return lambda: scram.Scram(kind, credential, partial(tokens.login, kind), example, salt_secret)
    if name == "OAUTHBEARER":
        from streamactors.broker.security.sasl.oauth import oauth_mechanism  # its library is an extra

        return oauth_mechanism(own)
    raise InvalidSetting(
        f"sasl.enabled.mechanisms={name}: this broker has SCRAM-SHA-256, SCRAM-SHA-512, PLAIN and OAUTHBEARER",
        name="sasl.enabled.mechanisms",
        value=name,
    )
