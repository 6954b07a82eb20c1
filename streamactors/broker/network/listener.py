"""A listener: a name, its bound address, and its advertised address."""

from __future__ import annotations

from dataclasses import dataclass

from streamactors.broker.security.protection import OPEN, Protection


@dataclass(slots=True)
class Listener:
    """One listener of the broker, with the ports that are really bound."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    protection: Protection = OPEN
    for_controllers: bool = False

    def __str__(self) -> str:
        return f"{self.name}://{address(self.advertised_host, self.advertised_port)}"


def address(host: str, port: int) -> str:
    """Return host:port, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
