"""SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the password is never on the wire, nor kept by the broker.

An unknown user gets a made-up salt, always the same for a name, on every broker of the cluster and after a restart, and fails at the last step
as a wrong password does. The program that sets a password chooses the length of the salt and the number of iterations, so an unknown user gets
those of a user that exists. The answers do
not tell which users exist, as long as one program sets all passwords."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

from streamactors.broker.security.sasl.mechanism import MIN_ITERATIONS, AuthenticationFailed

_FIRST: Final = re.compile(
    r"(?P<gs2>n,(?:a=(?P<identity>[^,]*))?,)(?:m=[^,]*,)?n=(?P<user>[^,]*),r=(?P<nonce>[!-+\--~]+)(?P<more>,.*)?"
)
_LAST: Final = re.compile(
    r"(?P<bare>c=(?P<channel>[^,]*),r=(?P<nonce>[!-+\--~]+)(?:,[a-oq-z]=[^,]*)*),p=(?P<proof>[^,]*)"
)
_BY_TOKEN: Final = "tokenauth=true"  # noqa: S105  # an extension of the protocol
"""The extension by which a client says that its user is the id of a delegation token."""
PROCESS_SECRET: Final = secrets.token_bytes(32)
_SALT_BYTES: Final = 24
MAX_CLIENT_ITERATIONS: Final = 1 << 20
"""A server that requires more would keep this process busy for seconds."""


class ScramHash(NamedTuple):
    """One of the two mechanisms: its name, its code in Kafka's records and requests, and its hash."""

    name: str
    code: int
    digest: str

    def hash(self, text: bytes) -> bytes:
        return hashlib.new(self.digest, text).digest()

    def hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self.digest)

    def salted(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """Return Hi(password, salt, i) of the RFC."""
        return hashlib.pbkdf2_hmac(self.digest, password, salt, iterations)


SHA_256: Final = ScramHash("SCRAM-SHA-256", 1, "sha256")
SHA_512: Final = ScramHash("SCRAM-SHA-512", 2, "sha512")
HASHES: Final = {each.name: each for each in (SHA_256, SHA_512)}


class Credential(NamedTuple):
    """What the broker stores of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential_of(kind: ScramHash, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    """Return the credential of a salted password, as AlterUserScramCredentials has it."""
    client_key = kind.hmac(salted_password, b"Client Key")
    return Credential(salt, kind.hash(client_key), kind.hmac(salted_password, b"Server Key"), iterations)


def new_credential(kind: ScramHash, password: str, iterations: int = MIN_ITERATIONS) -> Credential:
    """Return a credential for a password, with a fresh salt."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return credential_of(kind, kind.salted(password.encode(), salt, iterations), salt, iterations)


def new_salt_secret() -> str:
    """Return a secret from which a cluster makes the salts of unknown users."""
    return secrets.token_hex(32)


class TokenLogin(NamedTuple):
    """What a login by a delegation token requires."""

    credential: Credential
    owner: str
    expires_at_ms: int


class Scram:
    """One login by SCRAM.

    `credential(user)` returns the stored credential of a user, None for an unknown one. `token(id)` returns the login of a delegation token.
    `example()` returns the credential of any user, None without users. `salt_secret()` returns the secret for the salts of unknown users."""

    def __init__(
        self,
        kind: ScramHash,
        credential: Callable[[str], Credential | None],
        token: Callable[[str], TokenLogin | None] = lambda _: None,
        example: Callable[[], Credential | None] = lambda: None,
        salt_secret: Callable[[], bytes] = lambda: PROCESS_SECRET,
    ) -> None:
        self._kind = kind
        self._salt_secret = salt_secret
        self._example = example
        self._credential_of = credential
        self._token_of = token
        self.by_token = False
        self.expires_at_ms: float | None = None
        self._owner = ""
        self._user = ""
        self._known = False
        self._credential = Credential(b"", b"", b"", 0)
        self._nonce = ""
        self._gs2 = ""
        self._messages = ""  # client-first-bare and server-first, for the signature
        self._proven = False
        self.principal: str | None = None

    def respond(self, token: bytes) -> bytes:
        """Take client-first or client-final."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise self._refused() from None
        if not self._nonce:
            return self._first(text)
        if self._proven:
            raise self._refused()
        return self._last(text)

    def _first(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise AuthenticationFailed(f"Invalid SASL/{self._kind.name} client first message")
        user = found["user"].replace("=2C", ",").replace("=3D", "=")
        identity = (found["identity"] or "").replace("=2C", ",").replace("=3D", "=")
        if identity and identity != user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        known = self._of_token(user) if _BY_TOKEN in (found["more"] or "").split(",") else self._credential_of(user)
        self._known = known is not None
        self._credential = known or self._made_up(user)
        self._user, self._gs2 = user, found["gs2"]
        self._nonce = found["nonce"] + secrets.token_urlsafe(18)
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._messages = f"{text[len(self._gs2) :]},{answer}"
        return answer.encode()

    def _last(self, text: str) -> bytes:
        found = _LAST.fullmatch(text)
        if found is None:
            raise AuthenticationFailed(f"Invalid SASL/{self._kind.name} client final message")
        kind, credential = self._kind, self._credential
        try:
            channel = base64.b64decode(found["channel"], validate=True)
            proof = base64.b64decode(found["proof"], validate=True)
        except (binascii.Error, ValueError):
            raise self._refused() from None
        signed = f"{self._messages},{found['bare']}".encode()
        signature = kind.hmac(credential.stored_key, signed)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        right = hmac.compare_digest(kind.hash(client_key), credential.stored_key)
        if not (self._known and right and found["nonce"] == self._nonce and channel == self._gs2.encode()):
            raise self._refused()
        self._proven = True
        self.principal = self._owner or f"User:{self._user}"
        return b"v=" + base64.b64encode(kind.hmac(credential.server_key, signed))

    def _of_token(self, token_id: str) -> Credential | None:
        login = self._token_of(token_id)
        self.by_token = True
        if login is None:
            return None
        self._owner, self.expires_at_ms = login.owner, login.expires_at_ms
        return login.credential

    def _made_up(self, user: str) -> Credential:
        like = self._example()
        size, iterations = (_SALT_BYTES, MIN_ITERATIONS) if like is None else (len(like.salt), like.iterations)
        salt = hashlib.pbkdf2_hmac("sha256", self._salt_secret(), user.encode(), 1, size or _SALT_BYTES)
        nothing = self._kind.hash(salt)
        return Credential(salt, nothing, nothing, iterations)

    def _refused(self) -> AuthenticationFailed:
        return AuthenticationFailed(
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {self._kind.name}"
        )


class ScramClient:
    """The client's side of the exchange: for connections that the broker itself opens. `token`: the user is the id of a delegation token, the
    password its secret in base64."""

    def __init__(self, kind: ScramHash, user: str, password: str, *, token: bool = False) -> None:
        self._kind = kind
        self._password = password.encode()
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._nonce = secrets.token_urlsafe(18)
        self._first_bare = f"n={escaped},r={self._nonce}{f',{_BY_TOKEN}' if token else ''}"
        self._expected = b""

    def first(self) -> bytes:
        """Return client-first."""
        return f"n,,{self._first_bare}".encode()

    def last(self, challenge: bytes) -> bytes:
        """Return client-final for server-first. Raises AuthenticationFailed if that message is invalid."""
        text = challenge.decode(errors="replace")
        fields = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        if not fields.keys() >= {"r", "s", "i"} or not fields["r"].startswith(self._nonce):
            raise AuthenticationFailed("the server's first message does not answer ours")
        try:
            salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        except ValueError:
            raise AuthenticationFailed("the server's first message has no salt or no number of iterations") from None
        if not 1 <= iterations <= MAX_CLIENT_ITERATIONS:
            raise AuthenticationFailed(
                f"the server wants {iterations} iterations; this client makes 1 to {MAX_CLIENT_ITERATIONS}"
            )
        salted = self._kind.salted(self._password, salt, iterations)
        client_key = self._kind.hmac(salted, b"Client Key")
        bare = f"c={base64.b64encode(b'n,,').decode()},r={fields['r']}"
        signed = f"{self._first_bare},{text},{bare}".encode()
        signature = self._kind.hmac(self._kind.hash(client_key), signed)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
        server_key = self._kind.hmac(salted, b"Server Key")
        self._expected = b"v=" + base64.b64encode(self._kind.hmac(server_key, signed))
        return f"{bare},p={proof}".encode()

    def check(self, answer: bytes) -> None:
        """Check that the server knows the password, too. Raises AuthenticationFailed."""
        if not hmac.compare_digest(answer, self._expected):
            raise AuthenticationFailed("the server did not prove that it knows the password")
