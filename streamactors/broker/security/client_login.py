"""The client's side of a login by PLAIN, SCRAM or OAUTHBEARER. For the connections that this package opens itself."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, NamedTuple

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.security.client_tls import Trust
from streamactors.broker.security.sasl.mechanism import AuthenticationFailed
from streamactors.broker.security.sasl.scram import HASHES, ScramClient

HANDSHAKE: Final = (17, 1)
AUTHENTICATE: Final = (36, 2)
Question = tuple[tuple[int, int], dict[str, Any]]
"""A request: (key, version) and body."""
Ask = Callable[[tuple[int, int], dict[str, Any]], Any]
"""Sends a request of (key, version) and returns its answer."""


class BearerToken(NamedTuple):
    """A token (JWT) and the SASL extensions that are sent with it."""

    text: str
    extensions: Mapping[str, str] = {}


class ListenerCredentials(NamedTuple):
    """How to connect to a listener: the file of the authority that TLS trusts (None: no TLS; empty: the machine's), mechanism, user, password."""

    authority: str | None = None
    mechanism: str = ""
    user: str = ""
    password: str = ""
    certificate: str | None = None
    key: str | None = None
    token: Callable[[], BearerToken] | None = None
    prepare: Callable[[], object] | None = None
    """What must be done before each connection, such as to get the token. May block. Raises StreamActorsError if there can be no login."""
    trust: Trust | None = None
    """All settings of TLS; None: those of `authority`, `certificate` and `key`."""

    @property
    def tls(self) -> Trust | None:
        """The settings of TLS; None without TLS."""
        if self.trust is not None or self.authority is None:
            return self.trust
        return Trust(self.authority, certificate=self.certificate, key=self.key)


class UnknownMechanism(Refusal):
    """The broker does not offer the mechanism; `offered` are those that it has."""

    def __init__(self, code: ErrorCode, mechanism: str, offered: list[str]) -> None:
        super().__init__(code, f"the broker has no mechanism {mechanism}; it has {', '.join(offered)}")
        self.mechanism, self.offered = mechanism, offered


def log_in(credentials: ListenerCredentials, ask: Ask) -> None:
    """Log in if the credentials have a mechanism. May wait for a token. Raises Refusal with the broker's reason, AuthenticationFailed if the broker does
    not prove who it is."""
    if credentials.prepare is not None:
        credentials.prepare()
    steps = login_steps(credentials)
    answer: Any = None
    while True:
        try:
            api, body = steps.send(answer)
        except StopIteration:
            return
        answer = ask(api, body)


def login_steps(credentials: ListenerCredentials) -> Generator[Question, Any, int]:
    """As `log_in`, for a caller who must not block: the generator yields the requests and is sent their answers. Return how long the login
    lasts (ms), 0 forever."""
    if not credentials.mechanism:
        return 0
    chosen = yield HANDSHAKE, {"mechanism": credentials.mechanism}
    if chosen.error_code != ErrorCode.NONE:
        raise UnknownMechanism(ErrorCode(chosen.error_code), credentials.mechanism, list(chosen.mechanisms))
    if credentials.mechanism == "PLAIN":
        last = yield from _send(f"\0{credentials.user}\0{credentials.password}".encode())
        return int(last.session_lifetime_ms)
    if credentials.mechanism == "OAUTHBEARER" and credentials.token is not None:
        return (yield from _show(credentials.token()))
    kind = HASHES.get(credentials.mechanism)
    if kind is None:
        raise Refusal(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"this client logs in by PLAIN, SCRAM or OAUTHBEARER, not by {credentials.mechanism}",
        )
    exchange = ScramClient(kind, credentials.user, credentials.password)
    challenge = yield from _send(exchange.first())
    last = yield from _send(exchange.last(bytes(challenge.auth_bytes)))
    exchange.check(bytes(last.auth_bytes))
    return int(last.session_lifetime_ms)


def _show(token: BearerToken) -> Generator[Question, Any, int]:
    """Log in by a token (RFC 7628). A broker that refuses sends the reason first, and an error after the client's answer to it."""
    pairs = [f"auth=Bearer {token.text}", *(f"{name}={value}" for name, value in token.extensions.items())]
    answer = yield from _send(("n,,\x01" + "".join(f"{pair}\x01" for pair in pairs) + "\x01").encode())
    complaint = bytes(answer.auth_bytes)
    if complaint:
        yield from _send(b"\x01")
        raise AuthenticationFailed(f"the broker refuses the token: {complaint.decode(errors='replace')[:200]}")
    return int(answer.session_lifetime_ms)


def _send(message: bytes) -> Generator[Question, Any, Any]:
    answer = yield AUTHENTICATE, {"auth_bytes": message}
    if answer.error_code != ErrorCode.NONE:
        raise Refusal(ErrorCode(answer.error_code), answer.error_message)
    return answer
