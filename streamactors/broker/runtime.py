"""The foundation of all parts of a broker: configuration, clock, threads, logs, metadata and identity.

Owner: `server.Broker` makes it. Partitions, coordinators and the controller get a `Runtime`; handlers get the whole `Node`.
Used on the data plane's thread unless a field says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.dispatching.real_time import RealTime
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.helpers import Helpers
from streamactors.broker.log.manager import LogManager
from streamactors.broker.metadata.cache import MetadataCache
from streamactors.broker.network.limits import Limits
from streamactors.broker.network.outgoing.channel_maker import ChannelMaker
from streamactors.broker.purgatory import Purgatory
from streamactors.clock import Clock, VirtualClock

if TYPE_CHECKING:
    from streamactors.broker.quorum.voter_set import VoterSet


class Replicating(Protocol):
    """This broker's part in replication: `replication.Replicas`, or `NoReplicas` where it is its whole cluster."""

    @property
    def others(self) -> bool:
        """Whether other brokers may have replicas."""

    @property
    def lag_ms(self) -> float: ...

    @property
    def throttles(self) -> Any: ...

    @property
    def broker_epoch(self) -> int: ...

    @property
    def lease_end_ms(self) -> float: ...

    @property
    def lost_leaders(self) -> Sequence[int]: ...

    @property
    def refusing_leaders(self) -> Sequence[int]: ...

    def eligible(self, replica: int, broker_epoch: int) -> bool: ...

    def propose(self, partition: Any, proposal: Any) -> None: ...


class Runtime:
    """The foundation of one broker. `logs`, `node_id` and `cluster_id` are set when the data folder is open, `replication` before the first image."""

    logs: LogManager
    node_id: int
    cluster_id: str
    replication: Replicating

    def __init__(self, config: BrokerConfig, data_plane: Dispatcher) -> None:
        self.config = config  # replaced when a dynamic setting changes
        self.data_plane = data_plane
        self.clock: Clock = data_plane.clock
        self.helpers = Helpers(data_plane)
        self.metadata = MetadataCache()
        most = Limits.of(config).max_in_service
        self.produce_purgatory = Purgatory(
            "Produce", data_plane, config.producer_purgatory_purge_interval_requests, most
        )
        self.client_timers: Dispatcher | RealTime = data_plane
        """Timers for clients: answers to Fetch, sessions, rebalances. They use real time, even if the broker has a virtual clock."""
        if isinstance(self.clock, VirtualClock):
            self.client_timers = RealTime(data_plane)
        self.fetch_purgatory = Purgatory(
            "Fetch", self.client_timers, config.fetch_purgatory_purge_interval_requests, most
        )
        self.to_brokers = ChannelMaker(config.inter_broker_listener_name or "PLAINTEXT")
        self.to_controllers = ChannelMaker()
        self.voters: VoterSet | None = None  # as the metadata log names them now, with kraft.version 1
        self.on_fault: Callable[[str], object] = lambda why: None
        """Ends the broker, which cannot continue; the sentence says why. On any thread; it does not wait. The server sets it."""
        self.purgatories: Final = (self.fetch_purgatory, self.produce_purgatory)

    @property
    def controllers(self) -> Mapping[int, tuple[str, int]]:
        """The addresses of the voters of the metadata log by id: as the log names them, else as the settings do."""
        return self.config.voters if self.voters is None else self.voters.addresses(self.to_controllers.listener)

    def stop_client_timers(self) -> None:
        """The broker stops: end the thread of the real-time timers, if there is one."""
        if isinstance(self.client_timers, RealTime):
            self.client_timers.stop()
