"""Disturbed links to other nodes, for tests: requests to an address are held back forever, or for some time.

Owner: one process; only `Cluster(brokers=…)` changes the links, and only in the processes that it starts. The sender of a request
holds it back, and drops answers that come over a cut link: a cut is complete when both sides know of it. A held request has the usual
timeout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Address = tuple[str, int]


class Links:
    """The disturbed links by address. Read by channels on any thread, and replaced as a whole."""

    def __init__(self) -> None:
        self._cut: frozenset[Address] = frozenset()
        self._delays_ms: Mapping[Address, float] = {}

    def disturb(self, cut: Iterable[Address], delays_ms: Mapping[Address, float]) -> None:
        """Cut the links to these addresses, and delay requests to those; every other link is whole again."""
        self._delays_ms = dict(delays_ms)
        self._cut = frozenset(cut)

    def follow(self, message: Mapping[str, Any]) -> None:
        """Carry out a message of the parent: `cut` has addresses, `slow` has pairs of an address and ms."""
        self.disturb(
            [(str(host), int(port)) for host, port in message.get("cut", ())],
            {(str(host), int(port)): float(ms) for (host, port), ms in message.get("slow", ())},
        )

    def is_cut(self, address: Address) -> bool:
        """Whether nothing may be sent to an address."""
        return address in self._cut

    def delay_ms(self, address: Address) -> float:
        """How long a request to an address waits before it is sent."""
        return self._delays_ms.get(address, 0.0) if self._delays_ms else 0.0


LINKS = Links()
"""The links of this process."""
