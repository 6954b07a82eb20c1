"""The client's side of TLS: what it trusts, and the certificate that it shows. For the connections that this package opens itself."""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
from typing import NamedTuple

from streamactors.broker.security.java_stores import is_java_store, store_of


class Trust(NamedTuple):
    """Settings of TLS. An empty authority means those of the machine. A certificate as a PEM string is used instead of one in a file."""

    authority: str = ""  # a file, or a folder with hashed names
    authority_pem: str = ""
    certificate: str | None = None
    certificate_pem: str = ""
    key: str | None = None
    key_pem: str = ""
    key_password: str = ""
    revoked: str = ""  # a file of revoked certificates
    ciphers: str = ""
    checks_certificate: bool = True
    checks_host: bool = True
    authority_password: str = ""  # of a PKCS12 store
    certificate_password: str = ""  # of a PKCS12 store

    def context(self) -> ssl.SSLContext:
        """Return OpenSSL's context. Raises OSError for a file that cannot be used, also ssl.SSLError, and UnusableStore."""
        file = None if os.path.isdir(self.authority) else self.authority or None
        folder = self.authority if file is None else None
        authorities = self.authority_pem
        if file is not None and is_java_store(file):
            authorities, file = store_of(file, self.authority_password).authorities, None
        context = ssl.create_default_context(cafile=file, capath=folder or None, cadata=authorities or None)
        if self.ciphers:
            context.set_ciphers(self.ciphers)
        if self.revoked:
            context.load_verify_locations(self.revoked)
            context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        if not self.checks_host or not self.checks_certificate:
            context.check_hostname = False
        if not self.checks_certificate:
            context.verify_mode = ssl.CERT_NONE
        self._show(context)
        return context

    def _show(self, context: ssl.SSLContext) -> None:
        # always give a password, even an empty one: without it OpenSSL asks for the key's password at the terminal
        password = self.key_password
        chain, key = self.certificate_pem, self.key_pem
        if self.certificate and not chain and is_java_store(self.certificate):
            store = store_of(self.certificate, self.certificate_password)
            chain, key = store.chain, store.key
        if chain:
            with tempfile.NamedTemporaryFile(
                "w"
            ) as both:  # OpenSSL takes files only; the file is readable by its owner alone
                both.write(f"{chain}\n{key}\n")
                both.flush()
                context.load_cert_chain(both.name, password=password)
        elif self.certificate:
            context.load_cert_chain(self.certificate, self.key, password)


def encrypted(connection: socket.socket, host: str, trust: Trust | None) -> socket.socket:
    """Complete the TLS handshake and return the encrypted connection; without `trust` return the connection itself. Raises OSError."""
    return connection if trust is None else trust.context().wrap_socket(connection, server_hostname=host)
