"""A broker in the process of whoever wants it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from streamactors.broker.network.listener import address
from streamactors.broker.server import Broker
from streamactors.broker.startup import Assembled, assemble, parse_address_of_metrics


def assemble_arguments(arguments: Mapping[str, Any]) -> tuple[Assembled, tuple[str, int] | None]:
    """Return what a Cluster's arguments come to: the configuration, and where metrics are served."""
    metrics = arguments["metrics"]
    assembled = assemble(
        listen=arguments["listen"],
        advertise=arguments["advertise"],
        data=arguments["data"],
        settings=arguments["settings"],
    )
    return assembled, None if metrics is None else parse_address_of_metrics(metrics)


def bootstrap_servers(broker: Broker) -> str:
    """Return the addresses that clients are told to use, by comma."""
    return ",".join(address(each.advertised_host, each.advertised_port) for each in broker.node.listeners)


_LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised, never listened on


def local_address(broker: Broker) -> str:
    """Return where the broker's own machine reaches it, whatever other machines are told."""
    first = broker.node.listeners[0]
    return address(_LOOPBACK.get(first.host, first.host), first.port)


class EmbeddedBroker:
    """Started when made; `close` ends it."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._assembled, metrics = assemble_arguments(arguments)
        self._broker = Broker(self._assembled.config, self._assembled.folder)
        self._metrics: Any = None
        try:
            self._broker.start()
            if metrics is not None:
                from streamactors.broker.metrics_endpoint import MetricsEndpoint

                self._metrics = MetricsEndpoint(self._broker.node, metrics)
        except BaseException:
            self.close()
            raise
        self.bootstrap_servers = bootstrap_servers(self._broker)
        self.local_address = local_address(self._broker)
        self.cluster_id = self._broker.node.cluster_id
        self.data_folder: Path = self._assembled.folder
        self.pid = os.getpid()

    def close(self) -> None:
        """Stop everything and remove what was temporary."""
        if self._metrics is not None:
            self._metrics.close()
        self._broker.stop()
        self._assembled.discard()
