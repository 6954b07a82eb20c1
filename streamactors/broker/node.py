"""The node: the parts of one broker that a handler can use.

Owner: `server.Broker` sets the fields while it starts. Handlers read them on the data plane's thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.controller.auto_creation import AutoCreation
from streamactors.broker.controller.command import Command
from streamactors.broker.group.groups import Groups
from streamactors.broker.log.producers.refused_batches import RefusedBatches
from streamactors.broker.network.listener import Listener
from streamactors.broker.network.processor import Processor
from streamactors.broker.producer_ids import ProducerIds
from streamactors.broker.quotas.charging import Charging
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.replication.sessions.fetch_session import Cached, FetchSession
from streamactors.broker.replication.sessions.session_cache import SessionCache
from streamactors.broker.runtime import Runtime
from streamactors.broker.security.acl_authoriser import AclAuthoriser, super_users_of
from streamactors.broker.security.rights import AllowAll, Authoriser
from streamactors.broker.share.fetching.share_partitions import SharePartitions
from streamactors.broker.share.state.share_states import ShareStates
from streamactors.broker.transaction.transactions import Transactions

if TYPE_CHECKING:
    from streamactors.broker.group.streams.internal_topics import InternalTopics
    from streamactors.broker.replication.folder_moves import FolderMoves
    from streamactors.broker.requests.api import Routes
    from streamactors.broker.requests.request_times import RequestTimes
    from streamactors.broker.security.delegation_tokens import DelegationTokens
    from streamactors.broker.telemetry.telemetry import Telemetry


class ControllerHere(Protocol):
    """The controller of this process, which requests ask: `controller.Controller`. A node without one refuses: `membership.NoController`."""

    @property
    def active(self) -> bool: ...

    def submit(self, command: Command, reply: Callable[[Any], object]) -> None: ...


class ActiveController(Protocol):
    """The way to the controller that leads, in whichever process it is: for what the broker itself wants."""

    def submit(self, command: Command, reply: Callable[[Any], object]) -> None: ...


class Forwards(Protocol):
    """Has the active controller serve requests that only it can serve: `forwarding.Forwarding`."""

    def takes(self, request: Any, api: Any, frame: memoryview) -> bool:
        """Whether the request is answered elsewhere. False: serve it here."""


class NothingForwarded:
    """The controller of this process is the only one: every request is served here."""

    def takes(self, request: Any, api: Any, frame: memoryview) -> bool:
        """Return False."""
        return False


class Node(Runtime):
    """The parts of a broker, by name."""

    processor: Processor
    partitions: PartitionTable
    producer_ids: ProducerIds
    controller: ControllerHere
    active_controller: ActiveController
    forwarding: Forwards
    groups: Groups
    transactions: Transactions
    share_states: ShareStates
    share_partitions: SharePartitions

    def __init__(self, config: BrokerConfig, data_plane: Dispatcher, served: Routes, controller_routes: Routes) -> None:
        """`served` are the APIs of the listeners for clients, `controller_routes` those of the listener for controllers."""
        super().__init__(config, data_plane)
        self.served = served
        self.controller_routes = controller_routes
        self.authoriser: Authoriser = AllowAll()
        self.acls: AclAuthoriser | None = None
        if config.authorizer_class_name:
            self.acls = self.authoriser = AclAuthoriser(
                super_users_of(config.super_users), everyone_without_entries=config.allow_everyone_if_no_acl_found
            )
        self.fetch_sessions: Final = SessionCache(
            config.max_incremental_fetch_session_cache_slots, _leave_session, Random()
        )
        self.refused_batches: Final = RefusedBatches()
        self.listeners: list[Listener] = []
        self.charging: Charging | None = None  # None: no client has a quota
        self.request_times: RequestTimes | None = None  # None: nobody looks at the times of requests
        self.controller_listener: Listener | None = None  # set if other brokers may join
        self.leader_id = -1  # of the metadata log, -1 if none is known; a controller knows it
        self.receives_telemetry = False  # set if the metrics of clients are shown somewhere
        self.folder_moves: FolderMoves | None = None  # set if the broker has several data folders

    def served_on(self, listener: Listener) -> Routes:
        """Return the table of APIs of a listener."""
        return self.controller_routes if listener.for_controllers else self.served

    @cached_property
    def auto_creation(self) -> AutoCreation:
        """Creates topics that requests of clients need."""
        return AutoCreation(self)

    @cached_property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens."""
        from streamactors.broker.security.delegation_tokens import (
            DelegationTokens,  # an open broker loads no cryptography
        )

        return DelegationTokens(self.metadata, self.config.delegation_token_secret_key, self.clock.wall_ms)

    @cached_property
    def streams_topics(self) -> InternalTopics:
        """Creates the internal topics of streams groups."""
        from streamactors.broker.group.streams.internal_topics import InternalTopics  # only for streams groups

        return InternalTopics(self.active_controller.submit)

    @cached_property
    def telemetry(self) -> Telemetry:
        """The metrics of clients."""
        from streamactors.broker.telemetry.telemetry import Telemetry  # only when a client asks or somebody looks

        return Telemetry(self)

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Return the advertised (host, port) of a listener. Raises KeyError if there is no such listener."""
        for listener in self.listeners:
            if listener.name == listener_name:
                return listener.advertised_host, listener.advertised_port
        raise KeyError(listener_name)


def _leave_session(cached: Cached, session: FetchSession) -> None:
    """A session has given up a partition."""
    if cached.wanted is not None and cached.wanted.partition is not None:
        cached.wanted.partition.sessions.pop(session, None)
