"""Clients of other protocols: recognised by the first bytes they send, and reported without filling the log.

Owner: the processor. Every one of them reads as a size beyond any limit, so the bytes are only asked about connections that
are being closed anyway."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streamactors.broker.network.connection import Connection

_log = logging.getLogger("streamactors.broker.network")

SILENT_MS: Final = 60_000
_HOSTS: Final = 1_000
_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ", b"HTTP")


def recognise(head: bytes) -> str | None:
    """Return what the client seems to speak, and what to tell its owner; None if that is anybody's guess."""
    if len(head) >= 3 and head[0] == 0x16 and head[1] == 3:
        return "a TLS hello on a plain listener; set the client's security.protocol to PLAINTEXT"
    if head[:4] in _HTTP:
        return "an HTTP request; this is a Kafka listener"
    return None


class Foreigners:
    """Says of a host once a minute what it tries. Such a client connects again twenty times a second, for ever."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._said: dict[tuple[str, str], tuple[float, int]] = {}  # (host, what) -> when, and how often since

    def report(self, connection: Connection, what: str) -> None:
        """Log that the connection `what`, or only count it when the same host did so within the last minute."""
        key, now_ms = (connection.host, what), self._now_ms()
        when_ms, since = self._said.get(key, (now_ms - SILENT_MS, 0))
        if now_ms - when_ms < SILENT_MS:
            self._said[key] = when_ms, since + 1
            return
        if len(self._said) >= _HOSTS:
            self._said.clear()
        self._said[key] = now_ms, 0
        _log.warning(
            "connection of %s %s%s", connection.peer, what, f" ({since} times more until now)" if since else ""
        )
