"""A listener: a name, the address it is bound to, and the address that clients are told to connect to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Listener:
    """One of the broker's listeners. Ports are those really bound."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int

    def __str__(self) -> str:
        return f"{self.name}://{address(self.advertised_host, self.advertised_port)}"


def address(host: str, port: int) -> str:
    """Return host:port as it is written: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
