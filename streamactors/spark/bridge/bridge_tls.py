"""TLS between the streaming process and Spark's workers: a certificate for one run, which its readers get together with the token."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from streamactors.spark.errors import SparkSetupError

_NAME = "streamactors-bridge"


class BridgeTls(NamedTuple):
    """The server's settings, and the certificate (PEM) that a reader trusts, and no other."""

    server: ssl.SSLContext
    authority: str


def tls_for_one_run() -> BridgeTls:
    """Make an authority and a certificate that live as long as this run. Raises SparkSetupError without the package trustme."""
    try:
        import trustme
    except ImportError:
        raise SparkSetupError(
            "SparkSinkSettings(encrypt=True) makes a certificate and needs the package trustme: pip install 'streamactors[tls]'"
        ) from None
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.minimum_version = ssl.TLSVersion.TLSv1_2
    authority.issue_cert(_NAME).configure_cert(server)
    return BridgeTls(server, authority.cert_pem.bytes().decode("ascii"))
