"""A broker in the caller's process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from streamactors.broker.http.endpoint_address import MetricsEndpoint
from streamactors.broker.launch.startup import Assembled, assemble
from streamactors.broker.network.listener import address
from streamactors.broker.server.internals import look_into
from streamactors.broker.server.server import Broker
from streamactors.clock import Clock


def assemble_arguments(arguments: Mapping[str, Any]) -> tuple[Assembled, MetricsEndpoint | None]:
    """Return the configuration of a Cluster's arguments, and where its metrics are served."""
    metrics = arguments["metrics"]  # the fields of a MetricsEndpoint
    assembled = assemble(
        listen=arguments["listen"],
        advertise=arguments["advertise"],
        data=arguments["data"],
        settings=arguments["settings"],
        add_scram=arguments.get("add_scram", ()),
        acls=arguments.get("acls", ()),
        temporary=arguments.get("temporary", False),
    )
    if metrics is None:
        return assembled, None
    return assembled, MetricsEndpoint(*metrics)


def bootstrap_servers(broker: Broker) -> str:
    """Return the advertised addresses, separated by commas."""
    return ",".join(address(each.advertised_host, each.advertised_port) for each in broker.node.listeners)


_LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, never listened on


def local_address(broker: Broker) -> str:
    """Return the address of the broker on its own machine, whatever it advertises."""
    first = broker.node.listeners[0]
    return address(_LOOPBACK.get(first.host, first.host), first.port)


def ports(broker: Broker) -> list[int]:
    """Return the ports of the listeners, in the order of `listen`."""
    return [each.port for each in broker.node.listeners if not each.for_controllers]


def same_place(arguments: Mapping[str, Any], bound: Sequence[int], folder: Path, *, temporary: bool) -> dict[str, Any]:
    """Return the arguments of a Cluster's broker with the ports and the data folder of one that has run with them."""
    parts = [part for each in arguments["listen"] for part in each.split(",")]
    listen = [f"{part.rpartition(':')[0]}:{port}" for part, port in zip(parts, bound, strict=True)]
    return {**arguments, "listen": listen, "data": str(folder), "temporary": temporary}


class EmbeddedBroker:
    """Starts when it is made; `close` stops it."""

    def __init__(self, arguments: Mapping[str, Any], clock: Clock | None = None) -> None:
        self._assembled, metrics = assemble_arguments(arguments)
        self._broker = Broker(self._assembled.config, self._assembled.folder, clock, first=self._assembled.first)
        self._metrics: Any = None
        try:
            self._broker.node.receives_telemetry = metrics is not None
            self._broker.start()
            if metrics is not None:
                from streamactors.broker.http.metrics_endpoint import serve_metrics_of

                self._metrics = serve_metrics_of(self._broker.node, metrics)
        except BaseException:
            self.close()
            raise
        self.bootstrap_servers = bootstrap_servers(self._broker)
        self.local_address = local_address(self._broker)
        self.cluster_id = self._broker.node.cluster_id
        self.data_folder: Path = self._assembled.folder
        self.pid = os.getpid()
        self.ports = ports(self._broker)

    def internals(self) -> dict[str, Any] | None:
        """Return what the broker knows of itself, see `broker/server/internals.py`; None if its data plane does not answer within five seconds."""
        return look_into(self._broker.internals)

    def arguments_again(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a broker at the same address with the same data."""
        return same_place(arguments, self.ports, self.data_folder, temporary=self._assembled.temporary)

    def close(self, *, keep: bool = False) -> None:
        """Stop the broker and remove a temporary folder, unless it is to `keep`."""
        try:
            if self._metrics is not None:
                self._metrics.close()
        finally:
            try:
                self._broker.stop()
            finally:
                if not keep:
                    self._assembled.discard()
