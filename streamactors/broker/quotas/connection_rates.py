"""How fast connections may come: from one address, by quotas of the entity `ip` (KIP-612), and to the broker as a whole. Pure.

Source: Kafka's ConnectionQuotas. A connection above the rate of its address is closed, after a delay; above the rate of the broker,
accepting pauses."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from streamactors.broker.metadata.security_record import QuotaEntity
from streamactors.broker.quotas.per_client import PerClient
from streamactors.broker.quotas.sampled_rate import SampledRate

KEY: Final = "connection_creation_rate"


class ConnectionRates:
    """The rates of new connections. `most_per_second` is max.connection.creation.rate."""

    def __init__(self, windows: int, window_ms: float, most_per_second: int) -> None:
        self.most_per_second = most_per_second
        self._window_ms = window_ms
        self._limits: dict[str | None, float] = {}
        self._rates: PerClient[str, SampledRate] = PerClient(lambda: SampledRate(windows, window_ms))
        self._all = SampledRate(windows, window_ms)

    def use(self, quotas: Mapping[frozenset[QuotaEntity], Mapping[str, float]]) -> None:
        """Replace the quotas of addresses. A host name means all its addresses."""
        limits: dict[str | None, float] = {}
        for entity, values in quotas.items():
            names = dict(entity)
            if "ip" in names and KEY in values:
                name = names["ip"]
                for address in (None,) if name is None else addresses_of(name):
                    limits[address] = values[KEY]
        self._limits = limits

    def delay_of(self, address: str, now_ms: float) -> float:
        """Count a new connection of an address. Return 0 below its rate, else the delay in ms after which the connection is closed."""
        limit = self._limits.get(address, self._limits.get(None))
        if limit is None:
            return 0.0
        rate = self._rates.of(address, now_ms)
        delay_ms = self._delay(rate, limit, now_ms)
        if delay_ms:
            rate.record(-1, now_ms)  # it is not served
        return delay_ms

    def pause(self, now_ms: float) -> float:
        """Count a new connection; return for how many ms no further one should be accepted."""
        return self._delay(self._all, self.most_per_second, now_ms)

    def _delay(self, rate: SampledRate, limit: float, now_ms: float) -> float:
        rate.record(1, now_ms)
        return min(rate.throttle_ms(limit, now_ms), self._window_ms)


def addresses_of(name: str) -> list[str]:
    """Return the addresses of a host name or address; none if it cannot be resolved."""
    with suppress(OSError, UnicodeError):
        return sorted({str(info[4][0]) for info in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})
    return []
