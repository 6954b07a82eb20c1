"""Recognising clients of other protocols by the first bytes they send.

Every one of them reads as a size beyond any limit, so this is only asked about connections that are being closed
anyway."""

from __future__ import annotations

from typing import Final

_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ", b"HTTP")


def recognise(head: bytes) -> str | None:
    """Return what the client seems to speak, and what to tell its owner; None if that is anybody's guess."""
    if len(head) >= 3 and head[0] == 0x16 and head[1] == 3:
        return "a TLS hello on a plain listener; set the client's security.protocol to PLAINTEXT"
    if head[:4] in _HTTP:
        return "an HTTP request; this is a Kafka listener"
    return None
