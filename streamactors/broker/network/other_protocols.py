"""Clients of other protocols: recognised by their first bytes, and logged at most once a minute.

Owner: the processor. Read as a request size, these bytes exceed every limit, so the check runs only when a connection closes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from streamactors.log_limit import LogLimit

_log = logging.getLogger("streamactors.broker.network")

SILENT_MS: Final = 60_000
_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ", b"HTTP")


def recognise(head: bytes) -> str | None:
    """Return the protocol that the client seems to speak, with advice; None if it is unknown."""
    if len(head) >= 3 and head[0] == 0x16 and head[1] == 3:
        return "a TLS hello on a plain listener; set the client's security.protocol to PLAINTEXT"
    if head[:4] in _HTTP:
        return "an HTTP request; this is a Kafka listener"
    return None


class NonKafkaClients:
    """Logs clients of other protocols: each host once a minute, because such a client may reconnect twenty times a second."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._limit = LogLimit(SILENT_MS / 1_000, lambda: now_ms() / 1_000)

    def report(self, host: str, peer: str, what: str) -> None:
        """Log the event, or only count it if it was logged for the same host within the last minute."""
        self._limit.log(_log, logging.WARNING, (host, what), "connection of %s %s", peer, what)
