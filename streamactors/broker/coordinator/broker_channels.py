"""Connections from this broker to the other brokers of its cluster, one to each, for requests of coordinators.

Owner: a component with coordinators, on the data plane's thread. Requests have a fixed version, which every broker of the cluster supports;
ApiVersions is not asked."""

from __future__ import annotations

from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.outgoing.channel import Channel
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.runtime import Runtime


class BrokerChannels:
    """Connections to the other brokers, one to each. `purpose` is the end of the client id."""

    def __init__(self, node: Runtime, purpose: str) -> None:
        self._node = node
        self._purpose = purpose
        self._buffers = Buffers()
        self._channels: dict[int, Channel] = {}

    def to(self, broker_id: int) -> Channel | None:
        """Return the connection to a broker, None if it is not alive."""
        address = self._address(broker_id)
        channel = self._channels.get(broker_id)
        if channel is not None and channel.address != address:
            self._channels.pop(broker_id).close("the broker has another address")
            channel = None
        if channel is None and address is not None:
            node = self._node
            name = f"broker-{node.node_id}-{self._purpose}"
            channel = node.to_brokers.channel(node.data_plane, address, name, self._buffers, asks_versions=False)
            self._channels[broker_id] = channel
        return channel

    def close(self) -> None:
        """Close the connections."""
        for channel in self._channels.values():
            channel.close("this broker stops")
        self._channels.clear()

    def _address(self, broker_id: int) -> Address | None:
        broker = self._node.metadata.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        endpoint = broker.endpoint(self._node.to_brokers.listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)
