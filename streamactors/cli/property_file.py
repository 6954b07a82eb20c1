"""A file of client properties, with librdkafka's names or those of Apache Kafka's Java clients.

It holds one property per line. A JAAS line becomes user and password, a PEM trust store becomes `ssl.ca.location`, a PKCS12 trust store
`ssl.ca.pem`; librdkafka itself reads PKCS12 key stores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from streamactors.broker.security.java_stores import UnusableStore, is_java_store, store_of
from streamactors.broker.security.sasl.plain import options_of

_PROVIDER: Final = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_UNSIGNED: Final = "unsecuredLoginStringClaim_sub"
_JAVA_ONLY: Final = [
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.trustmanager.algorithm",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
]
_RENAMED: Final = {
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_TRUST_STORE: Final = "ssl.truststore.location"
_KEY_STORE: Final = "ssl.keystore.location"


def properties_of(path: Path) -> dict[str, str]:
    """Return the librdkafka properties of a file. Raises click.BadParameter naming the file, or the line that cannot be."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise click.BadParameter(f"{path}: cannot read it ({why})") from None
    given: dict[str, str] = {}
    for number, line in enumerate(_logical_lines(text), 1):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{path}, property {number}: its form is NAME=VALUE")  # a value may be a secret
        given[name.strip()] = value.strip()
    found: dict[str, str] = {}
    for name, value in given.items():
        found.update(_as_librdkafka(path, given, name, value))
    return found


def _logical_lines(text: str) -> list[str]:
    """Return the properties of a string, without comments, continued lines joined."""
    joined = re.sub(r"\\\r?\n\s*", "", text)
    return [line.strip() for line in joined.splitlines() if line.strip() and line.strip()[0] not in "#!"]


def _as_librdkafka(path: Path, given: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    if name == "sasl.jaas.config":
        return _of_login(path, options_of(value))
    if name in (_TRUST_STORE, _KEY_STORE):
        return _of_store(path, name, value, given.get(name.replace("location", "password"), ""))
    if name in _JAVA_ONLY:
        return {}
    return {_RENAMED.get(name, name): value}


def _of_login(path: Path, options: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a JAAS line: user and password, the client at a provider of tokens, or the user of a token without a signature."""
    if options.get("tokenauth", "").lower() == "true":
        raise click.BadParameter(
            f'{path}: sasl.jaas.config has tokenauth="true": librdkafka has no login by delegation tokens; log in as the user'
        )
    if "username" in options and "password" in options:
        return {"sasl.username": options["username"], "sasl.password": options["password"]}
    if "clientId" in options:
        given = {name: options[option] for option, name in _PROVIDER.items() if option in options}
        return {"sasl.oauthbearer.method": "oidc", **given}
    if _UNSIGNED in options:
        config = f"principal={options[_UNSIGNED]}"
        return {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": config}
    raise click.BadParameter(f"{path}: sasl.jaas.config has no username and password")


def _of_store(path: Path, name: str, store: str, password: str) -> dict[str, str]:
    """Return the properties of a trust store or key store: a PEM file, or a PKCS12 file of Java."""
    try:
        with open(store, "rb"):
            pass
        if not is_java_store(store):
            if name == _KEY_STORE:
                return {"ssl.certificate.location": store, "ssl.key.location": store}
            return {"ssl.ca.location": store}
        content = store_of(store, password)
    except OSError as error:
        raise click.BadParameter(f"{path}: {name}={store}: cannot read it ({error.strerror})") from None
    except UnusableStore as error:
        raise click.BadParameter(f"{path}: {name}: {error}") from None
    return {name: store} if name == _KEY_STORE else {"ssl.ca.pem": content.authorities}
