"""TLS of a listener: the context made from Kafka's `ssl.*` settings, made again when a file has changed.

Certificates and keys are PEM, in files or in the settings themselves, or in PKCS12 stores. A new connection looks at the files' times, at most
once a second, so that renewed certificates are used without a restart; open connections keep theirs. If new files are unusable, the old context
stays."""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.security.java_stores import Store, UnusableStore, is_java_store, store_of

_log = logging.getLogger("streamactors.broker.security")

_LOOK_EVERY_S: Final = 1.0
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_SHORT: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}


class TlsSettings(NamedTuple):
    """The `ssl.*` settings of one listener, by the end of their names."""

    keystore_location: str | None = None
    keystore_certificate_chain: str | None = None
    keystore_key: str | None = None
    key_password: str | None = None
    truststore_location: str | None = None
    truststore_certificates: str | None = None
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    keystore_password: str | None = None
    truststore_password: str | None = None

    @property
    def files(self) -> list[str]:
        """The files that these settings name."""
        return [each for each in (self.keystore_location, self.truststore_location) if each]


class Tls:
    """The TLS context of one listener. Owner: the data plane."""

    def __init__(self, settings: TlsSettings, now_s: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._now_s = now_s
        self._looked_s = now_s()
        self._seen = self._times()
        self._context = make_context(settings)

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        now_s = self._now_s()
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            seen = self._times()
            if seen != self._seen:
                self._seen = seen
                self._renew()
        return self._context

    def _renew(self) -> None:
        try:
            self._context = make_context(self._settings)
            _log.info("the certificates of %s were read again", ", ".join(self._settings.files))
        except InvalidSetting as error:
            _log.warning("%s; the broker keeps the certificates that it has", error)

    def _times(self) -> list[tuple[int, int] | None]:
        found: list[tuple[int, int] | None] = []
        for each in self._settings.files:
            try:
                state = os.stat(each)
                found.append((state.st_mtime_ns, state.st_size))
            except OSError:
                found.append(None)
        return found


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the server's context. Raises InvalidSetting naming the setting that is wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    unknown = [each for each in settings.enabled_protocols if each not in _VERSIONS]
    if unknown or not settings.enabled_protocols:
        raise _refuse(
            "ssl.enabled.protocols", ",".join(settings.enabled_protocols), "this broker has TLSv1.2 and TLSv1.3"
        )
    versions = [_VERSIONS[each] for each in settings.enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    _load_key(context, settings)
    if settings.client_auth not in _CLIENT_AUTH:
        raise _refuse("ssl.client.auth", settings.client_auth, "it is none, requested or required")
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if context.verify_mode != ssl.CERT_NONE:
        _load_trust(context, settings)
    return context


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    password = settings.key_password
    if settings.keystore_location:
        path = settings.keystore_location
        if is_java_store(path):
            store = _store("ssl.keystore.location", path, settings.keystore_password)
            _load_text(context, store.key, store.chain, None, "ssl.keystore.location")
        else:
            _load_chain(context, path, path, password, "ssl.keystore.location")
    elif settings.keystore_certificate_chain and settings.keystore_key:
        _load_text(context, settings.keystore_key, settings.keystore_certificate_chain, password, "ssl.keystore.key")
    else:
        raise InvalidSetting(
            "a TLS listener needs a certificate and its key: ssl.keystore.location=FILE.pem, or "
            "ssl.keystore.certificate.chain and ssl.keystore.key; make some with: streamactors certificates",
            name="ssl.keystore.location",
        )


def _load_text(context: ssl.SSLContext, key: str, chain: str, password: str | None, setting: str) -> None:
    """The standard library loads a key from files only."""
    with tempfile.TemporaryDirectory(prefix="streamactors-tls-") as folder:
        path = os.path.join(folder, "key.pem")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{key.strip()}\n{chain.strip()}\n")
        _load_chain(context, path, path, password, setting)


def _load_chain(context: ssl.SSLContext, chain: str, key: str, password: str | None, setting: str) -> None:
    try:
        context.load_cert_chain(chain, key, password=lambda: password or "")
    except ssl.SSLError as error:
        why = error.reason or str(error)
        raise InvalidSetting(
            f"{setting}: no certificate with its key in PEM form ({why.lower().replace('_', ' ')}); the file holds the "
            "private key and the chain, the broker's own certificate first; ssl.key.password is the key's",
            name=setting,
        ) from None
    except OSError as error:
        raise InvalidSetting(f"{setting}: cannot read it ({error.strerror})", name=setting) from None


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.truststore_certificates:
        text = settings.truststore_certificates
    elif settings.truststore_location and is_java_store(settings.truststore_location):
        text = _store("ssl.truststore.location", settings.truststore_location, settings.truststore_password).authorities
    elif settings.truststore_location:
        try:
            text = Path(settings.truststore_location).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSetting(
                f"ssl.truststore.location={settings.truststore_location}: cannot read it ({error})",
                name="ssl.truststore.location",
            ) from None
    else:
        raise InvalidSetting(
            f"ssl.client.auth={settings.client_auth} needs the certificates that sign the clients': ssl.truststore.location=FILE.pem",
            name="ssl.truststore.location",
        )
    try:
        context.load_verify_locations(cadata=text)
    except ssl.SSLError as error:
        raise InvalidSetting(
            f"ssl.truststore.location: no certificate in PEM form ({error.reason})", name="ssl.truststore.location"
        ) from None


def _store(setting: str, path: str, password: str | None) -> Store:
    try:
        return store_of(path, password or "")
    except UnusableStore as error:
        raise InvalidSetting(f"{setting}: {error}", name=setting, value=path) from None


def _refuse(setting: str, value: str, way_out: str) -> InvalidSetting:
    return InvalidSetting(f"{setting}={value}: {way_out}", name=setting, value=value)


def distinguished_name(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the subject of a client's certificate as RFC 2253 writes it, None without one."""
    if not certificate:
        return None
    parts = [part for group in certificate.get("subject", ()) for part in group]
    return ",".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in reversed(parts))


def _escaped(value: str) -> str:
    text = "".join(f"\\{char}" if char in ',+"\\<>;' else char for char in value)
    if text[:1] in ("#", " "):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if len(text) > 1 and text.endswith(" ") and not text.endswith("\\ ") else text
