"""Settings of TLS, logins and the authoriser. Names and defaults: Apache Kafka's broker configs.

Each of `ssl.*` and `sasl.*` may be given for one listener alone, as `listener.name.NAME.ssl.…`. PEM or PKCS12 replaces Java's old key stores
(JKS)."""

from __future__ import annotations

from typing import Final

from streamactors.broker.config.checks import at_least, one_of
from streamactors.broker.config.declare import boolean, integer, long, optional_text, secret, text, words
from streamactors.broker.config.setting import Settings

LISTENER_PREFIX: Final = "listener.name."
PER_LISTENER: Final = (
    "ssl.",
    "sasl.",
    "plain.",
    "scram-sha-256.",
    "scram-sha-512.",
    "oauthbearer.",
    "connections.max.reauth.ms",
)


class SecuritySettings(Settings):
    """TLS, SASL and rights."""

    __slots__ = ()

    allow_everyone_if_no_acl_found = boolean(
        False, "With an authoriser: allow everything on a resource that no access control entry names."
    )
    authorizer_class_name = text(
        "",
        "The authoriser: org.apache.kafka.metadata.authorizer.StandardAuthorizer, which is built in; empty: every client may do everything.",
        one_of("", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    )
    connections_max_reauth_ms = long(
        0,
        "A login lasts this long; the client logs in again on the open connection (KIP-368). 0 means no end.",
        at_least(0),
    )
    connection_failed_authentication_delay_ms = integer(
        100, "Wait this long before a failed login is answered, against guessing.", at_least(0)
    )
    delegation_token_expiry_time_ms = long(
        86_400_000, "A delegation token expires after this time unless it is renewed.", at_least(1)
    )
    delegation_token_max_lifetime_ms = long(
        604_800_000, "No renewal lets a delegation token live longer than this.", at_least(1)
    )
    delegation_token_secret_key = secret(
        "The key from which the secrets of delegation tokens are made, the same on every broker. Without it tokens are off."
    )
    plain_sasl_jaas_config = secret(
        'Users of PLAIN, as `PlainLoginModule required user_ann="PASSWORD";`. Apache Kafka reads it per listener only.'
    )
    sasl_enabled_mechanisms = words(
        (),
        "Mechanisms of SASL listeners: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER. Apache Kafka's default is GSSAPI.",
    )
    sasl_mechanism_controller_protocol = text(
        "", "Mechanism of the login at the controllers' listener: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."
    )
    sasl_mechanism_inter_broker_protocol = text(
        "",
        "Mechanism of the login at the listener of other brokers: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    )
    sasl_oauthbearer_client_credentials_client_id = optional_text(
        "Logins to other nodes by OAUTHBEARER: this node's id at the provider of tokens. `clientId` of the JAAS options comes first."
    )
    sasl_oauthbearer_client_credentials_client_secret = secret(
        "The secret of that id; `clientSecret` of the JAAS options comes first."
    )
    sasl_oauthbearer_clock_skew_seconds = integer(
        30, "Difference of clocks that a token's times may have.", at_least(0)
    )
    sasl_oauthbearer_expected_audience = words((), "Audiences of which a token must name one; empty: not checked.")
    sasl_oauthbearer_expected_issuer = optional_text("The issuer that a token must name; unset: not checked.")
    sasl_oauthbearer_jwks_endpoint_url = optional_text(
        "The keys that sign tokens (JWKS): a file:// or http:// or https:// URL, read at the start and hourly."
    )
    sasl_oauthbearer_scope = optional_text(
        "Logins to other nodes by OAUTHBEARER: the scope that is asked for; `scope` of the JAAS options comes first."
    )
    sasl_oauthbearer_sub_claim_name = text("sub", "The claim of a token that names the user.")
    sasl_oauthbearer_token_endpoint_url = optional_text(
        "Logins to other nodes by OAUTHBEARER: the provider of tokens, an http:// or https:// URL, or the file:// URL of a file that holds a token."
    )
    sasl_scram_salt_secret = secret(
        "Makes the salts that SCRAM shows for unknown users, the same on every broker and after a restart. The controller sets it for the "
        "cluster with the first SCRAM credential. Apache Kafka has no such setting: it refuses an unknown user at the first step.",
        dynamic=True,
    )
    ssl_client_auth = text(
        "none", "Certificates of clients: none, requested or required.", one_of("none", "requested", "required")
    )
    ssl_enabled_protocols = words(("TLSv1.2", "TLSv1.3"), "Versions of TLS: TLSv1.2, TLSv1.3.")
    ssl_endpoint_identification_algorithm = text(
        "https",
        "For connections to other nodes: https checks that the certificate has the node's host name; empty does not.",
        one_of("https", ""),
    )
    ssl_key_password = secret("Password of the private key.")
    ssl_keystore_certificate_chain = secret("The certificate chain itself, as PEM; instead of ssl.keystore.location.")
    ssl_keystore_key = secret("The private key itself, as PEM; with ssl.keystore.certificate.chain.")
    ssl_keystore_location = optional_text(
        "File with the private key and the certificate chain: PEM, or a PKCS12 store."
    )
    ssl_keystore_password = secret("Password of a PKCS12 key store.")
    ssl_keystore_type = text(
        "PEM",
        "Form of the key store: PEM or PKCS12, as the file itself says. JKS is taken for a file that is PKCS12, as Java does; it is Apache "
        "Kafka's default.",
    )
    ssl_principal_mapping_rules = text(
        "DEFAULT", "Rules that turn a certificate's subject into a user's name (KIP-371)."
    )
    ssl_truststore_certificates = secret("Certificates that sign those of clients, as PEM; instead of a file.")
    ssl_truststore_location = optional_text(
        "File with the authorities that sign the certificates of clients and of other nodes: PEM, or a PKCS12 store."
    )
    ssl_truststore_password = secret("Password of a PKCS12 trust store.")
    ssl_truststore_type = text("PEM", "Form of the trust store, as `ssl.keystore.type`.")
    super_users = text("", "Principals who may do everything, as `User:admin;User:other`.")
