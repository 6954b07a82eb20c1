"""The node: the parts of one broker that a handler can use.

Owner: `server.Broker` sets the fields while it starts. Handlers read them on the data plane's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.controller.auto_creation import AutoCreation
from streamactors.broker.controller.command import Command
from streamactors.broker.group.groups import Groups
from streamactors.broker.log.producers.refused_batches import RefusedBatches
from streamactors.broker.metadata.metadata_record import Endpoint
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
from streamactors.broker.transaction.transactions import Transactions

if TYPE_CHECKING:
    from streamactors.broker.security.delegation_tokens import DelegationTokens


class Served(Protocol):
    """The table of APIs for ApiVersions."""

    @property
    def ranges(self) -> Sequence[tuple[int, int, int]]: ...


class Routes(Served, Protocol):
    """A table of APIs by key: `api.Routes`."""

    @property
    def loaded(self) -> Mapping[int, Any]: ...

    def get(self, key: int) -> Any: ...


class Commands(Protocol):
    """Carries out commands: the controller in this process, or the way to one in another process."""

    def start(self) -> None: ...

    def register(self, endpoints: Iterable[Endpoint]) -> None: ...

    def submit(self, command: Command, reply: Callable[[Any], object]) -> None: ...

    def stop(self) -> None: ...


class Moves(Protocol):
    """Moves replicas between data folders: `replication.folder_moves.FolderMoves`."""

    def move(self, partition: Any, target: Path) -> None: ...

    def future_of(self, partition: Any) -> Any: ...


class Forwards(Protocol):
    """Sends requests to the active controller as they are: `forwarding.Forwarding`."""

    def forward(self, request: Any, frame: memoryview, whole: Callable[[Any], Any] | None = None) -> None: ...


class Node(Runtime):
    """The parts of a broker, by name."""

    processor: Processor
    partitions: PartitionTable
    producer_ids: ProducerIds
    controller: Commands
    groups: Groups
    transactions: Transactions

    def __init__(self, config: BrokerConfig, data_plane: Dispatcher, served: Served) -> None:
        super().__init__(config, data_plane)
        self.served = served
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
        self.controller_listener: Listener | None = None  # set if other brokers may join
        self.controller_routes: Routes | None = None  # the APIs of that listener
        self.leader_id = -1  # of the metadata log, -1 if none is known; a controller knows it
        self.is_active: Callable[[], bool] = lambda: True  # whether the controller in this process leads the cluster
        self.folder_moves: Moves | None = None  # set if the broker has several data folders
        self.forwarding: Forwards | None = None  # set if the controllers are other processes

    def served_on(self, listener: Listener) -> Served:
        """Return the table of APIs of a listener."""
        routes = self.controller_routes
        return routes if listener.for_controllers and routes is not None else self.served

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
