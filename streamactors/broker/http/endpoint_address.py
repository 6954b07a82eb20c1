"""Where a process serves its metrics, and the token that its readers send. On loopback each start makes a token, unless a file has one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from streamactors.broker.config.listeners import parse_address
from streamactors.broker.config.setting import InvalidSetting

if TYPE_CHECKING:
    import ssl

LOOPBACK: Final = ("localhost", "127.", "::1")


class MetricsEndpoint(NamedTuple):
    """Where pages are served, and the token that readers send. `certificate` is a PEM file with chain and key; None for plain HTTP.

    `made`: the token was made for this start, so it has to be printed. `probes_without_token`: /live and /ready say their word to everybody; on
    loopback always."""

    host: str
    port: int
    token: str
    certificate: str | None = None
    made: bool = False
    probes_without_token: bool = True

    @classmethod
    def of(
        cls,
        address: str,
        token_file: str | None = None,
        certificate: str | None = None,
        *,
        probes_without_token: bool = False,
    ) -> MetricsEndpoint:
        """Return the endpoint of `--metrics-port`; the host is loopback unless given. Raises InvalidSetting.

        Without a file an address of loopback gets a token that is made here. For other addresses the token must be in a file, because their
        readers need one that stays the same."""
        text = address.strip()
        _, host, port = parse_address("--metrics-port", f"127.0.0.1:{text}" if text.isdecimal() else text)
        token = None if token_file is None else _token(token_file)
        local = host.startswith(LOOPBACK)
        if token is None and not local:
            raise InvalidSetting(
                f"--metrics-port={address}: other hosts reach this address, so it needs a token; write one into a file and give "
                "--metrics-token-file FILE",
                name="--metrics-port",
                value=address,
            )
        if certificate is not None:
            tls_context(certificate)  # a wrong file is an error at the start
        if token is None:
            import secrets  # only where it is used

            return cls(host, port, secrets.token_urlsafe(24), certificate, True)
        return cls(host, port, token, certificate, False, local or probes_without_token)


def _token(file: str) -> str:
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"--metrics-token-file={file}: {error}", name="--metrics-token-file", value=file) from None
    if not token:
        raise InvalidSetting(f"--metrics-token-file={file}: the file is empty", name="--metrics-token-file", value=file)
    return token


def tls_context(certificate: str) -> ssl.SSLContext:
    """Return the TLS settings of a server with this certificate. Raises InvalidSetting."""
    import ssl  # OpenSSL: only where it is used

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate)
    except (OSError, ssl.SSLError) as error:
        raise InvalidSetting(
            f"--metrics-certificate={certificate}: {error.strerror or error}; it is a PEM file with the certificate chain and its key",
            name="--metrics-certificate",
            value=certificate,
        ) from None
    return context
