"""The node: everything of one broker that a handler can reach.

Owner: `server.Broker` fills it in; afterwards it does not change, except for what its parts do themselves. Unless a
part says otherwise it is used on the data plane's thread only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.dispatcher import Dispatcher
from streamactors.broker.api import Routes
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.helpers import Helpers
from streamactors.broker.network.listener import Listener
from streamactors.broker.purgatory import Purgatory
from streamactors.broker.security import AllowAll, Authoriser
from streamactors.clock import Clock

if TYPE_CHECKING:
    from streamactors.broker.log.manager import LogManager
    from streamactors.broker.network.processor import Processor
    from streamactors.broker.producer_ids import ProducerIds
    from streamactors.broker.replication.partitions import Partitions


class Node:
    """The parts of a broker, by name."""

    node_id: int
    cluster_id: str
    logs: LogManager
    processor: Processor
    partitions: Partitions
    producer_ids: ProducerIds
    controller: Any
    groups: Any
    transactions: Any

    def __init__(self, config: BrokerConfig, data_plane: Dispatcher, routes: Routes) -> None:
        self.config = config
        self.data_plane = data_plane
        self.clock: Clock = data_plane.clock
        self.routes = routes
        self.helpers = Helpers(data_plane)
        self.authoriser: Authoriser = AllowAll()
        self.listeners: list[Listener] = []
        self.produce_purgatory = Purgatory("Produce", data_plane, config.producer_purgatory_purge_interval_requests)
        self.fetch_purgatory = Purgatory("Fetch", data_plane, config.fetch_purgatory_purge_interval_requests)
        self.purgatories: Final = (self.fetch_purgatory, self.produce_purgatory)
        self.controller = None
        self.groups = None
        self.transactions = None

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Return (host, port) that clients of this listener are told to connect to. Raises KeyError if there is no such
        listener."""
        for listener in self.listeners:
            if listener.name == listener_name:
                return listener.advertised_host, listener.advertised_port
        raise KeyError(listener_name)
