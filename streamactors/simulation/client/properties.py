"""The properties of a simulated client, with librdkafka's names and defaults.

Owner: a client. Properties that a simulation cannot honour are ignored (TLS, sockets) or refused (auto-commit)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.errors import failure

_ALIASES: Final = {
    "retries": "message.send.max.retries",
    "acks": "request.required.acks",
    "queue.buffering.max.ms": "linger.ms",
    "delivery.timeout.ms": "message.timeout.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "max.in.flight.requests.per.connection": "max.in.flight",
}
_TRUE: Final = frozenset({"true", "t", "1"})


class ClientProperties:
    """Reads values of properties, as librdkafka parses them."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = {_ALIASES.get(name, name): value for name, value in given.items()}

    def number(self, name: str, default: float) -> float:
        """Return a number. Raises KafkaException (_INVALID_ARG)."""
        value = self._given.get(name, default)
        try:
            return float(value)
        except (TypeError, ValueError):
            text = f'Invalid value "{value}" for configuration property "{name}"'
            raise failure(ck.KafkaError._INVALID_ARG, text) from None

    def count(self, name: str, default: int) -> int:
        """Return a whole number. Raises KafkaException (_INVALID_ARG)."""
        return int(self.number(name, default))

    def text(self, name: str, default: str = "") -> str:
        """Return a string."""
        value = self._given.get(name)
        return default if value is None else str(value)

    def flag(self, name: str, default: bool) -> bool:
        """Return whether a property is on."""
        value = self._given.get(name)
        return default if value is None else str(value).lower() in _TRUE

    def callback(self, name: str) -> Callable[..., Any] | None:
        """Return a callback, None without one."""
        return self._given.get(name)

    def acks(self) -> int:
        """Return the acknowledgements that a producer waits for; -1: of all replicas in sync."""
        text = self.text("request.required.acks", "-1")
        return -1 if text == "all" else int(text)
