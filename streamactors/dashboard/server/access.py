"""Who may read and change: a token that is exchanged for a cookie, and checks of Host and Origin.

The token stands in the fragment of the page's address, which browsers do not send; the page posts it once, and EventSource, which sends no
headers, sends the cookie. Programs send `Authorization: Bearer TOKEN`. Pure; owner: the server.

A page of another origin cannot send the cookie (SameSite=Strict) and its requests name their origin. A page at another port of this machine
is of the same site, but not of the same origin. A change is JSON, which a form cannot send, and must name its origin if a cookie admits it. A name that an attacker points to this
machine (DNS rebinding) is refused by the Host check: addresses and the names of this machine are allowed, other names only where given."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

SAME: Final = ("same-origin", "none")
ANY: Final = "*"


class Access:
    """`hosts`: names under which the page is reached besides those of this machine, as behind a proxy; "*" allows every name.
    `changes`: the page may change something, and does not only read."""

    def __init__(
        self, token: str | None = None, hosts: Iterable[str] = (), host: str = "127.0.0.1", changes: bool = False
    ) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.changes = changes
        self.cookie = "streamactors"  # with the port, since browsers send cookies to every port of a host
        self._session = secrets.token_urlsafe(24)
        self._given = {each.lower() for each in hosts} - {ANY}
        self._names = {"localhost", host.lower(), *(each.lower() for each in hosts)}
        if not _is_loopback(host):
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def served_at(self, port: int) -> None:
        """Name the cookie after the port."""
        self.cookie = f"streamactors_{port}"

    def host_allowed(self, header: str | None) -> bool:
        """Return whether a Host header names this machine."""
        name = _name(header)
        return name is not None and (ANY in self._names or name in self._names or _is_address(name))

    def origin_allowed(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request comes from our page, or from no page."""
        if headers.get("sec-fetch-site", "none") not in SAME:
            return False
        origin = headers.get("origin")
        if origin is None:
            return True
        there = urlsplit(origin).netloc.lower()
        return bool(there) and there in (headers.get("host", "").strip().lower(), *self._given)

    def is_token(self, given: str) -> bool:
        """Return whether a string is the token."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def set_cookie(self) -> str:
        """Return the value of the header that gives a browser its session."""
        return f"{self.cookie}={self._session}; HttpOnly; SameSite=Strict; Path=/"

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request carries the session or the token."""
        if self._bears_token(headers):
            return True
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie and hmac.compare_digest(value.encode("utf-8", "replace"), self._session.encode()):
                return True
        return False

    def admits_change(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request that is admitted may change something: browsers name the origin of each of these."""
        return "origin" in headers or self._bears_token(headers)

    def _bears_token(self, headers: Mapping[str, str]) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self.is_token(given.strip())


def _name(header: str | None) -> str | None:
    """Return the host of a Host header without its port; None if it is no host."""
    if header is None:
        return None
    try:
        return urlsplit(f"//{header.strip()}").hostname
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
