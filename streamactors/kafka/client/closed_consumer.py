"""What a closed consumer has in place of librdkafka's client."""

from __future__ import annotations

from typing import Any

from streamactors.kafka.errors import ConsumerFailed


class ClosedConsumer:
    """Replaces the client of a closed consumer."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def close(self) -> None:
        """It is closed."""

    def __getattr__(self, _: str) -> Any:
        raise ConsumerFailed(f"the consumer of {self._servers} is closed")
