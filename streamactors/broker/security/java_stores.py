"""Java's key stores and trust stores in PKCS12 form, as PEM text, which OpenSSL takes.

A store is recognised by its first bytes, not by `ssl.keystore.type`: Java itself reads a PKCS12 file that is declared as JKS. Java's own old
form (JKS) needs Java.
Needs the extra `tls`."""

from __future__ import annotations

from typing import Final, NamedTuple

from streamactors.errors import StreamActorsError

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PKCS12: Final = b"\x30"


class UnusableStore(StreamActorsError, ValueError):
    """A store that cannot be read."""


class Store(NamedTuple):
    """The content of a store as PEM text. `chain` begins with the certificate of `key`; both are empty in a trust store."""

    key: str
    chain: str
    authorities: str


def is_java_store(path: str) -> bool:
    """Whether a file is a Java store and not PEM. False for an unreadable file."""
    head = _head(path)
    return head in _JKS or head[:1] == _PKCS12


def store_of(path: str, password: str) -> Store:
    """Return the content of a PKCS12 store. Raises UnusableStore naming the file and the way out."""
    if _head(path) in _JKS:
        raise UnusableStore(
            f"{path} is a Java key store of the old form (JKS); convert it: keytool -importkeystore -srckeystore {path} "
            "-destkeystore STORE.p12 -deststoretype PKCS12"
        )
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise UnusableStore(
            f"{path} is a PKCS12 store, which needs the package cryptography: pip install 'streamactors[tls]'; or give PEM: "
            f"openssl pkcs12 -in {path} -nodes -out STORE.pem"
        ) from None
    try:
        with open(path, "rb") as file:
            content = file.read()
        key, own, others = pkcs12.load_key_and_certificates(content, password.encode() if password else None)
    except OSError as error:
        raise UnusableStore(f"{path}: cannot read it ({error.strerror})") from None
    except ValueError:
        raise UnusableStore(f"{path} is not a PKCS12 store, or the password is wrong") from None

    def text(certificates: list[object]) -> str:
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)  # type: ignore[attr-defined]

    secret = "" if key is None else key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    chain = [] if own is None or key is None else [own, *others]
    return Store(secret, text([*chain]), text([each for each in (own, *others) if each is not None]))


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(4)
    except OSError:
        return b""
